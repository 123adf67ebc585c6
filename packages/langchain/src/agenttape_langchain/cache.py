"""A cache of LangChain on a cassette.

It receives the arguments of a framework's cache: the prompt, the model as a string, and the generations. Streams,
errors, tools and embeddings never reach a cache.
"""

from __future__ import annotations

import functools
import json
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Self

from langchain_core.caches import RETURN_VAL_TYPE, BaseCache

import agenttape_langchain._compat  # noqa: F401 - a miss is then raised where LangChain gathers exceptions
from agenttape_core import Mode, Report, Rule
from agenttape_core.errors import SessionStateError
from agenttape_core.integration import Boundary, SessionCall, replay_call
from agenttape_core.integration.stand_ins import Recording
from agenttape_core.integration.threads import RLock

CACHE = Boundary("memory")
"""Look-ups in a cache: the answer is a list of generations."""

_NAME = "llm_cache"
_SEPARATOR = "---"
Key = tuple[str, str]


class TapeCache(BaseCache):
    """Answers model calls from a cassette, for programs that use `set_llm_cache` or give models a `cache`.

    A request has one answer, the last recorded one, however often it is looked up. While the cache is open, each
    recording is written to a journal right away; it is in the file when the cache is closed: by `close`, at the end of
    a `with` block, or at the end of the program.

    Args:
        path: A bare name under the cassette folder, or a path.
        mode: `replay` (the default: an unrecorded request is a miss), `once`, `add` or `record`.
        redact: Rules in addition to the built-in ones, or `False` to keep secrets unchanged.
        tags: Words for the header.

    Raises:
        CassetteError: If there's no cassette to replay, the file can't be read, or it's being recorded elsewhere.
        ConfigurationError: If an option, a rule or a setting is not valid.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        mode: str | Mode | None = None,
        redact: bool | Sequence[Rule] = True,
        tags: Sequence[str] = (),
    ) -> None:
        self._open = functools.partial(Recording, path, on_repeat="last", redact=redact, tags=tags, remedy=_remedy)
        self._lock = RLock()
        self._begin(mode)

    def _begin(self, mode: str | Mode | None) -> None:
        self._recording = self._open(mode=mode)
        self._made: dict[Key, Any] = {}
        self._executing: dict[Key, SessionCall] = {}
        self._at_exit = weakref.finalize(self, self._recording.close)

    @property
    def report(self) -> Report:
        """The report of replayed and missed calls."""
        return self._recording.session.report

    def lookup(self, prompt: str, llm_string: str) -> RETURN_VAL_TYPE | None:
        """Return the recorded generations, or None if there are none and the mode lets the model be called.

        Raises:
            CassetteMissError: If there are none, and the mode does not let the model be called.
            SessionStateError: If the cache is closed.
        """
        key = prompt, llm_string
        with self._lock:
            if key in self._made:
                generations: RETURN_VAL_TYPE = self._recording.session.codec.decode(self._made[key])
                return generations
            session_call = self._cross(key)
            if session_call.is_replayed:
                return replay_call(session_call)  # type: ignore[no-any-return]
            self._executing[key] = session_call
            return None

    def update(self, prompt: str, llm_string: str, return_val: RETURN_VAL_TYPE) -> None:
        """Record the answer of the model.

        Raises:
            CassetteMissError: If the mode doesn't record, and this isn't recorded.
            SessionStateError: If the cache is closed.
            UnrecordableValueError: If the generations hold a value that has no codec.
        """
        key, generations = (prompt, llm_string), list(return_val)
        with self._lock:
            session_call = self._executing.pop(key, None) or self._cross(key)
            if not session_call.is_replayed:
                session_call.returned(generations)
                self._made[key] = self._recording.session.codec.encode(generations)

    def clear(self, **kwargs: Any) -> None:
        """Start over: forget the recordings of a mode that records, or replay again from the beginning.

        The file is replaced when there are new recordings, and left alone if not.
        """
        with self._lock:
            self._at_exit.detach()
            self._recording.abandon()
            policy = self._recording.session.policy
            self._begin(Mode.RECORD if policy.records else policy.mode)

    async def alookup(self, prompt: str, llm_string: str) -> RETURN_VAL_TYPE | None:
        """Return what `lookup` returns."""
        return self.lookup(prompt, llm_string)

    async def aupdate(self, prompt: str, llm_string: str, return_val: RETURN_VAL_TYPE) -> None:
        """Do what `update` does."""
        self.update(prompt, llm_string, return_val)

    async def aclear(self, **kwargs: Any) -> None:
        """Do what `clear` does."""
        self.clear()

    def close(self) -> None:
        """Write the recordings. A closed cache cannot be used.

        Raises:
            CassetteMissError: If there was one that the program caught.
            CassetteWriteError: If the file cannot be written; the message shows where the recording is kept.
        """
        with self._lock:
            self._at_exit.detach()
            self._recording.close()
        if self._recording.session.failure is not None:
            raise self._recording.session.failure

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> Literal[False]:
        if error is None:
            self.close()
        else:
            self._at_exit()
        return False

    def _cross(self, key: Key) -> SessionCall:
        session = self._recording.session
        if session.closed:
            raise SessionStateError(f"the cache on {session.path} is closed; make a new TapeCache")
        return session.cross(CACHE, _NAME, _body(*key))


def _remedy(recorded: bool) -> list[str]:
    if not recorded:
        return ["record it with TapeCache(..., mode='add')"]
    return [
        "record it again:  TapeCache(..., mode='record')",
        "or add only what is missing, with TapeCache(..., mode='add')",
    ]


def _body(prompt: str, llm_string: str) -> dict[str, Any]:
    """Return the request; the parts that the framework has serialised as JSON are parsed."""
    model, separator, params = llm_string.partition(_SEPARATOR)
    plain = _plain(model) if separator else None
    if plain is None:
        return {"prompt": _plain(prompt) or prompt, "model": llm_string}
    return {"prompt": _plain(prompt) or prompt, "model": plain, "params": params}


def _plain(text: str) -> Any:
    """Return the value of a text that is a JSON object or a list of them; None for any other text."""
    if not text.startswith(("[{", "{")):
        return None
    try:
        return json.loads(text)
    except ValueError:
        return None
