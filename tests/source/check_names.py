#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails when two sources of a folder give one name to different things in unnamed namespaces: they are compiled together.
Functions may share a name if their parameters differ. Usage: check_names.py ROOT"""
import pathlib
import re
import sys

FOLDERS = ["models", "planners", "sim", "exec", "reports", "bench", "tests"]
UNNAMED = re.compile(r"^namespace \{\n(.*?)^\}  // namespace$", re.MULTILINE | re.DOTALL)
TYPE = re.compile(r"^(?:template <[^>]*>\s)?(?:struct|class|enum class) (\w+)(?:[ ;:{]|$)")
ALIAS = re.compile(r"^using (\w+) = (.*);$")
CONSTANT = re.compile(r"^(?:inline |static )?(?:constexpr|const) [^(){}=]*?\b(\w+)(?:\[\])?(?: =|\{)")
FUNCTION = re.compile(r"^(?![A-Z_]+\()[\w\[][^=;{]*?\b(\w+)(\([^{;]*)")


def declared(text):
    """(name, what it is, line number) for what a source declares at the margin of its unnamed namespaces."""
    for space in UNNAMED.finditer(text):
        first = text.count("\n", 0, space.start(1)) + 1
        for number, line in enumerate(space[1].splitlines(), first):
            for pattern in (TYPE, CONSTANT, ALIAS, FUNCTION):
                match = pattern.match(line)
                if match:
                    same = match[2] if pattern in (ALIAS, FUNCTION) else f"{number} of another file"
                    yield match[1], f"{pattern is FUNCTION} {same}", pattern, number
                    break


def clashes(root):
    for folder in sorted({path.parent for top in FOLDERS for path in (root / top).rglob("*.cpp")}):
        seen = {}
        for path in sorted(folder.glob("*.cpp")):
            for name, what, pattern, number in declared(path.read_text(encoding="utf-8")):
                for other, other_what, other_pattern, place in seen.get(name, []):
                    both = pattern, other_pattern
                    harmless = {(ALIAS, ALIAS): what == other_what, (FUNCTION, FUNCTION): what != other_what}.get(both, False)
                    if not harmless and place[0] != path:
                        yield (f"{path.relative_to(root)}:{number}: {name} is already something in "
                               f"{place[0].relative_to(root)}:{place[1]}, which is compiled together with this file")
                seen.setdefault(name, []).append((name, what, pattern, (path, number)))


if __name__ == "__main__":
    found = list(clashes(pathlib.Path(sys.argv[1])))
    print("\n".join(found) or "no name stands for two things in a folder")
    sys.exit(bool(found))
