"""A file of checks, for people who do not write Python: the same words, one key each; and the gate that applies it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from agenttape_core.checks.checking import Check, check_run
from agenttape_core.checks.run import Run, unchanged
from agenttape_core.checks.traces import nearest_prompt
from agenttape_core.checks.words import WORDS, checks_of, unknown
from agenttape_core.errors import AgentTapeError, CassetteError, ConfigurationError, counted, shown_path
from agenttape_core.matching import spelled
from agenttape_core.tools.reporting import Checked, Finding, Judged

# -- YAML as plain data that knows its lines, and refuses what a reader would overlook: keys that stand twice.


_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Lines(dict[Any, Any]):
    """A mapping with the lines of its keys, 1-based. `line` is its own."""

    def __init__(self, line: int) -> None:
        super().__init__()
        self.line = line
        self.of: dict[Any, int] = {}


def read_yaml(text: str, path: str) -> Any:
    """Return the data of a YAML document; mappings are `Lines`.

    Raises `ConfigurationError` if it isn't YAML, has a key twice, or contains itself.
    """
    try:
        return _Reader(path).value(yaml.compose(text, Loader=_LOADER))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{path}:{mark.line + 1}" if mark is not None else path
        raise ConfigurationError(f"{place}: no YAML: {getattr(error, 'problem', None) or error}") from None
    except RecursionError:
        raise ConfigurationError(f"{path}: no YAML that anybody wrote: it is nested too deeply") from None


class _Reader:
    def __init__(self, path: str) -> None:
        self._path = path
        self._scalars = yaml.constructor.SafeConstructor()
        self._open: set[int] = set()
        self._known: dict[int, Any] = {}

    def value(self, node: Any) -> Any:
        if node is None:
            return None
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node)
        if id(node) in self._open:
            self._refuse(node, "a value contains itself")
        if id(node) not in self._known:
            self._open.add(id(node))
            self._known[id(node)] = self._collection(node)
            self._open.discard(id(node))
        return self._known[id(node)]

    def _scalar(self, node: Any) -> Any:
        try:
            return self._scalars.construct_object(node)
        except (yaml.YAMLError, ValueError) as error:
            self._refuse(node, str(getattr(error, "problem", None) or error))

    def _collection(self, node: Any) -> Any:
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item) for item in node.value]
        found = Lines(node.start_mark.line + 1)
        for key_node, item in node.value:
            key = self.value(key_node)
            if not isinstance(key, str | int | float | bool | None):
                self._refuse(key_node, "a key isn't text")
            if key in found:
                self._refuse(key_node, f"the key {key!r} occurs twice, first on line {found.of[key]}")
            found.of[key] = key_node.start_mark.line + 1
            found[key] = self.value(item)
        return found

    def _refuse(self, node: Any, problem: str) -> Any:
        raise ConfigurationError(f"{self._path}:{node.start_mark.line + 1}: {problem}")


VERSION = 1
"""The version of the form of these files."""

_TOP = ("checks", "every", "cases")
_CASE = ("prompt", "name", "checks")


@dataclass(frozen=True, slots=True)
class Case:
    """The checks of the run with a prompt."""

    prompt: str  # the prompt, character for character
    name: str
    checks: tuple[Check, ...]  # what must be true
    path: str  # the file
    line: int  # its line in the file

    @property
    def place(self) -> str:
        """Its file and line."""
        return f"{self.path}:{self.line}"


@dataclass(frozen=True, slots=True)
class CheckFile:
    """The checks of a file."""

    every: tuple[Check, ...] = ()  # what must be true of each run
    cases: tuple[Case, ...] = ()  # what must be true of the run with a prompt


def read_checks(path: Path | str) -> CheckFile:
    """Read a file of checks. Raises `ConfigurationError` if it cannot be read, or with each problem and its line."""
    shown = shown_path(path)
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{shown}: the checks cannot be read: {error}") from None
    return parsed(text, shown)


def parsed(text: str, path: str) -> CheckFile:
    """Return the checks of a document. Raises as `read_checks` does. `path` is as messages show it."""
    parser = _Parser(path)
    found = parser.file(read_yaml(text, path))
    if parser.problems:
        how_many = counted(len(parser.problems), "problem")
        lines = "\n  ".join(parser.problems)
        raise ConfigurationError(f"{path}: {how_many} in the checks\n  {lines}")
    return found


class _Parser:
    """Reads a file to its end, and keeps all problems. `path` is as messages show it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.problems: list[str] = []

    def file(self, data: Any) -> CheckFile:
        if not isinstance(data, Lines):
            self._note(1, "expected a mapping that begins with `checks: 1`")
            return CheckFile()
        for key in data:
            if key not in _TOP:
                self._note(data.of[key], unknown("key", key, _TOP))
        if data.get("checks") != VERSION or isinstance(data.get("checks"), bool):
            self._note(data.of.get("checks", 1), f"expected `checks: {VERSION}`, found {data.get('checks')!r}")
        every = tuple(self._list(data, "every"))
        cases = tuple(self._cases(data))
        if not every and not cases and not self.problems:
            self._note(1, "nothing to check: expected `every` or `cases`")
        return CheckFile(every, cases)

    def _list(self, data: Lines, key: str) -> Iterator[Check]:
        """Yield the checks of a list of mappings with one word each."""
        items = data.get(key, [])
        if not isinstance(items, list):
            self._note(data.of[key], f"`{key}` is a list of checks, found {items!r}")
            return
        for item in items:
            if isinstance(item, Lines) and len(item) == 1:
                ((word, value),) = item.items()
                yield from self._checks(word, value, item.of[word])
            else:
                line = item.line if isinstance(item, Lines) else data.of[key]
                self._note(
                    line, f"a check in `{key}` is a mapping with one word, such as `never: delete_user`; found {item!r}"
                )

    def _cases(self, data: Lines) -> Iterator[Case]:
        items = data.get("cases", [])
        if not isinstance(items, list):
            self._note(data.of["cases"], f"`cases` is a list, found {items!r}")
            return
        lines: dict[str, int] = {}
        for item in items:
            if not isinstance(item, Lines):
                self._note(data.of["cases"], f"a case is a mapping with `prompt`, found {item!r}")
                continue
            case = self._case(item)
            if case is not None and case.prompt in lines:
                self._note(case.line, f"a case with this prompt is already on line {lines[case.prompt]}")
            elif case is not None:
                lines[case.prompt] = case.line
                yield case

    def _case(self, item: Lines) -> Case | None:
        prompt, name = item.get("prompt"), item.get("name", "")
        if not isinstance(prompt, str) or not prompt:
            self._note(item.of.get("prompt", item.line), f"`prompt` is a text, found {prompt!r}")
        if not isinstance(name, str):
            self._note(item.of["name"], f"`name` is a text, found {name!r}")
        checks = [*self._list(item, "checks")]
        for word, value in item.items():
            if word not in _CASE:
                checks += self._checks(word, value, item.of[word], further=_CASE)
        if not checks and not self.problems:
            self._note(item.line, f"a case without a check: expected one of {', '.join(WORDS)}")
        if not isinstance(prompt, str) or not isinstance(name, str):
            return None
        return Case(prompt, name or f"case on line {item.line}", tuple(checks), self.path, item.line)

    def _checks(self, word: Any, value: Any, line: int, further: tuple[str, ...] = ()) -> list[Check]:
        if word not in WORDS:
            self._note(line, unknown("key" if further else "check", word, [*WORDS, *further]))
            return []
        found: list[Check] = self._noting(line, lambda: checks_of(word, _plain(value)))
        return found

    def _noting(self, line: int, make: Callable[[], list[Check]]) -> list[Check]:
        try:
            return make()
        except ConfigurationError as error:
            self._note(line, str(error).replace("\n  ", "; "))
            return []

    def _note(self, line: int, problem: str) -> None:
        self.problems.append(f"{self.path}:{line}: {problem}")


def _plain(value: Any) -> Any:
    """Return a value without its lines."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value


# -- The gate: many runs, the checks of files, and a baseline.


UNREADABLE = "readable"  # the word of the finding about a run that cannot be read
MISSING = "case"  # the word of the finding about a case without a run


def judge(
    runs: Iterable[tuple[str, Callable[[], Run]]], files: Sequence[CheckFile], more: Callable[[Run], Iterable[Judged]]
) -> Iterator[Checked]:
    """Yield what the checks and `more` say about each run, then the verdict on each case without a run."""
    every = [check for file in files for check in file.every]
    cases: dict[str, list[Case]] = {}
    for file in files:
        for case in file.cases:
            cases.setdefault(case.prompt, []).append(case)
    prompts: dict[str, None] = {}
    found_cases: set[str] = set()
    said: Callable[[str], str] = unchanged
    for name, read in runs:
        try:
            run = read()
        except CassetteError as error:
            yield Checked(name, name, "", (unreadable(name, error),))
            continue
        whole, said = check_run(run, every), run.as_recorded
        judged = list(whole.judged)
        for turn, prompt in turns_with_a_case(run, cases):
            found_cases.add(prompt)
            judged += check_run(turn, [check for case in cases[prompt] for check in case.checks]).judged
        prompts.update(dict.fromkeys(turn.prompt for turn in _turns(run)))
        yield replace(whole, judged=(*judged, *more(run)))
    for prompt, several in cases.items():
        if prompt not in found_cases:
            yield from (_missing(case, said(prompt), prompts) for case in several)


def _turns(run: Run) -> Sequence[Run]:
    """Return the turns of a run. A run of one turn is that turn."""
    return run.turns() or (run,)


def turns_with_a_case(run: Run, cases: Mapping[str, object]) -> Iterator[tuple[Run, str]]:
    """Yield the turns for which there is a case, each with the prompt of the case."""
    if not cases:
        return
    others: dict[str, str] = {}
    turns = _turns(run)
    if any(turn.prompt not in cases for turn in turns):  # perhaps for a secret in it, whose pseudonym was recorded
        others = {run.as_recorded(prompt): prompt for prompt in cases}
    for turn in turns:
        said = turn.prompt
        prompt = said if said in cases else others.get(said)
        if prompt is None:  # a secret in it may have been found elsewhere in the run
            prompt = next((each for each in cases if run.as_recorded(each, said) == said), None)
        if prompt is not None:
            yield turn, prompt


def unreadable(path: str, error: AgentTapeError) -> Judged:
    """Return the check that fails because a file can't be read, with the remedy."""
    problem, remedy = getattr(error, "problem", str(error)), str(error).partition("\n")[2]
    message = f"{problem}\n{remedy}" if remedy and remedy not in problem else problem
    return Judged(
        UNREADABLE, "can be read", (Finding(message, rule=UNREADABLE, path=path, line=getattr(error, "line", None)),)
    )


def _missing(case: Case, prompt: str, prompts: Iterable[str]) -> Checked:
    """Return the failure of a case without a run, whose prompt is shown as a recording would hold it."""
    nearest = nearest_prompt(prompt, filter(None, prompts))
    finding = Finding(
        "no run has exactly this prompt" + ("; the nearest differs" if nearest is not None else ""),
        expected=prompt,
        found=nearest or "",
        differences=(spelled("prompt", prompt, nearest),) if nearest is not None else (),
        rule=MISSING,
        path=case.path,
        line=case.line,
    )
    return Checked(f"{case.path}: {case.name}", case.path, prompt, (Judged(MISSING, "case has a run", (finding,)),))
