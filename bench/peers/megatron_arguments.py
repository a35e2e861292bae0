#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records the arguments of Megatron-LM's parser at one commit, as tests/data/frameworks/megatron-lm.csv has them.

Usage: megatron_arguments.py GIT_DIRECTORY COMMIT > megatron-lm.csv

The parser is read, not run, so that neither PyTorch nor the rest of Megatron-LM is needed: calls of add_argument, and the
fields of the data classes that its ArgumentGroupFactory turns into arguments, by the rules of that class."""
import ast
import csv
import subprocess
import sys

PARSER = "megatron/training/arguments.py"
VERSION = "megatron/core/package_info.py"
CLASSES = ("megatron/core", "megatron/training/config")
COLUMNS = ("name", "action", "type", "nargs", "choices")


class Repository:
    def __init__(self, directory, commit):
        self.directory, self.commit = directory, commit
        self.parser = ast.parse(self.git("show", f"{commit}:{PARSER}"))
        self.constants = {}  # names at the top of the parser's module, by their syntax
        self.classes = {}
        for path in self.git("ls-tree", "-r", "--name-only", commit, *CLASSES).splitlines():
            if path.endswith(".py"):
                for node in ast.parse(self.git("show", f"{commit}:{path}")).body:
                    if isinstance(node, ast.ClassDef):
                        self.classes.setdefault(node.name, node)

    def git(self, *words):
        return subprocess.run(("git", "--git-dir", self.directory, *words), check=True, capture_output=True, text=True).stdout

    def members(self, name):
        """Of an enumeration; None where the name is of none."""
        found = self.classes.get(name)
        if found is None or "Enum" not in ast.unparse(found.bases[0] if found.bases else ast.Constant("")):
            return None
        return [target.id for node in found.body if isinstance(node, ast.Assign) for target in node.targets]

    def fields(self, name):
        """(name, annotation, default, words of field()) of a data class, those of its bases first."""
        found = self.classes.get(name)
        if found is None:
            return
        for base in found.bases:
            yield from self.fields(ast.unparse(base).split(".")[-1])
        for node in found.body:
            if isinstance(node, ast.AnnAssign) and "ClassVar" not in ast.unparse(node.annotation):
                words = {}
                if isinstance(node.value, ast.Call) and ast.unparse(node.value.func).split(".")[-1] == "field":
                    words = {word.arg: word.value for word in node.value.keywords}
                yield node.target.id, node.annotation, words.get("default", node.value if not words else None), words


def literal(node, fallback=None):
    try:
        return ast.literal_eval(node)
    except ValueError:
        return fallback


def choices_of(repository, node):
    """Of choices=...: a literal, all members of an enumeration or their names."""
    given = literal(node)
    if given is not None:
        return list(given)
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name) and (members := repository.members(inner.id)) is not None:
            return members
    return None


def of_annotation(repository, annotation):
    """{type, nargs, choices} as ArgumentGroupFactory infers them; None where it cannot."""
    text = ast.unparse(annotation)
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return of_annotation(repository, ast.parse(annotation.value, mode="eval").body)
    if isinstance(annotation, ast.BinOp):  # X | None
        return of_annotation(repository, annotation.left)
    if isinstance(annotation, ast.Subscript):
        outer, inner = ast.unparse(annotation.value).split(".")[-1], annotation.slice
        if outer == "Optional":
            return of_annotation(repository, inner)
        if outer in ("List", "list"):
            of_each = of_annotation(repository, inner)
            return of_each and {**of_each, "nargs": "+"}
        if outer == "Literal":
            values = [literal(each) for each in (inner.elts if isinstance(inner, ast.Tuple) else [inner])]
            return {"type": type(values[0]).__name__, "choices": values}
        return None
    members = repository.members(text.split(".")[-1])
    return {"type": "str", "choices": members} if members is not None else {"type": text}


def of_field(repository, name, annotation, default, words):
    """(names, row) of a field."""
    meta = {}
    if isinstance(words.get("metadata"), ast.Dict):
        for key, value in zip(words["metadata"].keys, words["metadata"].values):
            if literal(key) == "argparse_meta":
                meta = {literal(k): v for k, v in zip(value.keys, value.values)}
    dashed = name.replace("_", "-")
    names, row = ["--" + dashed], of_annotation(repository, annotation) or {}
    if row.get("type") == "bool":
        on = literal(default) is not False
        row = {"action": "store_false" if on else "store_true"}
        if on:
            names = ["--no-" + dashed, "--disable-" + dashed]
    for key, value in meta.items():
        if key == "arg_names":
            names = literal(value)
        elif key == "choices":
            row["choices"] = choices_of(repository, value)
        elif key in ("type", "nargs", "action"):
            row[key] = literal(value, ast.unparse(value))
    return names, row


def of_call(repository, call):
    """(names, row) of add_argument(...)."""
    row = {}
    for word in call.keywords:
        if word.arg == "choices":
            row["choices"] = choices_of(repository, word.value)
        elif word.arg in ("action", "type", "nargs"):
            row[word.arg] = literal(word.value, ast.unparse(word.value))
    return [literal(name) for name in call.args], row


def arguments(repository):
    """(name, row) of every argument, in the order of the parser."""
    for function in repository.parser.body:
        if not isinstance(function, ast.FunctionDef) or not function.name.startswith("_add_"):
            continue
        lists = {target.id: literal(node.value, []) for node in ast.walk(function) if isinstance(node, ast.Assign)
                 for target in node.targets if isinstance(target, ast.Name)}
        for call in (node for node in ast.walk(function) if isinstance(node, ast.Call)):
            called = call.func.attr if isinstance(call.func, ast.Attribute) else ast.unparse(call.func)
            if called == "add_argument":
                names, row = of_call(repository, call)
                yield from ((name, row) for name in names)
            elif called == "ArgumentGroupFactory":
                excluded = set()
                for word in call.keywords:
                    if word.arg == "exclude":
                        excluded = set(lists.get(word.value.id, [])) if isinstance(word.value, ast.Name) else set(literal(word.value))
                for name, annotation, default, words in repository.fields(ast.unparse(call.args[0])):
                    if name not in excluded and literal(words.get("init")) is not False:
                        names, row = of_field(repository, name, annotation, default, words)
                        yield from ((each, row) for each in names)


def main(directory, commit):
    repository = Repository(directory, commit)
    version = {node.targets[0].id: node.value.value for node in ast.parse(repository.git("show", f"{commit}:{VERSION}")).body
               if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)}
    when = repository.git("show", "-s", "--format=%H, %cs", commit).strip()
    print(f"# NVIDIA/Megatron-LM {when}, core {version['MAJOR']}.{version['MINOR']}.{version['PATCH']}: the arguments of its parser,"
          " recorded by bench/peers/megatron_arguments.py")
    out = csv.writer(sys.stdout, lineterminator="\n")
    out.writerow(COLUMNS)
    for name, row in sorted(arguments(repository), key=lambda argument: argument[0]):
        choices = row.get("choices")
        kind = row.get("type", "" if row.get("action") else "str")
        out.writerow([name, row.get("action", ""), kind, row.get("nargs", ""), " ".join(map(str, choices)) if choices else ""])


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
