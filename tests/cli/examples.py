"""Finds the command lines in documents, so that tests can run them."""
import re
import shlex

FENCE = re.compile(r"^\s*```(.*)$")
COMMAND = re.compile(r"^\s*(?:\$ )?(?:\S*/)?dovetail\s+(.*)$")


def joined(lines):
    """Lines with those that end in a backslash continued."""
    whole = ""
    for line in lines:
        if line.rstrip().endswith("\\"):
            whole += line.rstrip()[:-1] + " "
            continue
        yield whole + line
        whole = ""


def commands(lines):
    """The arguments of each command line among `lines`; comments after # are no part of them."""
    found = (COMMAND.match(line) for line in joined(lines))
    return [shlex.split(match.group(1), comments=True) for match in found if match]


def in_markdown(text, skip=("long", "output")):
    """Those in code blocks of a Markdown text; a block whose fence says "long" (```sh long) is left out."""
    result, block, words = [], None, []
    for line in text.splitlines():
        fence = FENCE.match(line)
        if not fence:
            if block is not None:
                block.append(line)
        elif block is None:
            block, words = [], fence.group(1).split()
        else:
            if not set(words) & set(skip):
                result += commands(block)
            block = None
    return result


def in_help(text):
    """Those under "Examples:" of a --help."""
    _, _, after = text.partition("\nExamples:\n")
    return commands(after.splitlines())
