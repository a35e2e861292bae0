# SPDX-License-Identifier: Apache-2.0
"""The program `dovetail` from Python: each command is a function, and its result is a dictionary.

    import dovetail
    result = dovetail.compare(cluster="dgx-h100", model="mixtral-8x7b", nodes=8, systems=["megatron_lm", "dovetail"],
                              set={"tp": 2, "plan.recompute": "full"})
    result["results"][0]["iteration_s"]  # the JSON that the command writes: seconds and bytes
    result.rows()                        # its list of results, each a flat dictionary
    result.frame()                       # the same as a pandas.DataFrame
    print(result.text)                   # the table that the command prints

Keywords are the options of the command, with _ for -, and arguments without a keyword are its other arguments.
`dovetail.compare(help=True).text` lists them. In place of an option's value there may be

- True for an option that takes no value; with False or None it is left out,
- a list for several values,
- a dictionary of settings for `set`, `alternate` and a step of online planning,
- any other dictionary for a file that holds it: experiment={"cluster": ...}, model={...}, explain(result).

A keyword of Python gets a _ at its end: for_="megatron".

The program is $DOVETAIL, else the one beside this module, else the one on the PATH; `program=` names another one. Where
it refuses its input, its one line is an InputError. Any other failure is a DovetailError with its exit code. This
module needs Python 3.9 or newer and no packages.
"""
from __future__ import annotations

import contextlib
import functools
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
from typing import (TYPE_CHECKING, Any, Callable, Dict, Iterable, Iterator, List, Mapping, NamedTuple, Optional, Tuple,
                    Union)

if TYPE_CHECKING:
    import pandas

Program = Union[str, "os.PathLike[str]", None]

__all__ = ["DovetailError", "InputError", "Result", "ask", "calibrate", "compare", "doctor", "explain", "find_program",
           "import_", "plan", "reproduce", "run", "simulate", "sweep", "tune", "validate"]

# The lists that rows() takes unless it is told which, by the kind of a result: the first that is not empty.
_ROWS = {
    "online_run": ["steps"],
    "reproduction": ["tables.values", "steps.steps", "operators.operators"],
    "tuning": ["best"],
    "tuning_curve": ["points"],
    "validation": ["cells.plans"],
}
_PATIENCE = 10  # seconds that an interrupted program gets to end by itself


class Result(Dict[str, Any]):
    """What a command found out: the JSON that it writes. It is empty where a command prints text alone."""

    def __init__(self, data: Mapping[str, Any], text: str = "", notes: Iterable[str] = ()) -> None:
        super().__init__(data)
        self.text = text  # all that the command printed
        self.notes = list(notes)  # those in the result, and the lines on standard error

    def __repr__(self) -> str:
        return f"<Result: {', '.join(self) or 'text'}>"

    def rows(self, of: Optional[str] = None) -> List[Dict[str, Any]]:
        """The entries of a list in the result as flat dictionaries: "plan.scope" is the value of "scope" in "plan".

        `of` names the list, such as "systems" of what `tune` found, or with dots a list in the entries of another one,
        such as "results.links". Rows of the latter also have the values of the entry around them, as "results.system".
        A result without lists of results, such as a model file, is one row.
        """
        if of is None:
            lists = _ROWS.get(self.get("kind", ""), ["results"])
            of = next((each for each in lists if self.get(each.split(".")[0])), lists[0])
            if of.split(".")[0] not in self:
                return [dict(_flat(self))] if self else []
        return list(_entries(self, of.split(".")))

    def frame(self, of: Optional[str] = None) -> pandas.DataFrame:
        """The rows of a list as a data frame of pandas."""
        try:
            import pandas
        except ImportError as error:
            raise ImportError("frame() needs pandas, which is missing; rows() gives the same without it") from error
        return pandas.DataFrame(self.rows(of))


class DovetailError(Exception):
    """The program failed: its message, its exit code (negative for a signal), and what it found out nevertheless."""

    def __init__(self, message: str, code: Optional[int] = None, result: Optional[Result] = None) -> None:
        super().__init__(message)
        self.code = code
        self.result = Result({}) if result is None else result


class InputError(DovetailError):
    """The program refused an option, a value or a file (exit code 2)."""


def find_program(program: Program = None) -> str:
    """The path of the program: `program` itself, else $DOVETAIL, else the one beside this module, else on the PATH."""
    for name, asked in (("program", program), ("DOVETAIL", os.environ.get("DOVETAIL", ""))):
        if asked:
            found = shutil.which(asked)
            if found is None:
                raise DovetailError(f"{name}={asked} is no program that can be started")
            return str(found)
    beside = pathlib.Path(__file__).resolve().with_name("dovetail")
    found = shutil.which(str(beside)) or shutil.which("dovetail")
    if found is None:
        raise DovetailError(f"the program dovetail is neither at {beside} nor on the PATH; set DOVETAIL to its path")
    return str(found)


def ask(command: str, /, *arguments: Any, program: Program = None, **options: Any) -> Result:
    """Runs any command of the program. The functions below are this one with the name of a command."""
    path = find_program(program)
    known = _known_options(path, command)
    with tempfile.TemporaryDirectory(prefix="dovetail_py_") as name:
        folder = pathlib.Path(name)
        output = _output(folder, known, options)
        if output is not None:
            options = {**options, "output": output}
        words = [command, *(_text(folder, command, each) for each in arguments)]
        for option, value in options.items():
            words += _option(folder, known, option.rstrip("_").replace("_", "-"), value)
        before = _state(output)
        code, printed, said = _run([path, *words])
        written = _state(output) is not None and (code == 0 or _state(output) != before)
        data = _read(output, folder) if output is not None and written else {}
    said = _short(said, folder)
    result = Result(data, _short(printed, folder), [*data.get("notes", []), *said.splitlines()])
    if code != 0:
        raise _failure(command, code, said, result)
    return result


def _command(name: str, summary: str) -> Callable[..., Result]:
    def function(*arguments: Any, program: Program = None, **options: Any) -> Result:
        return ask(name, *arguments, program=program, **options)

    function.__name__ = function.__qualname__ = name + "_" * (name == "import")
    function.__doc__ = f"{summary} {function.__name__}(help=True).text lists the options."
    return function


tune = _command("tune", "Finds the fastest layout and plan to train a model on a cluster.")
compare = _command("compare", "Compares systems or plans on one experiment.")
plan = _command("plan", "Chooses a plan and says why.")
simulate = _command("simulate", "Predicts one system or plan in detail.")
explain = _command("explain", "Says as text why the best plan of a result (or of its file) is the best.")
run = _command("run", "Executes a scaled-down plan on this machine, and compares measured with predicted times.")
validate = _command("validate", "Measures how far predictions are off, on the sizes of a grid.")
reproduce = _command("reproduce", "Recomputes published tables and measured steps beside the numbers of others.")
sweep = _command("sweep", "Simulates systems over a grid of settings; its cells are the list \"results\".")
calibrate = _command("calibrate", "Measures what operations cost on this machine.")
import_ = _command("import", "Makes a model or an experiment from files of checkpoints and trainings.")
doctor = _command("doctor", "Lists as text what this build and this machine can do.")


class _Known(NamedTuple):
    value: str  # as the help shows it: KEY=VALUE, NAME|FILE,.., or nothing
    text: str


@functools.lru_cache(maxsize=None)
def _known_options(program: str, command: str) -> Dict[str, _Known]:
    """The options of a command by their names, as its help tells. Nothing here needs to follow them."""
    _, text, _ = _run([program, command, "--help"])
    known = {}
    for entry in re.split(r"\n(?=  -)", text.partition("\nExamples:\n")[0]):
        if match := re.match(r"  (-\S+)(?: (\S+))?(.*)", entry, re.DOTALL):
            for name in match[1].split(","):
                known[name.lstrip("-")] = _Known(match[2] or "", " ".join(match[3].split()))
    return known


def _output(folder: pathlib.Path, known: Mapping[str, _Known], options: Mapping[str, Any]) -> Optional[pathlib.Path]:
    """The file to which the command writes its result as JSON, if it does."""
    if "output" not in known or options.get("format") not in (None, "json"):
        return None
    output = pathlib.Path(options.get("output") or folder / "result.json")
    return None if output.suffix in (".csv", ".txt") else output


def _state(path: Optional[pathlib.Path]) -> Optional[Tuple[int, int]]:
    """Differs once a file is written anew; None where there is no such file."""
    if path is None or not path.is_file():
        return None
    status = path.stat()
    return status.st_ino, status.st_mtime_ns


def _option(folder: pathlib.Path, known: Mapping[str, _Known], name: str, value: Any) -> List[str]:
    """The words of the command line that give an option this value."""
    if value is None or value is False:
        return []
    if value is True:
        return [f"--{name}"]
    shown, text = known.get(name, _Known("", ""))
    if isinstance(value, Mapping) and "=" in shown:
        values = [f"{key}={_setting(each)}" for key, each in value.items()]
    elif isinstance(value, (list, tuple, range)):
        values = [_text(folder, name, each) for each in value]
    else:
        values = [_text(folder, name, value)]
    if "may be repeated" not in text:
        values = [",".join(values)]
    return [f"--{name}={each}" for each in values]


def _setting(value: Any) -> str:
    """A value after the = of a setting: text as it is, numbers, and else JSON."""
    return json.dumps(value) if value is None or isinstance(value, (bool, list, tuple, Mapping)) else str(value)


def _text(folder: pathlib.Path, name: str, value: Any) -> str:
    """A value as a word of the command line: of a dictionary the path of a file that holds it."""
    if not isinstance(value, Mapping):
        return str(value)
    taken = len(list(folder.glob(f"{name}*.json")))
    path = folder / (f"{name}-{taken + 1}.json" if taken else f"{name}.json")
    path.write_text(json.dumps(value, allow_nan=False), encoding="utf-8")
    return str(path)


def _run(words: List[str]) -> Tuple[int, str, str]:
    """The exit code of a program, what it printed, and what it said on standard error. An interrupt ends it too."""
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          encoding="utf-8", errors="replace") as process:
        try:
            printed, said = process.communicate()
        except BaseException:
            process.send_signal(signal.SIGINT)  # so that it ends what it has started itself
            try:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(_PATIENCE)
            finally:
                process.kill()
            raise
    return process.returncode, printed, said


def _read(path: pathlib.Path, folder: pathlib.Path) -> Dict[str, Any]:
    """The JSON of a file. Of JSON lines the first is the result, and the others are its list "results"."""
    text = _short(path.read_text(encoding="utf-8"), folder)
    try:
        data: Dict[str, Any] = json.loads(text)
    except json.JSONDecodeError:
        first, *others = (json.loads(line) for line in text.splitlines())
        data = {**first, "results": others}
    return data


def _short(text: str, folder: pathlib.Path) -> str:
    """Files of the temporary folder by their names alone, because the folder is gone when somebody reads the text."""
    return text.replace(f"{folder}{os.sep}", "")


def _failure(command: str, code: int, said: str, result: Result) -> DovetailError:
    ended = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
    message = said.strip().rpartition("\n")[2] or f"dovetail {command} {ended}"
    return (InputError if code == 2 else DovetailError)(message, code, result)


def _flat(entry: Mapping[str, Any], prefix: str = "") -> Iterator[Tuple[str, Any]]:
    for key, value in entry.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _entries(value: Any, path: List[str], around: Mapping[str, Any] = {}, here: str = "") -> Iterator[Dict[str, Any]]:
    """The flat entries of the lists at a path. `around` holds the values of the entries on the way there."""
    for entry in value if isinstance(value, list) else [] if value is None else [value]:
        if not path:
            yield {**around, **(dict(_flat(entry)) if isinstance(entry, Mapping) else {"value": entry})}
            continue
        plain = {here + key: each for key, each in entry.items() if here and not isinstance(each, (list, Mapping))}
        yield from _entries(entry[path[0]], path[1:], {**around, **plain}, f"{here}{path[0]}.")
