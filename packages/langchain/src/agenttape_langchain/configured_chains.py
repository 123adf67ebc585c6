"""Steps of outermost chains with a configurable part, such as the `session_id` of a `RunnableWithMessageHistory`.

They tell a replay which recorded run such a chain is; see `recorded_runs`. The steps of graphs have it already.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agenttape_core.integration import Session, record_step
from agenttape_langchain.address import is_graph
from agenttape_langchain.session_tree import register_follower

if TYPE_CHECKING:
    from uuid import UUID

    from agenttape_langchain.callbacks.runs import ObservedRun
    from agenttape_langchain.run_tree import ChainFacts, Run


class ConfiguredChains:
    """Records the outermost chains of one session that have a configurable part. Thread-safe. The session records."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._open: dict[UUID, ObservedRun] = {}

    def began(self, run_id: UUID, parent_run_id: UUID | None, run: Run, facts: ChainFacts) -> None:
        """Note the beginning of a chain."""
        if facts.configurable and parent_run_id is None and self._session.auto and not is_graph(facts.metadata):
            from agenttape_langchain.callbacks.runs import ObservedRun  # a replay observes none

            self._open[run_id] = ObservedRun(
                key=run_id,
                position=run.position,
                name=facts.name,
                above=None,
                run=run,
                tags=facts.tags,
                metadata={**facts.configurable, **facts.metadata},
            )

    def ended(self, run_id: UUID, output: Any) -> None:
        """Record the step."""
        run = self._open.pop(run_id, None)
        if run is not None:
            run.kind = run.chain_kind()
            record_step(self._session, run.as_step())

    def failed(self, run_id: UUID, error: BaseException) -> None:
        """Record the step with its error."""
        run = self._open.pop(run_id, None)
        if run is not None:
            run.kind = run.chain_kind()
            record_step(self._session, run.as_step(status="failed", error=error))


def follow() -> None:
    """Record these steps in every session from now on."""
    register_follower(_chains_of)


def _chains_of(session: Session) -> ConfiguredChains | None:
    return ConfiguredChains(session) if session.keeps_steps else None
