"""Names the real values that a replay draws, which differ each time."""

from __future__ import annotations

from agenttape_core.freeze import (
    drawer,
    is_collecting,
    is_drawn_by_program,
    is_drawn_for_run,
    register_real_draws,
)
from agenttape_core.scheduling import session_of_bare_thread
from agenttape_core.session import Session, context_session, executing_of

_DRAWN = {"clock": "times", "numpy": "random numbers of numpy", "random": "random numbers", "uuid": "ids"}
_REAL = {
    "noise": "what `secrets`, `os.urandom` and `random.SystemRandom` give the program is real",
    "spans": "what `time.monotonic`, `perf_counter` and their like tell the program is real",
}
_BARE = "{drawn} in a thread without a context are real (begin it with `contextvars.copy_context().run`)"
_GARBAGE = "{drawn} drawn by what the garbage collector deletes are real (it does that at any time)"
_UNSEEN = "{drawn} that {who} draws are other ones"


def _is_drawn(kind: str) -> None:
    """Name a draw: in a thread without a context, by garbage, or in a run that was only observed."""
    bare = session_of_bare_thread()
    session = bare or context_session()
    if session is None or not session.is_replay or session.frozen is None:
        return
    if kind in _REAL:
        if not executing_of(session):
            session.report.add_entropy(_REAL[kind])
    elif session.frozen.was_observed:
        _is_unseen(session, kind)
    elif kind in session.frozen.kinds and (is_drawn_by_program() if is_collecting() else bare and is_drawn_for_run()):
        line = (_GARBAGE if is_collecting() else _BARE).format(drawn=_DRAWN[kind])
        session.report.add_entropy(line, moves_calls=True)


def _is_unseen(session: Session, kind: str) -> None:
    who = drawer(kind)
    if who and session.frozen is not None and not session.frozen.is_importing():
        session.report.add_unobserved(_UNSEEN.format(drawn=_DRAWN[kind], who=who))


register_real_draws(_is_drawn)
