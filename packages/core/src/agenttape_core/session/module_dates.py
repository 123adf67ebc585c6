"""Find dates that a module computed at import and that end up in prompts: each recording with one is stale tomorrow.

A session replays the clock, so a date that a function draws is the recorded one in each replay. A module draws its date
before any session, when it is imported. While recording, requests are searched for today's date; if one contains it,
the globals of the program's modules are searched for the same date. If neither has it, the date comes from a function.
"""

from __future__ import annotations

import datetime as dt
import json
import re
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from time import time
from types import CodeType, FrameType, FunctionType, MappingProxyType, ModuleType
from typing import Any
from weakref import WeakKeyDictionary

from agenttape_core.errors.warned import DateAtImportWarning
from agenttape_core.guard.caller import is_library
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.schema import Plain

_MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]
_DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
_DAY = rf"(?:(?:{'|'.join(_DAYS)}),? )?"
_MONTH = rf"(?:{'|'.join(_MONTHS)}|{'|'.join(name[:3] for name in _MONTHS)}\b)\.?"
_TIME = r"\d\d?:\d\d(?::\d\d(?:\.\d+)?)?(?: ?[AP]M)?(?:Z| ?[+-]\d\d:?\d\d)?(?: (?:UTC|GMT|[A-Z]{1,4}T)\b)?"
_ANY = re.compile(
    rf"{_DAY}(?:\d{{4}}[-/.]\d\d?[-/.]\d\d?|\d\d?[-/.]\d\d?[-/.]\d{{4}}"
    rf"|{_MONTH} \d\d?(?:st|nd|rd|th)?(?:,? \d{{4}})?|\d\d?(?:st|nd|rd|th|\.)? (?:of )?{_MONTH}(?:,? \d{{4}})?)"
    rf"(?:(?:T|,? ){_TIME})?|(?:{'|'.join(name[:3] for name in _DAYS)}) {_MONTH} +\d\d? {_TIME} \d{{4}}|{_TIME}"
)
"""A date in one of the usual spellings, with the day of the week and the time if they're there, or a time alone."""
_MOMENT = re.compile(r":\d\d\.\d")  # fractions of a second, which no one writes into a prompt
_FAR, _MOST, _WIDE = 8, 4000, 200
"""The steps from a global to a text, the objects of a module, and the items of a container that are looked at."""
_LOGS = ("Message", "History", "Memory", "Saver", "Store", "Cache")
"""The ends of names of classes whose objects hold the conversation of a session."""


class ModuleDates:
    """Looks for today's date in recorded requests, and warns once in the same words. Thread-safe."""

    def __init__(self, warn: Callable[[Warning], object], shown: str) -> None:
        self._warn = warn
        self._shown = shown
        self._days = _today()
        signs = (sign for day in self._days for sign in (str(day.year), _DAYS[day.weekday()]))
        self._signs = tuple({sign.encode() for sign in signs})
        self._spelt = re.compile("|".join(map(_spellings, self._days)))
        self._holders: dict[str, list[tuple[str, str]]] = {}
        self._begun = _modules_running()

    def look(self, written: bytes) -> None:
        """Look for today's date in new JSON (ASCII), and warn if a module of the program holds it."""
        for sign in self._signs:  # a hundred times as fast as the expression
            if written.rfind(sign) >= 0:
                break
        else:
            return
        text = written.decode()
        for spelt in dict.fromkeys(self._spelt.findall(text)):
            if spelt not in self._holders:  # once: each request of a program may hold a function's date
                self._holders[spelt] = list(_holders_of(spelt, self._days, self._begun))
            if (holder := _named_in(text, self._holders[spelt], spelt)) is not None:
                self._holders[spelt] = []
                self._warn(
                    DateAtImportWarning(
                        f"{self._shown}: a request holds today's date, {spelt!r}, which {holder} drew when it was "
                        f"imported: from tomorrow on, a replay will miss\n  {REMEDY}"
                    )
                )


INSIDE = "build it inside a function, where the clock is replayed"
REMEDY = f"{INSIDE}, or leave it out with ignore"


def _spellings(day: dt.date) -> str:
    """Return an expression for the usual spellings of a day, without a group."""
    name, weekday = _MONTHS[day.month - 1], _DAYS[day.weekday()]
    month = f"(?:{name}|{name[:3]}\\.?)"
    number, ordinal = f"0?{day.day}", f"0?{day.day}(?:st|nd|rd|th|\\.)?"
    at, year = f"0?{day.month}", day.year
    forms = (
        f"{year}[-/.]{at}[-/.]{number}",
        f"{at}[-/.]{number}[-/.]{year}",
        f"{number}[-/.]{at}[-/.]{year}",
        f"{month} {ordinal},? {year}",
        f"{ordinal} (?:of )?{month},? {year}",
        f"{weekday},? {month} {ordinal}",
        f"{weekday},? {ordinal} (?:of )?{month}",
    )
    return f"(?<!\\d)(?:{'|'.join(forms)})(?!\\d)"


def _today() -> list[dt.date]:
    """Return the real date, here and by UTC, which may be another one."""
    now = time()
    return sorted({dt.datetime.fromtimestamp(now, zone).date() for zone in (None, dt.UTC)})


class ClockDifference(NamedTuple):
    """A request that differs from the nearest recording only in dates and times."""

    spelt: str  # the first of them, as the request has it
    # The global that drew it when its module was imported; `None` if none is known, or the date may just be written
    # there.
    holder: str | None
    is_now: bool  # whether it's of the present day, which only code outside the session sees in a replay
    is_later: bool  # whether it's so, and the recorded one is over a day off: no other time zone explains it


def clock_difference(leaves: Iterable[tuple[str, Plain, Plain]], asked: Mapping[str, Plain]) -> ClockDifference | None:
    """Return how a request differs from the nearest recording if it does so only in dates and times."""
    pairs = [_times_that_differ(old, new) for _, old, new in leaves]
    if not pairs or None in pairs:
        return None
    before, spelt = next(pair for pair in pairs if pair)
    days = _today()
    is_now = any(re.search(_spellings(day), spelt) for day in days)
    recent = [day + dt.timedelta(days=more) for day in days for more in (-1, 0, 1)]
    is_later = is_now and not any(re.search(_spellings(day), before) for day in recent)
    is_drawn = is_now or _MOMENT.search(spelt) is not None
    holder = _named_in(json.dumps(dict(asked)), _holders_of(spelt, days), spelt) if is_drawn else None
    return ClockDifference(spelt, holder, is_now, is_later)


def _times_that_differ(recorded: Any, asked: Any) -> tuple[str, str] | None:
    """Return the first date or time that differs in two texts, as recorded and as asked; `None` if more differs."""
    if not (isinstance(recorded, str) and isinstance(asked, str)) or _ANY.sub("", recorded) != _ANY.sub("", asked):
        return None
    before, now = _ANY.findall(recorded), _ANY.findall(asked)
    return next(((old, new) for old, new in zip(before, now, strict=False) if old != new), None)


_begun: WeakKeyDictionary[CodeType, dict[str, int]] = WeakKeyDictionary()
"""By the code of modules that ran when a session was opened: the ids of their globals before their first session."""


def _modules_running() -> Mapping[int, Mapping[str, int]]:
    """Return the globals that the modules being run have set so far, such as a script's, by their namespace.

    What such a module sets in a session, or later, is the script's result, whose date was drawn inside.
    """
    running = {}
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001 - the way to look at one's callers
    while frame is not None:
        if frame.f_code.co_name == "<module>":
            names = {} if frame.f_code in _begun else frame.f_globals.copy()  # atomic: other threads may add to it
            held = {name: id(value) for name, value in names.items()}
            running[id(frame.f_globals)] = _begun.setdefault(frame.f_code, held)
        frame = frame.f_back
    return running


def _holders_of(
    spelt: str, days: Iterable[dt.date], begun: Mapping[int, Mapping[str, int]] = MappingProxyType({})
) -> Iterator[tuple[str, str]]:
    """Yield the name of each global of the program's modules that holds a date, and the text that it holds there.

    Lists of a module, and containers in objects of the program's classes, are skipped: they log requests. `spelt` is
    the date as the request has it, `days` are those that it may mean, `begun` is of `_modules_running`.
    """
    known, seen = frozenset(days), set[int]()
    for module in _of_program():
        budget = _MOST
        for name, value in _set_at_import(module, begun.get(id(vars(module)))):
            queue = deque([(value, 0)])
            while queue and budget:
                each, far = queue.popleft()
                budget -= 1
                if isinstance(each, str):
                    if spelt in each:
                        yield f"{module.__name__}.{name}", each
                elif isinstance(each, dt.date):
                    if (each.date() if isinstance(each, dt.datetime) else each) in known:
                        yield f"{module.__name__}.{name}", spelt
                elif far < _FAR and id(each) not in seen:
                    seen.add(id(each))
                    queue += [(item, far + 1) for item in _inside(each, module)]


def _set_at_import(module: ModuleType, held: Mapping[str, int] | None) -> list[tuple[str, Any]]:
    """Return the globals that may hold a date of the import; `held` has the ids of a running module's."""
    return [
        (name, value)
        for name, value in list(vars(module).items())
        if not name.startswith("__")
        and not isinstance(value, ModuleType | list | set)
        and (held is None or held.get(name) == id(value))
    ]


def _named_in(written: str, holders: Iterable[tuple[str, str]], spelt: str) -> str | None:
    """Return the name of a global whose date is in the request; `None` if there is none.

    The text around the date in a global must also surround it there, at least as far as the line goes, and so must the
    text between two fields of a template. So a log file named by the date isn't suspected where a function draws it for
    a prompt. `written` is the request as JSON in ASCII.
    """
    around = re.compile(rf"[^\s{{}}%$][^\n{{}}%$]{{0,7}}{re.escape(spelt)}|{re.escape(spelt)}")
    for name, text in holders:
        if any(json.dumps(near)[1:-1] in written for near in around.findall(text)):
            return name
    return None


def _of_program() -> Iterator[ModuleType]:
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None) if isinstance(module, ModuleType) else None
        is_ours = name.partition(".")[0].startswith("agenttape_")
        if isinstance(module, ModuleType) and not is_ours and (name == "__main__" or (file and not is_library(file))):
            yield module


def _inside(value: Any, module: ModuleType) -> Iterable[Any]:
    """Yield the values inside a value that may hold a text made at import."""
    cls = type(value)
    if cls is FunctionType:
        cells = [cell.cell_contents for cell in value.__closure__ or () if _is_full(cell)]
        return [*(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values(), *cells]
    if isinstance(value, type):
        return list(vars(value).values()) if value.__module__ == module.__name__ else ()
    if isinstance(value, Mapping) and cls.__module__ in {"builtins", "types", "collections"}:
        return list(value.values())[:_WIDE]
    if cls in {list, tuple}:
        return list(value)[:_WIDE]
    return _attributes(value)


def _attributes(value: Any) -> list[Any]:
    """Return the attributes of an object: all where a library defines its class, such as a template of prompts."""
    cls = type(value)
    if cls.__module__ == "builtins" or (cls.__name__.endswith(_LOGS) and cls.__name__ != "SystemMessage"):
        return []
    try:
        state = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return []
    file = getattr(sys.modules.get(cls.__module__), "__file__", None)
    is_foreign = bool(file) and is_library(str(file))
    return [item for item in list(state.values()) if is_foreign or isinstance(item, str | dt.date)]


def _is_full(cell: Any) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False
