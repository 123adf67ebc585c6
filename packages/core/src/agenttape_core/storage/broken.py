"""A cassette that cannot be read, in the place of which another one is recorded: it is kept beside that one."""

from __future__ import annotations

import contextlib
import itertools
from typing import TYPE_CHECKING

from agenttape_core.errors import CassetteFormatError, CassetteNotFoundError
from agenttape_core.storage.asset_files import AssetFolder
from agenttape_core.storage.cassette import open_cassette
from agenttape_core.storage.files import packed_bytes
from agenttape_core.storage.stores import exists, store_of

if TYPE_CHECKING:
    from pathlib import Path

    from agenttape_core.storage.location import Location

_SUFFIX = ".broken"


def put_aside(target: Location, *, kept_in: Path | None = None) -> Location | None:
    """Keep what is about to be replaced, if it cannot be read: a person may still see something in it.

    The copy has no name of a cassette, so that no folder of cassettes is broken by it.

    Args:
        target: What will be replaced; whoever calls holds its lock.
        kept_in: The journal that holds the new recording, named when the copy cannot be written.

    Returns:
        The copy, `NAME.yaml.broken`, which has the assets as well; nothing if there is no such need.

    Raises:
        CassetteVersionError: It is of a newer format, so it is good for somebody.
        CassetteFormatError: Nobody can tell what it holds, so it must not be replaced.
        CassetteWriteError: The copy could not be written.
    """
    try:
        open_cassette(target)
    except CassetteNotFoundError:
        return None
    except CassetteFormatError:
        data = packed_bytes(target)
    else:
        return None
    aside = _free_name(target)
    AssetFolder(aside).save(AssetFolder(target).content(), kept_in=kept_in)
    store, key = store_of(aside)
    store.save(key, data, kept_in=kept_in)
    return aside


def is_replaceable(location: Location) -> bool:
    """Whether a file that is no readable cassette can be put aside: it is one, and all of it can be had."""
    with contextlib.suppress(CassetteFormatError):
        packed_bytes(location)
        return True
    return False


def _free_name(target: Location) -> Location:
    numbers = itertools.chain([""], (f"-{number}" for number in itertools.count(2)))
    names = (target.with_name(f"{target.name}{_SUFFIX}{number}") for number in numbers)
    return next(name for name in names if not exists(name))
