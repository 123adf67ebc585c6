"""Candidates: models that are tried instead of the program's own, whose code doesn't change.

A candidate is data: which model, and at which places. The framework's integration creates the model, and sends it the
request of the program's own model, at the leaf of the call. A request that a program sends to a model over HTTP goes to
the same address, with the name of the other model in its body.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agenttape_core.errors import ConfigurationError
from agenttape_core.matching import CanonicalRequest, Selector
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.schema import MODEL_KINDS, OWN, asks_model, model_path


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

HTTP = "http"  # the word for programs that ask models over HTTP, in place of a framework

# Providers whose requests have OpenAI's format, and the words by which their hosts are known.
_LIKE_OPENAI = {
    **{name: name for name in ("deepseek", "fireworks", "groq", "openai", "openrouter", "perplexity", "together")},
    "azure_openai": "openai.azure",
    "mistralai": "mistral",
    "xai": "x.ai",
}
_FORMATS = {name: {"openai"} for name in _LIKE_OPENAI} | {
    "anthropic": {"anthropic"},
    "cohere": {"cohere"},
    "ollama": {"ollama", "openai"},
}
"""The wire formats of the requests that each provider reads, if these name the model in their body."""


def _over_http(given: Any) -> CandidateModel | None:
    """Make a candidate for requests over HTTP; its model is the name alone."""
    if not isinstance(given, str):
        return None
    provider, _, model = given.partition(":")
    if provider not in _FORMATS or not model:
        raise ConfigurationError(
            f"for calls over HTTP, expected PROVIDER:MODEL, with a provider of {', '.join(sorted(_FORMATS))}"
        )
    return CandidateModel(model, given)


def why_not_exchanged(label: str, request: Mapping[str, Any]) -> str:
    """Return why a request over HTTP can't ask a candidate instead of the program's own model; empty if it can.

    Args:
        label: The name of the candidate, `provider:model`.
        request: The request as plain data.
    """
    path, wire_format = model_path(request)
    provider, body = label.partition(":")[0], request.get("body")
    if wire_format not in _FORMATS.get(provider, ()):
        return f"{path} is in the wire format of {wire_format}, which {provider} doesn't read"
    if "/deployments/" in path or not isinstance(body, Mapping) or not isinstance(body.get("model"), str):
        return f"its body doesn't say which model of {path} answers"
    url = request.get("url")
    host = f".{url.get('host') if isinstance(url, Mapping) else url}"
    owners = [name for name, word in _LIKE_OPENAI.items() if f".{word}" in host]
    if owners and provider not in owners:
        return f"it goes to {host[1:]}, which doesn't serve models of {provider}"
    return ""


_makers: dict[str, MakeCandidate] = {HTTP: _over_http}


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


def may_be_tried(request: CanonicalRequest, around: str) -> bool:
    """Return whether another model can be tried on a call: not on a request that the call of a model sends.

    `around` is the kind of the call that makes it, empty if there is none.
    """
    if request.kind == HTTP:
        return around not in MODEL_KINDS and asks_model(HTTP, request.body)
    return request.kind in MODEL_KINDS


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


def model_over_http(session_call: Any) -> str:
    """Return the model that gets a request over HTTP instead of the program's own; empty without a candidate.

    Args:
        session_call: The call.

    Raises:
        ConfigurationError: If the request can't ask the candidate.
    """
    candidate = candidate_of(session_call, HTTP)
    if candidate is None:
        return ""
    if why := why_not_exchanged(candidate.label, session_call.request.body):
        with session_call.session.latch:
            raise ConfigurationError(
                f"candidate {candidate.label}: {session_call.position.address} can't ask it: {why}\n"
                "  choose a model of the program's provider, or name the calls on which it's tried: "
                "candidate={ADDRESS: MODEL}"
            )
    return str(candidate.model)


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
