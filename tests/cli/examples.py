# SPDX-License-Identifier: Apache-2.0
"""Finds the command lines in documents, so that tests can run them."""
import re
import shlex

FENCE = re.compile(r"^\s*```(.*)$")
FIGURE = re.compile(r"\d[\d.]*(?:e[-+]\d+)?")
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


def blocks(text):
    """(words after the fence, lines) of each code block of a Markdown text."""
    block, words = None, []
    for line in text.splitlines():
        fence = FENCE.match(line)
        if not fence:
            if block is not None:
                block.append(line)
        elif block is None:
            block, words = [], fence.group(1).split()
        else:
            yield words, block
            block = None


def in_markdown(text, skip=("long", "output")):
    """Those in code blocks of a Markdown text; a block whose fence says "long" (```sh long) is left out."""
    return [command for words, block in blocks(text) if not set(words) & set(skip) for command in commands(block)]


def outputs(text):
    """(arguments, lines, measured) of each block ```output: what the last command of the block before it prints. In a block
    ```output measured a figure stands for any figure, because it differs from machine to machine."""
    last = None
    for words, block in blocks(text):
        if words[:1] == ["output"]:
            yield last, block, "measured" in words
        elif found := commands(block):
            last = found[-1]


def unprinted(lines, printed, measured):
    """The first of the lines that is not among those printed, in this order; None where all are. Others may lie between."""
    def shape(line):
        return " ".join(FIGURE.sub("#", line).split()) if measured else line.rstrip()
    rest = iter([shape(line) for line in printed.splitlines()])
    return next((line for line in lines if line.strip() and shape(line) not in rest), None)


def in_help(text):
    """Those under "Examples:" of a --help."""
    _, _, after = text.partition("\nExamples:\n")
    return commands(after.splitlines())
