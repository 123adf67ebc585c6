"""The hash seed of a process in which a program is replayed: the recorded one.

It decides the order of sets of texts, and is chosen when a process starts; see `agenttape_core.session.hash_seed`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path, PurePath

from agenttape_core.errors import CassetteError
from agenttape_core.schema import HASH_SEED
from agenttape_core.settings import given_cassette_dir
from agenttape_core.storage import files_below, may_be_cassette, open_cassette

_FOLDER = "cassettes"  # the folder of the cassettes of tests, beside their modules


def recorded_seed(cassette: str | Path) -> int | None:
    """Return the hash seed of a recording; `None` if it is unknown, or no cassette can be read."""
    with suppress(CassetteError):  # the replay says what is wrong with it
        return open_cassette(cassette).preface.volatile.hash_seed
    return None


def seed_of_tests(words: Sequence[str]) -> int | None:
    """Return the hash seed with which tests were recorded; `None` if none is known, or they were with several.

    `words` are files, folders and ids of tests; without any, all below this folder.
    """
    paths = [path for word in words if (path := Path(word.partition("::")[0])).exists()]
    places = paths or [Path()]
    given = given_cassette_dir(Path.cwd(), Path.cwd())
    if given is not None and "://" not in given:
        places.append(Path(given))
    files = dict.fromkeys(file for path in places for file in _cassettes(path, given))
    seeds = {recorded_seed(file) for file in files} - {None}
    return seeds.pop() if len(seeds) == 1 else None


def with_seed(seed: int | None) -> dict[str, str]:
    """Return the variable that gives a hash seed to a process; without one, the process inherits this one's."""
    return {} if seed is None else {HASH_SEED: str(seed)}


def _cassettes(tests: Path, given: str | None) -> Iterator[Path]:
    """Yield the files that may be cassettes of a module, or of all modules in a folder."""
    kept_in = {_FOLDER, PurePath(given or _FOLDER).name}
    top = tests if tests.is_dir() else tests.parent / _FOLDER
    for path in files_below(top):
        if may_be_cassette(path.name) and not kept_in.isdisjoint(path.absolute().parts[:-1]):
            yield path
