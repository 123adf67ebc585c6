"""Candidates: models that are tried instead of the program's own, whose code doesn't change.

A candidate is data: which model, and at which places. The framework's integration creates the model, and sends it the
request of the program's own model, at the leaf of the call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agenttape_core.errors import ConfigurationError
from agenttape_core.matching import Selector
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.schema import MODEL_KINDS, OWN


class CandidateModel(NamedTuple):
    """A model of one framework that can be called instead of another.

    Args:
        model: The model.
        label: Its name in reports, such as `openai:gpt-5-mini`.
        calls_tools: Whether tools can be offered to it.
        options: Options that are passed with each call.
    """

    model: Any
    label: str
    calls_tools: bool = True
    options: Mapping[str, Any] = {}


MakeCandidate = Callable[[Any], CandidateModel | None]
"""Makes the model of a framework of an object or a name; `None` for an object of another framework.

It raises a `ConfigurationError` for a name of which it can make none.
"""

_makers: dict[str, MakeCandidate] = {}


def register_candidates(framework: str, make: MakeCandidate) -> None:
    """Register how an integration makes a candidate.

    Args:
        framework: The name of the framework's module, as the entry point of the integration has it.
        make: Makes the model.
    """
    _makers[framework] = make


class Candidate(NamedTuple):
    """A candidate in each framework that may ask it."""

    label: str  # its name in reports
    models: Mapping[str, CandidateModel]  # the model, by the name of the framework's module

    @property
    def calls_tools(self) -> bool:
        """True if tools can be offered to it, in one framework at least."""
        return any(model.calls_tools for model in self.models.values())


def made_candidate(given: Any, frameworks: Sequence[str]) -> Candidate:
    """Make a candidate of a model, or of its name.

    `given` is the model, or `provider:model`; one of the frameworks has to have it. Raises `ConfigurationError` if none
    of them can make it.
    """
    models: dict[str, CandidateModel] = {}
    problems: list[str] = []
    for framework in frameworks:
        make = _makers.get(framework)
        if make is None:
            continue
        try:
            made = make(given)
        except ConfigurationError as error:
            problems.append(str(error))
        else:
            if made is not None:
                models[framework] = made
    if models:
        return Candidate(next(iter(models.values())).label, models)
    what = repr(given) if isinstance(given, str) else f"an object of {type(given).__qualname__}"
    if not problems:
        shown = ", ".join(frameworks) or "none is imported"
        problems = [
            f"it isn't a chat model of a framework that is in use here ({shown}); pass one, or its name, provider:model"
        ]
    raise ConfigurationError("\n  ".join([f"candidate={what}: {problems[0]}", *problems[1:]]))


class Candidates(NamedTuple):
    """The candidates of a session, and the calls for which each is tried."""

    # A candidate for each selector, the first that selects a call counts, those by number or address first; `None`
    # selects all. Without a candidate, the program's own model is called again.
    chosen: Sequence[tuple[Selector | None, Candidate]]

    @property
    def is_everywhere(self) -> bool:
        """True if each call of a model has a candidate."""
        return not self.chosen or any(selector is None for selector, _ in self.chosen)

    def may_be_at(self, kind: str) -> bool:
        """Return whether a call of a kind can have a candidate."""
        return kind in MODEL_KINDS

    def at(self, kind: str, name: str, address: str) -> Candidate | None:
        """Return the candidate for a call, if there is one."""
        chosen = self.chosen
        return next((one for each, one in chosen if each is None or each.selects(kind, name, address)), None)

    def described(self) -> str | dict[str, str]:
        """Return the labels as plain data, by selector if there are several."""
        if not self.chosen:
            return OWN
        if self.is_everywhere:
            return self.chosen[0][1].label
        return {str(key): candidate.label for selector, candidate in self.chosen for key in selector or ()}


def candidate_of(session_call: Any, framework: str) -> CandidateModel | None:
    """Return the model to call instead of the program's own, if the call has a candidate.

    Args:
        session_call: The call.
        framework: The name of the framework's module.

    Raises:
        ConfigurationError: If the candidate is a model of another framework.
    """
    candidate: Candidate | None = getattr(session_call, "candidate", None)  # only one that is executed has any
    if candidate is None:
        return None
    found: CandidateModel | None = candidate.models.get(framework)
    if found is None:
        with session_call.session.latch:
            others = ", ".join(sorted(candidate.models))
            raise ConfigurationError(
                f"candidate {candidate.label}: {session_call.request.name} at {session_call.position.address} is a "
                f"model of {framework}, and the candidate one of {others}\n"
                "  give each its own by place: candidate={NODE: MODEL, ...}"
            )
    return found


def refuse_tools(session_call: Any, candidate: CandidateModel) -> None:
    """Refuse to offer tools to a candidate that cannot call any.

    Raises:
        ConfigurationError: Always.
    """
    with session_call.session.latch:
        raise ConfigurationError(
            f"candidate {candidate.label}: tools are offered at {session_call.position.address}, and it calls none\n"
            "  choose a model that calls tools, or name the places at which it is tried: candidate={NODE: MODEL}"
        )
