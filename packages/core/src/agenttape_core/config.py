"""Project settings: `[tool.agenttape]` in `pyproject.toml`, and environment variables that mirror and override it."""

from __future__ import annotations

import os
import tomllib
from enum import Enum
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from agenttape_core.errors import ConfigurationError

Unused = Literal["fail", "warn", "ignore"]
OnError = Literal["discard", "keep"]

SUFFIXES = (".yaml", ".yml", ".jsonl", ".gz", ".zst")
"""What the name of a cassette file ends with."""

_PREFIX = "AGENTTAPE_"
_LISTS = frozenset({"freeze", "egress", "live", "frozen", "tags"})
_ENVIRONMENT_ONLY = frozenset({"redaction_key"})


class Settings(BaseModel):
    """What holds for every session of a project unless the call says otherwise."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    mode: str = "none"
    cassette_dir: str = "cassettes"
    live: tuple[str, ...] = ()
    frozen: tuple[str, ...] = ()
    exhausted: Literal["fail", "last", "cycle"] = "fail"
    unused: Unused = "fail"
    on_error: OnError = "discard"
    freeze: tuple[Literal["clock", "uuid", "random"], ...] = ("clock", "uuid", "random")
    egress: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    redaction_key: str | None = None

    def chosen(self, options: dict[str, Any]) -> Settings:
        """Return these settings with the options that a call gave in their place.

        Raises:
            ConfigurationError: If an option is not valid.
        """
        try:
            return Settings.model_validate({**self.model_dump(), **options})
        except ValidationError as error:
            first = error.errors()[0]
            raise ConfigurationError(f"{first['loc'][0]}={first['input']!r}: {first['msg']}") from None


def checked_option(key: str, value: Any) -> Any:
    """Return an option of a call as a setting holds it.

    Raises:
        ConfigurationError: If it is a bare string where several are expected: each of its letters would be one.
    """
    if key in _LISTS and isinstance(value, str):
        raise ConfigurationError(f"{key}={value!r} is a bare string; expected a collection such as {{{value!r}}}")
    return str(value) if isinstance(value, Path | Enum) else value


def cassette_path(name_or_path: str | Path, cassette_dir: str | Path) -> Path:
    """Return the file of a cassette: a path with one of `SUFFIXES` as it is, a bare name under the folder.

    Raises:
        ConfigurationError: If it names no file.
    """
    if not isinstance(name_or_path, str | Path) or Path(name_or_path).name in {"", ".."}:
        raise ConfigurationError(f"expected the name or the path of a cassette, found {name_or_path!r}")
    path = Path(name_or_path)
    if path.suffix in SUFFIXES:
        return path
    return Path(cassette_dir) / path.with_name(f"{path.name}.yaml")


def stem_of(path: Path) -> str:
    """Return the name of a cassette file without its `SUFFIXES`; other dots are part of the name."""
    while path.suffix in SUFFIXES:
        path = path.with_suffix("")
    return path.name


def load_settings(start: Path | None = None, environment: dict[str, str] | None = None) -> Settings:
    """Return the settings of the project around a folder.

    Args:
        start: The folder; by default the current one. The nearest `pyproject.toml` at or above it counts.
        environment: The variables; by default those of the process.

    Raises:
        ConfigurationError: If a key or variable is unknown, or a value is not valid.
    """
    values, origins = _from_pyproject((start or Path.cwd()).resolve())
    for variable, text in sorted((os.environ if environment is None else environment).items()):
        if variable.startswith(_PREFIX):
            key = variable.removeprefix(_PREFIX).lower()
            values[key] = [word.strip() for word in text.split(",") if word.strip()] if key in _LISTS else text
            origins[key] = f"the environment variable {variable}"
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        key = str(first["loc"][0])
        known = ", ".join(Settings.model_fields)
        raise ConfigurationError(f"{origins.get(key, key)}: {first['msg']}; known settings: {known}") from None


def _from_pyproject(folder: Path) -> tuple[dict[str, Any], dict[str, str]]:
    for above in (folder, *folder.parents):
        path = above / "pyproject.toml"
        if path.is_file():
            try:
                table = tomllib.loads(path.read_text(encoding="utf-8")).get("tool", {}).get("agenttape", {})
            except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
                raise ConfigurationError(f"{path}: not valid TOML: {error}") from None
            if secret := _ENVIRONMENT_ONLY & table.keys():
                raise ConfigurationError(f"{path}: {', '.join(secret)} belongs into the environment, not into a file")
            return dict(table), {key: f"{path}: [tool.agenttape] {key}" for key in table}
    return {}, {}
