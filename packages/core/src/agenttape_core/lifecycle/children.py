"""The processes that `multiprocessing` starts anew within a replay: each replays the same cassette, guarded as well.

A forked child has the session and its guard in its memory. One that is spawned, or forked from a fork server, begins
with nothing but the *preparation data* of its parent, which it unpickles before it imports the program. So an object is
put among that data whose unpickling opens the session there.
"""

from __future__ import annotations

import importlib
import pickle
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agenttape_core.guard import SUBPROCESS
from agenttape_core.lifecycle.failures_of_children import FAILURES
from agenttape_core.lifecycle.patched_on_import import PatchedOnImport
from agenttape_core.lifecycle.start_session import Opened
from agenttape_core.session import Session, Slot, current_session, executing_of

_CHILD = "agenttape_core.lifecycle.child_session"
"""The module that opens the session of a child, by name: it builds on everything that surrounds a session."""


class Inheritance:
    """The part of a session that a child gets which is started in it.

    Args:
        options: The options of `SessionRequest`, as far as they can be pickled, and where failures are kept.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.options = options

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return _begin, (self.options,)


def _begin(options: Mapping[str, Any]) -> None:
    importlib.import_module(_CHILD).begin(options)


@contextmanager
def inherited(opened: Opened) -> Iterator[None]:
    """Hand a replay down to the processes that `multiprocessing` starts anew from it, while inside.

    Not where processes may be started at will: they are the user's business then, or have sessions of their own.
    """
    if SUBPROCESS in opened.prepared.hosts_of_program:
        yield
        return
    opened.session.extend(_OPENED, opened)
    del opened  # this may last for as long as something holds the session
    with _preparing():
        yield


def _not_opened(_: Any) -> Opened | None:
    return None


_OPENED: Slot[Opened | None] = Slot(_not_opened)


def _handing_down(real: Callable[[str], dict[str, Any]]) -> Callable[[str], dict[str, Any]]:
    def get_preparation_data(name: str) -> dict[str, Any]:
        data = real(name)
        session = current_session()
        opened = session.extension(_OPENED) if isinstance(session, Session) and session.is_replay else None
        if opened is not None and _starts_at_will(opened):
            return data
        # First, as the child unpickles in this order; and all before it imports the program.
        return data if opened is None else {"agenttape": Inheritance(_options(opened, name)), **data}

    return get_preparation_data


def _starts_at_will(opened: Opened) -> bool:
    """Return whether the caller runs for a live call that may start processes, which are the user's business then."""
    return SUBPROCESS in opened.prepared.settings.allow_hosts and executing_of(opened.session)


_preparing = PatchedOnImport("multiprocessing.spawn", "get_preparation_data", _handing_down)


def _options(opened: Opened, process: str) -> dict[str, Any]:
    prepared = opened.prepared
    request, path = prepared.request, prepared.path
    failures = opened.session.extension(FAILURES)
    options = {
        **request.options,
        "allow_hosts": sorted(prepared.hosts_of_program),
        "mode": "none",
        "live": (),
        "unused": "ignore",
    }
    return {
        "cassette": path.absolute() if isinstance(path, Path) else str(path),
        "options": {name: value for name, value in options.items() if _travels(value)},
        "redact": request.redact if _travels(request.redact) else True,
        "places": prepared.redactor.places.paths,
        "ambient": request.ambient,
        "shown_as": prepared.shown,
        "process": process,
        "failures": (failures.folder, failures.parent),
    }


def _travels(value: Any) -> bool:
    """Return whether a value can be given to another process: a function of the user's may be one that cannot."""
    try:
        pickle.dumps(value)
    except (pickle.PicklingError, AttributeError, TypeError):
        return False
    return True
