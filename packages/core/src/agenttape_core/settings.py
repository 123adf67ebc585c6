"""Project settings: `[tool.agenttape]` in `pyproject.toml`, and environment variables that mirror and override it."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from agenttape_core.engine import OnMiss, parse_match_on
from agenttape_core.errors import ConfigurationError, shown_path
from agenttape_core.matching import STRICT, Ignored, Key, MatchOn, OnRepeat
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.schema import UNAVAILABLE
from agenttape_core.schema.freeze_kinds import DEFAULT_KINDS, Kind, check_kinds

if TYPE_CHECKING:
    from pydantic import TypeAdapter

    from agenttape_core.redaction import Rule

OnUnused = Literal["fail", "warn", "ignore"]
OnError = Literal["discard", "keep"]
Accept = Literal["lossy", "opaque"]
CheckReplay = bool | Literal["fail"]
"""The step after recording: none, a check that it replays, or a failure if it doesn't."""
OnUnrecorded = Literal["report", "fail"]
"""The treatment of a run that lived on after calls without a recording."""
Pace = Literal["none", "recorded", "virtual"] | float
"""The time that a replayed answer takes: none, its recorded time, or a multiple of it; or the recorded
time, which passes without anybody waiting."""

STDERR = "stderr"
"""The place of events that are written to standard error."""
TRACING = "tracing"
"""The word in `allow_hosts` that lets a replay report to tracers such as LangSmith."""
_PREFIX = "AGENTTAPE_"
_LISTS = frozenset({"freeze", "allow_hosts", "live", "replay_only", "step_into", "tags", "ignore", "accept"})
_SEVERAL = _LISTS | {"match_on"}
_PATHS = frozenset({"cassette_dir", "events", "prices", "retirements"})
_ENVIRONMENT_ONLY = frozenset({"redaction_key"})
_RULES = "redaction_rules"
_PACES: Mapping[str, float | Literal["virtual"]] = {"none": 0.0, "recorded": 1.0, "virtual": "virtual"}


class Settings(NamedTuple):
    """The settings of a project: they hold for each of its sessions, unless a call gives an option in their place."""

    mode: str = "replay"
    cassette_dir: str = "cassettes"
    live: tuple[Key, ...] = ()
    replay_only: tuple[Key, ...] = ()
    step_into: tuple[Key, ...] = ()
    on_repeat: OnRepeat = "fail"
    match_on: MatchOn = STRICT
    ignore: tuple[str, ...] | None = None
    on_miss: OnMiss = "raise"
    candidate: str | dict[str, str] | None = None
    """The model that is tried instead of the program's own, as `provider:model`; or one for each place."""
    on_unrecorded: OnUnrecorded = "report"
    unavailable: str = UNAVAILABLE
    """The words of the error result of a call that has no recording, for a model to read."""
    on_unused: OnUnused | None = None
    on_error: OnError = "discard"
    review: bool = False
    """True if a new recording waits for review next to its cassette."""
    accept: tuple[Accept, ...] = ()
    """The imperfect things to put up with: replaying recordings that are `lossy`, recording values as `opaque`."""
    pace: float | Literal["virtual"] = 0.0
    """The factor of recorded times; with 0, no call waits. `virtual` lets them pass without waiting."""
    http: bool | None = None
    """True to record HTTP clients, `None` to follow the cassette."""
    check_replay: CheckReplay = True
    freeze: tuple[Kind, ...] = DEFAULT_KINDS
    allow_hosts: tuple[str, ...] = ()
    events: str | None = None
    """A file, `stderr` or a URL that receives events as they happen."""
    tags: tuple[str, ...] = ()
    run_id: str | None = None
    """The id of a run in its report and events; by default each run gets a new one."""
    redaction_key: str | None = None
    redaction_rules: tuple[Rule, ...] = ()
    """Rules for secrets of this project: further ones, and kinds to keep."""
    prices: str | None = None
    """A JSON file with prices of models, instead of list prices."""
    retirements: str | None = None
    """A JSON file with the dates when models are retired, instead of the built-in one."""

    @property
    def judges_unused(self) -> OnUnused:
        """The reaction to unused recordings; a run that continues after a miss is expected to leave some."""
        return self.on_unused or ("ignore" if self.on_miss == "return" else "fail")

    @property
    def traces(self) -> bool:
        """True if a replay reports to tracers."""
        return TRACING in self.allow_hosts

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts of `allow_hosts`, without the word for tracers."""
        return tuple([entry for entry in self.allow_hosts if entry != TRACING])

    def chosen(self, options: Mapping[str, Any]) -> Settings:
        """Return these settings with the options of a call in their place.

        Raises `ConfigurationError` if an option is not valid.
        """
        if not options:
            return self
        for key in options:
            if key not in Settings._fields:
                raise ConfigurationError(f"{key!r} isn't an option.{_nearest(key)}")
        return self._replace(**{key: _checked(key, value) for key, value in options.items()})


def check_replay_of(chosen: object) -> CheckReplay:
    """Return the treatment of a recording that was just made, as a setting, a variable or a command line spells it.

    Raises `ConfigurationError` if it is none.
    """
    known: dict[object, CheckReplay] = {"true": True, "1": True, "false": False, "0": False, "fail": "fail"}
    if isinstance(chosen, bool):
        return chosen
    if not isinstance(chosen, str) or chosen.lower() not in known:
        raise ConfigurationError(f"check_replay={chosen!r}: expected true, false or 'fail'")
    return known[chosen.lower()]


def models_by_place(text: str) -> str | dict[str, str] | None:
    """Return the candidates that a text names: `openai:gpt-5-mini`, or `PLACE=MODEL,PLACE=MODEL`; `None` for none.

    It's the text of an environment variable or a command line.
    """
    if "=" not in text:
        return text or None
    return {place.strip(): name.strip() for place, _, name in (part.partition("=") for part in text.split(","))}


def pace_of(chosen: object) -> float | Literal["virtual"]:
    """Return the speed of a replay, as a setting, a variable or a command line spells it.

    Raises `ConfigurationError` if it is none.
    """
    if isinstance(chosen, str) and chosen in _PACES:
        return _PACES[chosen]
    try:
        scale = _number(chosen)
    except ValueError:
        scale = math.nan
    if not 0 <= scale < math.inf:
        raise ConfigurationError(f"pace={chosen!r}: expected 'none', 'recorded', or a number such as 0.5; or 'virtual'")
    return scale


def _number(chosen: object) -> float:
    return float(chosen) if isinstance(chosen, str | int | float) and not isinstance(chosen, bool) else math.nan


_READ: Mapping[str, Callable[[object], Any]] = {
    "match_on": parse_match_on,
    "pace": pace_of,
    "check_replay": check_replay_of,
}
"""The settings that are spelled in several ways."""


def checked_option(key: str, value: Any) -> Any:
    """Return an option of a call as a setting holds it.

    Raises `ConfigurationError` if it is a bare string where several are expected: each of its letters would be one.
    """
    if key in _LISTS and isinstance(value, str):
        raise ConfigurationError(f"{key}={value!r} is a bare string; expected a collection such as {{{value!r}}}")
    return str(value) if isinstance(value, Path | Enum) else value


def explicit(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a call that were given, as settings hold them; `None` means that one was not.

    Raises `ConfigurationError` if one is a bare string where several are expected: each of its letters would be one.
    """
    return {key: checked_option(key, value) for key, value in options.items() if value is not None}


def load_settings(
    start: Path | None = None, environment: dict[str, str] | None = None, *, otherwise: Path | None = None
) -> Settings:
    """Return the settings of the project around a folder.

    Relative paths in the file start from its own folder, those in the environment stay relative. The nearest
    `pyproject.toml` at or above `start` (by default the current folder) that has our table counts; `otherwise` is the
    folder to start from if the file doesn't exist. `environment` is by default the process environment. Raises
    `ConfigurationError` if a key or variable is unknown, or a value is not valid.
    """
    start = start or Path.cwd()
    file = _file_around(start, otherwise)
    variables = os.environ if environment is None else environment
    own = tuple(sorted([(name, variables[name]) for name in variables if name.startswith(_PREFIX)]))
    if _RULES in file.values or f"{_PREFIX}{_RULES.upper()}" in variables:  # which may name any variable
        return _combined(file, own, variables)
    return _combined_once(file, own)


def _combined(file: _File, own: Iterable[tuple[str, str]], variables: Mapping[str, str]) -> Settings:
    """Return the settings of a file, and of our own variables."""
    values, origins = {**file.values}, {key: f"{path}: [tool.agenttape] {key}" for key, path in file.origins.items()}
    for variable, text in own:
        key = variable.removeprefix(_PREFIX).lower()
        values[key] = [word.strip() for word in text.split(",") if word.strip()] if key in _SEVERAL else text
        origins[key] = f"the environment variable {variable}"
    for key in Settings._fields:
        if key == _RULES and key in values:
            from agenttape_core.redaction.rules import rules_of  # most projects have none

            values[key] = rules_of(values[key], origins[key], variables)
        elif key in values:
            values[key] = _checked(key, values[key], _shown_origin(origins.get(key, key)))
    for key in [key for key in values if key not in Settings._fields]:
        if (name := f"{_PREFIX}{key.upper()}") in dict(own):
            raise ConfigurationError(f"the environment variable {name} isn't a setting.{_nearest(key, name)}")
        path = _shown_origin(file.origins[key])
        raise ConfigurationError(f'{path}: [tool.agenttape] has no setting "{key}".{_nearest(key)}')
    return Settings(**values)


@functools.lru_cache(maxsize=8)
def _combined_once(file: _File, own: tuple[tuple[str, str], ...]) -> Settings:
    return _combined(file, own, {})


def _checked(key: str, value: Any, origin: str = "") -> Any:
    """Return the value of a setting, of its type. Raises `ConfigurationError` if it can't have this value."""
    if key in _READ:
        return _READ[key](value)
    from pydantic import ValidationError

    value = models_by_place(value) if key == "candidate" and isinstance(value, str) else value
    try:
        checked = _type_of(key).validate_python(value)
    except ValidationError as error:
        found = error.errors()  # of each form that it may have
        problem = " or ".join(dict.fromkeys([_words(one["type"], one["msg"]) for one in found]))
        shown = origin or f"{key}={found[0]['input']!r}"
        raise ConfigurationError(f"{shown}: {problem.replace(' or expected ', ' or ')}") from None
    if key == "ignore" and checked is not None:
        return Ignored.of(checked).spelled
    if key == "freeze":
        check_kinds(checked)
    elif key == "allow_hosts" and checked:
        from agenttape_core.guard import check_hosts  # which loads the guard

        check_hosts(entry for entry in checked if entry != TRACING)
    return checked


@functools.cache
def _type_of(key: str) -> TypeAdapter[Any]:
    """Return the check of a setting's type. Each is built when it's needed: all of them take as long as 20 modules."""
    from pydantic import TypeAdapter

    if key == _RULES:
        from agenttape_core.redaction import Rule

        return TypeAdapter(tuple[Rule, ...])
    return TypeAdapter(eval(Settings.__annotations__[key]))  # noqa: S307 - our own words


_EXPECTED = {
    "bool": "true or false",
    "string": "a string",
    "tuple": "a list",
    "dict": "a table",
    "float": "a number",
    "int": "a number",
    "model": "a table",
}
"""The forms of a value in the words of TOML, by the beginnings of the types of pydantic's errors."""


def _words(kind: str, said: str) -> str:
    form = _EXPECTED.get(kind.partition("_")[0])
    return f"expected {form}" if form else said.removeprefix("Value error, ").replace("Input should be", "expected")


def _shown_origin(origin: str) -> str:
    path, colon, rest = origin.partition(": [")
    return f"{shown_path(path)}{colon}{rest}"


def _nearest(key: str, variable: str = "") -> str:
    """Return a question with the setting that is most like a misspelled one; all settings if none is like it."""
    import difflib

    near = difflib.get_close_matches(key, Settings._fields, n=1)
    if not near:
        return f"\n  all settings:  {', '.join(Settings._fields)}"
    return f" Did you mean {_PREFIX}{near[0].upper()}?" if variable else f' Did you mean "{near[0]}"?'


def given_cassette_dir(start: Path, otherwise: Path) -> str | None:
    """Return the folder of cassettes that a variable or a file of settings names; `None` if neither does.

    A relative one of the variable stays relative. See `load_settings`.
    """
    if (given := os.environ.get(f"{_PREFIX}CASSETTE_DIR")) is not None:
        return given
    file = _file_around(start, otherwise)
    return file.values["cassette_dir"] if "cassette_dir" in file.origins else None


class _File:
    """The settings in a file. It's equal to itself alone, so that what follows from it is found again.

    Args:
        values: The settings.
        origins: The file that each is from.
    """

    def __init__(self, values: Mapping[str, Any], origins: Mapping[str, str]) -> None:
        self.values = values
        self.origins = origins


_NO_FILE = _File({}, {})


def _file_around(start: Path, otherwise: Path | None = None) -> _File:
    """Return the settings of the project around a folder, or around another one if its file has no settings."""
    folder, below = os.path.realpath(start), ""
    while folder != below:  # in text: this is done for each session, up to the root of the disk
        path = os.path.join(folder, "pyproject.toml")  # noqa: PTH118 - as above
        if os.path.isfile(path):  # noqa: PTH113 - as above
            try:
                file = _file_of(Path(path).read_text(encoding="utf-8"), folder, path)
            except ValueError as error:  # the base of the errors of TOML and of UTF-8
                raise ConfigurationError(f"{path}: not valid TOML: {error}") from None
            if file is not None:  # a package of a workspace has no table: the settings are those of the whole
                break
        folder, below = os.path.dirname(folder), folder  # noqa: PTH120 - as above
    else:
        file = _NO_FILE
    return file if file.origins or otherwise in (None, start) else _file_around(otherwise)


@functools.lru_cache(maxsize=8)
def _file_of(text: str, folder: str, path: str) -> _File | None:
    """Return the settings of a `pyproject.toml`. Cached: parsing would be the longest part of opening a session."""
    import tomllib

    table: dict[str, Any] | None = tomllib.loads(text).get("tool", {}).get("agenttape")
    if table is None:
        return None
    if secret := _ENVIRONMENT_ONLY & table.keys():
        raise ConfigurationError(f"{path}: {', '.join(secret)} belongs in the environment, not in a file")
    values = {"cassette_dir": Settings().cassette_dir, **table}
    origins = dict.fromkeys(table, path)
    return _File(
        {key: _from(Path(folder), value) if key in _PATHS else value for key, value in values.items()}, origins
    )


def _from(folder: Path, value: Any) -> Any:
    """Return a path that a file in this folder names. Anything else is refused later."""
    is_path = isinstance(value, str) and "://" not in value and value != STDERR
    return str(folder / value) if is_path else value
