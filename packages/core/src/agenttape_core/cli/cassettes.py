"""The cassettes that a path means: a file, all of a folder or a store, or the one on standard input."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from difflib import get_close_matches
from functools import cache, partial
from pathlib import Path, PurePath

import click

from agenttape_core.cli.output import progress
from agenttape_core.errors import CassetteError, CassetteNotFoundError, shown_path
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.schema import Interaction, Step
from agenttape_core.settings import load_settings
from agenttape_core.storage import (
    SUFFIXES,
    Cassette,
    CassetteUrl,
    Stored,
    cassette_of,
    cassette_path,
    files_below,
    is_cassette,
    is_derived,
    list_files,
    location_of,
    may_be_cassette,
    open_cassette,
    read_ahead,
    read_cassette,
    stem_of,
)

STDIN = "-"

paths_argument: Callable[[Callable[..., object]], Callable[..., object]] = click.argument(
    "paths", nargs=-1, metavar="[PATH]...", type=click.Path(readable=False)
)


class Found(NamedTuple):
    """A cassette that a path means."""

    shown: str  # its name in messages
    path: Path | None  # its file; None for standard input and URLs
    open: Callable[[], Cassette]
    file: Stored  # its file or its URL, with the size if its folder was listed
    is_listed: bool = False  # whether a folder lists it, so that it may be a file of another kind

    def look(self) -> Cassette:
        """Open it to show it: an asset that is lost hides one value, which `agenttape check` reports."""
        return self.open().show_lost()


def found_in(paths: Sequence[str]) -> list[Found]:
    """Return the cassettes that paths select, each once, sorted within a folder.

    `paths` are files, folders, names, URLs of either, globs or `-`; by default the current folder. A file at a URL
    counts by its name alone. Raises `CassetteNotFoundError` if a path doesn't exist, or a folder has no cassette, and
    `CassetteError` if a store can't be listed.
    """
    found: dict[str, Found] = {}
    for path in paths or (".",):
        for each in _meant(path):
            found.setdefault(each.shown, each)
    return list(found.values())


def reading(found: Sequence[Found], label: str = "reading") -> Iterator[Found]:
    """Yield cassettes to read each once, and show the progress. Keep one at a time: it may hold its bytes.

    Those at URLs are read ahead; a file that a folder there lists, and that turns out not to be a cassette, is left
    out. However often one is opened, it's parsed once.
    """
    ahead = read_ahead(each.file for each in found)
    for each, (file, read) in zip(progress(found, label), ahead, strict=True):
        if not isinstance(file.location, CassetteUrl):
            yield each._replace(open=cache(each.open))
        elif not each.is_listed or _may_be_one(file, read):
            yield each._replace(open=cache(lambda file=file, read=read: cassette_of(file.location, read())))


def _may_be_one(file: Stored, read: Callable[[], bytes]) -> bool:
    try:
        return is_cassette(file.location, read())
    except CassetteError:  # whoever opens it reports that
        return True


def runs_in(paths: Sequence[str]) -> list[Found]:
    """Return the cassettes as `found_in` does, but derived ones only if named, or in a folder without others.

    At a URL, a derived one is recognized by its name.
    """
    runs: dict[str, Found] = {}
    for path in paths or (".",):
        found = found_in([path])
        for each in [one for one in found if one.shown == path or not _is_derived(one)] or found:
            runs.setdefault(each.shown, each)
    return list(runs.values())


def _is_derived(found: Found) -> bool:
    if is_derived(found.shown) or isinstance(found.file.location, CassetteUrl):  # which would be read for that
        return is_derived(found.shown)
    with suppress(CassetteError):  # whoever reads it reports that
        return found.open().preface.derived_from is not None
    return False


def found_one(path: str) -> Found:
    """Return the cassette that a path or a bare name means.

    Raises `CassetteNotFoundError` if there is none, and `UsageError` if the path is a folder with several, or a name
    that several have.
    """
    several = found_in([path])
    if len(several) > 1:
        raise click.UsageError(f"{path} holds {len(several)} cassettes; name one of them")
    return several[0]


def records_of(found: Found) -> Iterator[Interaction | Step]:
    """Yield the records of a cassette, after its whole header. Raises `CassetteError` if a part can't be read."""
    cassette = found.open()
    _ = cassette.header  # its volatile block is read lazily
    yield from cassette.records()


def is_folder(path: str) -> bool:
    """Return True if a path is a folder's, or a glob. A URL without the end of a cassette's name is a folder's."""
    location = location_of(path)
    if isinstance(location, Path):
        return location.is_dir() or ("*" in path and not location.exists())
    return "*" in path or not location.endswith(SUFFIXES)


def _meant(path: str) -> Iterator[Found]:
    if path == STDIN:
        read = cache(lambda: read_cassette(sys.stdin.buffer))
        yield Found("standard input", None, read, Stored(Path(STDIN)))
        return
    if not ("://" in path or "*" in path or path.endswith(SUFFIXES) or Path(path).exists()):
        path = _of_name(path)
    if not is_folder(path):
        location = location_of(path)
        local = location if isinstance(location, Path) else None
        yield Found(path, local, partial(_opened, path), Stored(location))
        return
    files = [
        file
        for file in list_files(path)
        if not isinstance(file.location, Path) or is_cassette(file.location) or _hides(file.location)
    ]
    if not files:
        raise CassetteNotFoundError(path, "there is no cassette in this folder", remedy="name another folder or a file")
    for file in files:
        local = file.location if isinstance(file.location, Path) else None
        yield Found(str(file.location), local, partial(open_cassette, file.location), file, is_listed=True)


def _of_name(name: str) -> str:
    found = named(name)
    if found is None:
        remedy = f"a cassette is a folder, or a file that ends with {', '.join(SUFFIXES)}"
        raise CassetteNotFoundError(name, "there is no such file or folder", remedy=alike(name) or remedy)
    return str(found)


def _opened(path: str) -> Cassette:
    """Open a cassette; the advice about one that is not there names those beside it with nearly its name."""
    try:
        return open_cassette(path)
    except CassetteNotFoundError as error:
        folder = Path(path).parent
        files = sorted(folder.glob("*")) if "://" not in path else []
        beside = {stem_of(file): file for file in files if may_be_cassette(file.name) and file.is_file()}
        alike = get_close_matches(stem_of(Path(path)), beside, n=3)
        if not alike:
            raise
        meant = " or ".join(shown_path(beside[name]) for name in alike)
        raise CassetteNotFoundError(path, error.problem, remedy=f"did you mean:  {meant}") from None


def _hides(file: Path) -> bool:
    """Return whether a file in a folder for cassettes can't be read: a command reports it instead of skipping it."""
    try:
        file.open("rb").close()
    except OSError:
        return PurePath(load_settings().cassette_dir).name in file.absolute().parts[:-1]
    return False


# The secret values that a command line doesn't hold, as other programs see it.


def with_values(function: Callable[..., object]) -> Callable[..., object]:
    """Add the options for values to replace to a command; `values_given` reads them."""
    for option in (
        click.option("--value", "source", metavar="-", help="Replace the values on standard input, one in each line."),
        click.option(
            "--value-from-env",
            "variables",
            multiple=True,
            metavar="NAME",
            help="Replace the value of an environment variable. Repeatable.",
        ),
    ):
        function = option(function)
    return function


def values_given(variables: Sequence[str], source: str | None, paths: Sequence[str]) -> list[str]:
    """Return the secret values of a command, from environment variables, and from standard input for `-`."""
    if missing := [name for name in variables if not os.environ.get(name)]:
        raise click.UsageError(f"--value-from-env {missing[0]}: this variable is not set")
    values = [os.environ[name] for name in variables]
    if source is None:
        return values
    if source != STDIN or STDIN in paths:
        why = "other programs see the command line" if source != STDIN else "the cassette is there"
        raise click.UsageError(f"--value takes - only, and then reads standard input: {why}")
    if sys.stdin.isatty():
        return [*values, click.prompt("Value", hide_input=True, err=True)]
    return [*values, *filter(None, sys.stdin.read().replace("\r\n", "\n").split("\n"))]


# The cassettes that a bare name means.

_SHOWN, _NEAR = 4, 3


def named(name: str, begun: Iterable[Path] = ()) -> Path | None:
    """Return the cassette that a name means: the one in the folder of the settings, or else the only one below here.

    A name may have folders before it, as many as tell it from others: `test_desk/test_hi`. `begun` cassettes, whose
    first recordings have not ended, need not be there. Raises `UsageError` if several have it.
    """
    configured = cassette_path(name, load_settings().cassette_dir)
    if isinstance(configured, Path) and configured.is_file():
        return configured
    found = dict.fromkeys(path for path in begun if _is_called(path, name))
    found |= dict.fromkeys(path for path in _below(Path()) if _is_called(path, name) and is_cassette(path))
    if isinstance(configured, Path) and configured in found:
        return configured
    if len(found) > 1:
        shown = list(map(shown_path, found))
        lines = [f"{name} is the name of {len(found)} cassettes; name one by its path:", *shown[:_SHOWN]]
        more = [f"and {len(shown) - _SHOWN} more"] if len(shown) > _SHOWN else []
        raise click.UsageError("\n  ".join([*lines, *more]))
    return next(iter(found), None)


def alike(name: str) -> str:
    """Return which cassettes below here have nearly this name, as advice; empty if none has."""
    stems = {stem_of(path): path for path in _below(Path())}
    last = PurePath(name).name
    near = get_close_matches(last, stems, n=_NEAR) or [stem for stem in stems if last and last in stem][:_NEAR]
    meant = [shown_path(stems[stem]) for stem in near if is_cassette(stems[stem])]
    return f"did you mean:  {' or '.join(meant)}" if meant else ""


def _is_called(path: Path, name: str) -> bool:
    wanted = PurePath(name).parts
    return bool(wanted) and (*path.parent.parts, stem_of(path))[-len(wanted) :] == wanted


def _below(folder: Path) -> list[Path]:
    """Return the files in a folder and below it that may be cassettes."""
    return [path for path in files_below(folder) if may_be_cassette(path.name) and path.is_file()]
