"""The names of cassette files: from a user's name for a cassette to its file, and to other files next to it."""

from __future__ import annotations

import os
from pathlib import Path, PurePath
from typing import overload

from agenttape_core.errors import ConfigurationError, shown_path
from agenttape_core.lazy_patterns import Lazy
from agenttape_core.storage.location import CassetteUrl, Location, location_of

SUFFIXES = (".yaml", ".yml", ".jsonl", ".gz", ".zst")
"""The ends of names of cassette files."""
_FORMATS = tuple(f"{layout}{packing}" for layout in (".yaml", ".yml", ".jsonl") for packing in ("", ".gz", ".zst"))
"""The ends of whole names; a cassette that isn't there yet gets the first."""
_FOREIGN = frozenset(
    {".bz2", ".csv", ".db", ".har", ".html", ".json", ".log", ".md", ".ndjson", ".parquet", ".pickle", ".pkl", ".py"}
    | {".sqlite", ".tar", ".tgz", ".toml", ".txt", ".xml", ".xz", ".zip"}
)
"""Suffixes of other kinds of files. A name with one is a file name, and not the bare name of a cassette."""

ASSETS = ".assets"  # the end of the name of a folder of assets, after the name of its cassette
SCORES = ".scores.json"  # the end of the name of a file of scores, beside the cassette of its run
SNAPSHOT = ".snapshot.yaml"
"""The end of the names of snapshots, which aren't cassettes."""
_LEFT_OUT = (ASSETS, "__pycache__", "node_modules", "site-packages")
"""The ends of names of folders that hold no cassettes of a project."""


def cassette_path(name_or_path: str | Path, cassette_dir: str | Path, start: Path | None = None) -> Location:
    """Return the file of a cassette: a path with one of `SUFFIXES` or a URL unchanged, a bare name under the folder.

    A bare name means the existing file, in whatever format, or a `.yaml` file if none exists.

    Args:
        name_or_path: The name, the path or the URL.
        cassette_dir: The folder of bare names. Unless there is a `start`, it's shown as below the working folder.
        start: The folder from which relative paths start; by default they stay relative to the working folder.

    Raises:
        ConfigurationError: If it names no file, several, one of another sort, or is a URL with credentials in it.
    """
    if not isinstance(name_or_path, str | Path) or PurePath(name_or_path).name in {"", ".."}:
        raise ConfigurationError(f"expected the name or the path of a cassette, found {name_or_path!r}")
    _refuse_odd(str(name_or_path))
    path = location_of(name_or_path)
    if path.name == "":
        raise ConfigurationError(f"expected the URL of a cassette, found that of a folder: {path}")
    suffix = PurePath(path.name).suffix
    if suffix in SUFFIXES:
        return start / path if start is not None and isinstance(path, Path) else path
    if suffix in _FOREIGN:
        raise ConfigurationError(
            f"{path}: a cassette doesn't end with {suffix}\n"
            f"  expected a bare name, or a path that ends with one of {', '.join(_FORMATS)}"
        )
    named = path.with_name(f"{path.name}.yaml")
    if isinstance(named, CassetteUrl):
        return named
    folder = location_of(cassette_dir if start is not None else shown_path(cassette_dir))
    if not isinstance(folder, Path):
        return folder.joined(named.as_posix())
    return in_its_format(start / folder / named if start is not None else folder / named)


def in_its_format(path: Path) -> Path:
    """Return the file that is there of a bare name, in whatever format; the `.yaml` file if none is.

    Args:
        path: The file that the name has as `.yaml`.

    Raises:
        ConfigurationError: If there are several, as each may hold another recording.
    """
    stem = os.fspath(path).removesuffix(_FORMATS[0])
    there = [f"{stem}{suffix}" for suffix in _FORMATS if os.path.isfile(f"{stem}{suffix}")]  # noqa: PTH113 - at each call
    if len(there) > 1:
        files = "\n  ".join(map(shown_path, there))
        raise ConfigurationError(
            f"{path.name.removesuffix(_FORMATS[0])} is the name of {len(there)} cassettes:\n  {files}\n"
            "  name one by its path, or delete the others"
        )
    return Path(there[0]) if there else path


def _refuse_odd(name: str) -> None:
    try:
        name.encode()
    except UnicodeEncodeError:
        raise ConfigurationError(
            f"{name!a}: the name of a cassette holds a lone surrogate, which no file can have"
        ) from None
    if name.startswith("~"):
        raise ConfigurationError(
            f"{name!r}: only a shell takes ~ for a home folder; here it would be a folder of that name\n"
            "  write the path out, or use Path(...).expanduser()"
        )


def may_be_cassette(name: str) -> bool:
    """Return True if a file has the name of a cassette, and neither waits for review nor holds snapshots."""
    return name.endswith(SUFFIXES) and not name.startswith(".") and not name.endswith(SNAPSHOT) and not is_pending(name)


def is_left_out(folder: str) -> bool:
    """Return True if a folder with this name holds no cassettes: a hidden one, or one of assets or packages."""
    return folder.startswith(".") or folder.endswith(_LEFT_OUT)


def files_below(folder: Path) -> list[Path]:
    """Return the files in a folder and below it, sorted.

    Hidden folders, folders of assets and those of installed packages are left out, and links to folders aren't
    followed.
    """
    found: list[Path] = []
    for where, below, names in os.walk(folder):
        below[:] = [name for name in below if not is_left_out(name)]
        found += [Path(where, name) for name in names]
    return sorted(found)


def stem_of(path: Location) -> str:
    """Return the name of a cassette file without its `SUFFIXES`; other dots are part of the name."""
    name = PurePath(path.name)
    while name.suffix in SUFFIXES:
        name = name.with_suffix("")
    return name.name


def derived_path(path: Location, model: str = "") -> Location:
    """Return the file of the cassette that a run derives from another one, unless it is given a name: beside it.

    Args:
        path: The other one.
        model: The model that was tried, if one was, whose name is part of the file's.
    """
    return with_infix(path, f"{in_file_name(model)}.derived" if model else "derived")


def is_derived(name: str) -> bool:
    """Return whether a file has the name of a derived cassette."""
    return ".derived." in name


def in_file_name(model: str) -> str:
    """Return the name of a model as a part of the name of a file: `openai-gpt-5-mini` for `openai:gpt-5-mini`."""
    return "".join(letter if letter.isalnum() or letter in "._" else "-" for letter in model)


_PENDING = Lazy(r".\.pending(?:\.yaml|\.yml|\.jsonl)(?:\.gz|\.zst)?$")


def pending_path(path: Path) -> Path:
    """Return the file of a recording that waits for review beside a cassette, and has not taken its place yet."""
    return with_infix(path, "pending")


def is_pending(name: str) -> bool:
    """Return whether a file has the name of a recording that waits for review.

    Args:
        name: The name of the file.
    """
    return _PENDING.search(name) is not None


def waits_for(pending: Path) -> Path:
    """Return the cassette whose place a recording would take that waits for review.

    Args:
        pending: The file of that recording.
    """
    stem = stem_of(pending)
    return pending.with_name(f"{stem.removesuffix('.pending')}{pending.name.removeprefix(stem)}")


@overload
def with_infix(path: Path, infix: str) -> Path: ...
@overload
def with_infix(path: CassetteUrl, infix: str) -> CassetteUrl: ...
def with_infix(path: Location, infix: str) -> Location:
    """Return `NAME.INFIX.yaml` beside `NAME.yaml`, whatever its suffixes are."""
    stem = stem_of(path)
    return path.with_name(f"{stem}.{infix}{path.name.removeprefix(stem)}")
