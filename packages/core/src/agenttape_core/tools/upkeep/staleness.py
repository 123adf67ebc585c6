"""Stale cassettes: too old, of models that are gone, of other packages, or of an older prompt."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date, datetime, timedelta
from difflib import SequenceMatcher
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, get_args

from agenttape_core.errors import ConfigurationError, counted
from agenttape_core.matching.difference import differing_words
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.storage import Cassette
from agenttape_core.tools.reading.messages import input_messages, system_instructions, tool_definitions
from agenttape_core.tools.reading.prices import names_of
from agenttape_core.tools.reading.provider_calls import MODELS
from agenttape_core.tools.reading.summary import model_of
from agenttape_core.tools.upkeep.age import recorded_at

# -- The facts of a cassette about the program it was recorded from, which show whether it is stale.


_COUNTED = re.compile(r"[@#~]\d+|\[\d+\]")
"""The parts of an address that tell the calls of one place in a program apart."""
_SYSTEM = frozenset({"system", "developer"})

Subject = tuple[str, ...]  # the subject of a text, by which texts of several cassettes are comparable


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts of a cassette about the program it was recorded from."""

    path: str  # the name of the cassette
    created: datetime | None  # the time of the recording; `None` if not known
    packages: Mapping[str, str]  # versions of the packages that shaped the recording
    models: set[str] = field(default_factory=set)  # the models that were called
    # The system prompts, by the address without what counts and the names of the tools beside them.
    prompts: dict[Subject, set[str]] = field(default_factory=dict)
    # The definitions of the tools that models were offered, as JSON, by their name.
    tools: dict[Subject, set[str]] = field(default_factory=dict)
    is_derived: bool = False  # whether it was derived from another cassette


def facts_of(path: str, cassette: Cassette) -> Facts:
    """Read a whole cassette and return its facts. Raises `CassetteFormatError` if a record is malformed."""
    volatile = cassette.preface.volatile
    is_derived = cassette.preface.derived_from is not None
    facts = Facts(path, recorded_at(volatile.created), volatile.packages, is_derived=is_derived)
    for item in cassette.interactions():
        if item.kind not in MODELS:
            continue
        if model := model_of(item):
            facts.models.add(model)
        tools = {str(tool.get("name", "")): tool for tool in tool_definitions(item.request)}
        for name, tool in tools.items():
            facts.tools.setdefault((name,), set()).add(json.dumps(tool, sort_keys=True))
        if prompt := _system_prompt(item.request):
            subject = (_COUNTED.sub("", item.address), *sorted(tools))
            facts.prompts.setdefault(subject, set()).add(prompt)
    return facts


def _system_prompt(request: Mapping[str, Any]) -> str:
    messages = [message for message in input_messages(request) if message["role"] in _SYSTEM]
    parts = [*system_instructions(request), *(part for message in messages for part in message["parts"])]
    return "\n".join(str(part["content"]) for part in parts if part.get("type") == "text")


# -- The dates on which providers retire models: a table that a project keeps, because providers move them.


class Retirements:
    """The dates on which models retire, keyed like a table of prices: a model and its dated snapshots."""

    def __init__(self, table: Mapping[str, date]) -> None:
        self._table = {name.lower(): day for name, day in table.items()}

    def of(self, model: str) -> date | None:
        """Return the first day on which a model is no longer served; None if none is known."""
        return next((self._table[name] for name in names_of(model) if name in self._table), None)


def load_retirements(path: Path | str | None = None) -> Retirements:
    """Return a table of retirements.

    The file maps models to dates: `{"gpt-4": "2026-10-23"}`; without one, the table is empty. Raises
    `ConfigurationError` if the file can't be read, or isn't such a table.
    """
    if path is None:
        return Retirements({})
    try:
        table: Mapping[str, str] = json.loads(Path(path).read_text(encoding="utf-8"))
        return Retirements({name: date.fromisoformat(day) for name, day in table.items()})
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise ConfigurationError(
            f'{path}: no table of retirements: {error}\n  expected JSON such as {{"gpt-4": "2026-10-23"}}'
        ) from None


# -- Cassettes with an older system prompt, or an older tool, than others of the same program.


_APART = timedelta(hours=1)
"""Recordings closer together than this come from one state of the program: their texts differ by design."""
_ALIKE = 0.6  # the equal part of two prompts (`difflib`'s ratio) from which one is a later version of the other
_COMPARED = 500  # words of a prompt that are compared for that; it takes their square
_VERSIONS = 20  # the limit above which texts aren't versions of each other: some part of them is different each time


class Outdated(NamedTuple):
    """A part of a cassette that differs in a later one."""

    path: str  # what the cassette is called
    check: Literal["prompt", "tool"]  # what is older
    what: str  # how it differs, for people


def outdated_in(facts: Sequence[Facts]) -> Iterator[Outdated]:
    """Yield what cassettes hold of an older program than the newest recording that can be compared with them.

    A text is older than another one if it was last recorded more than an hour before the other one first was. So a
    difference by design, such as the name of a user, doesn't count as a change as long as both forms are recorded
    together. A cassette without a time of recording takes no part.
    """
    for (_, *tools), texts in _texts(facts, lambda each: each.prompts).items():
        where = f" with the tools {', '.join(tools)}" if tools else ""
        for old, new in _older(texts, _are_alike):
            yield Outdated(
                old.path, "prompt", f"older than the system prompt{where} in {new.path}: {_changed(old, new)}"
            )
    for (tool,), texts in _texts(facts, lambda each: each.tools).items():
        for old, new in _older(texts, lambda *_: True):
            yield Outdated(old.path, "tool", f"{tool} is older than in {new.path}: {_changed(old, new)}")


class _Use(NamedTuple):
    text: str
    created: datetime
    path: str


def _texts(
    facts: Sequence[Facts], held: Callable[[Facts], Mapping[Subject, set[str]]]
) -> Mapping[Subject, Mapping[str, list[_Use]]]:
    """Return the texts of all cassettes with who uses them, by their subject."""
    found: dict[Subject, dict[str, list[_Use]]] = {}
    for each in facts:
        if each.created is None:
            continue
        for subject, texts in held(each).items():
            for text in texts:
                found.setdefault(subject, {}).setdefault(text, []).append(_Use(text, each.created, each.path))
    return found


def _older(texts: Mapping[str, list[_Use]], is_version: Callable[[str, str], bool]) -> Iterator[tuple[_Use, _Use]]:
    """Yield each use of an older text with the latest use of the newest one that it is a version of."""
    if not 1 < len(texts) <= _VERSIONS:
        return
    latest = sorted((max(uses, key=_created) for uses in texts.values()), key=_created, reverse=True)
    for last in latest:
        for new in latest:
            first = min(texts[new.text], key=_created)
            if first.created - last.created > _APART and is_version(last.text, new.text):
                yield from ((use, new) for use in texts[last.text])
                break


def _created(use: _Use) -> datetime:
    return use.created


def _changed(old: _Use, new: _Use) -> str:
    return " / ".join(differing_words(old.text, new.text))


def _are_alike(old: str, new: str) -> bool:
    return SequenceMatcher(None, old.split()[:_COMPARED], new.split()[:_COMPARED], autojunk=False).ratio() >= _ALIKE


Check = Literal["age", "model", "package", "prompt", "tool", "verified"]
ALL_CHECKS: tuple[Check, ...] = get_args(Check)
CHECKS = ALL_CHECKS[:-1]
"""The checks that are made by default: not whether `pytest --cassette-lab=live` has verified a cassette."""
_MINOR = re.compile(r"(\d+)(?:\.(\d+))?")


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that has changed since a cassette was recorded."""

    path: str  # what the cassette is called
    check: Check  # what was looked at
    what: str  # what has changed, for people
    is_stale: bool = True  # whether it makes the cassette stale; else it is announced to

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return asdict(self)


def stale_among(
    facts: Sequence[Facts],
    now: datetime,
    *,
    max_age: timedelta | None,
    retirements: Retirements,
    installed: Callable[[str], str | None],
    checks: Sequence[Check] = CHECKS,
    verified: Mapping[str, datetime] = MappingProxyType({}),
) -> list[Finding]:
    """Return the changes since cassettes were recorded, by cassette.

    The cassettes are also compared with each other. `retirements` has when models are taken away; `installed` returns
    the version of an installed package; `verified` has when cassettes were last compared with a real run.
    """
    found = [finding for each in facts for finding in _alone(each, now, max_age, retirements, installed)]
    found += [Finding(*change) for change in outdated_in(facts)]
    # A derived cassette is a run of today with something changed, such as a sample of a candidate: no test repeats it.
    own = [each.path for each in facts if not each.is_derived]
    found += [finding for path in own for finding in _of_verification(path, now, max_age, verified.get(path))]
    order = {each.path: place for place, each in enumerate(facts)}
    return sorted((finding for finding in found if finding.check in checks), key=lambda finding: order[finding.path])


def installed_version(package: str) -> str | None:
    """Return the version of a package that is installed here, or `None`."""
    try:
        return version(package)
    except (PackageNotFoundError, ValueError):  # such is an empty name
        return None


def _alone(
    facts: Facts,
    now: datetime,
    max_age: timedelta | None,
    retirements: Retirements,
    installed: Callable[[str], str | None],
) -> Iterator[Finding]:
    yield from _of_age(facts, now, max_age)
    yield from _of_models(facts, now, retirements)
    yield from _of_packages(facts.path, facts.packages, installed)


def _of_age(facts: Facts, now: datetime, max_age: timedelta | None) -> Iterator[Finding]:
    if max_age is None:
        return
    if facts.created is None:
        yield Finding(facts.path, "age", "it does not say when it was recorded")
    elif now - facts.created > max_age:
        yield Finding(facts.path, "age", f"recorded {counted((now - facts.created).days, 'day')} ago")


def _of_verification(
    path: str, now: datetime, max_age: timedelta | None, verified: datetime | None
) -> Iterator[Finding]:
    if verified is None:
        yield Finding(path, "verified", "never verified: pytest --cassette-lab=live compares it with a run for real")
    elif max_age is not None and now - verified > max_age:
        yield Finding(path, "verified", f"last verified {counted((now - verified).days, 'day')} ago")


def _of_models(facts: Facts, now: datetime, retirements: Retirements) -> Iterator[Finding]:
    for model in sorted(facts.models):
        day = retirements.of(model)
        if day is not None:
            is_gone = day <= now.date()
            tense = "was" if is_gone else "will be"
            yield Finding(facts.path, "model", f"{model} {tense} retired on {day}", is_gone)


def _of_packages(path: str, packages: Mapping[str, str], installed: Callable[[str], str | None]) -> Iterator[Finding]:
    """Yield packages of which another minor version is installed; packages that aren't installed are skipped."""
    for package, recorded in packages.items():
        now = installed(package)
        if now is not None and _minor(now) != _minor(recorded):
            yield Finding(path, "package", f"recorded with {package} {recorded}, and {now} is installed")


def _minor(text: str) -> tuple[str, str]:
    match = _MINOR.match(text)
    return (match[1], match[2] or "0") if match is not None else (text, "")
