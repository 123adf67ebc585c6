"""Recorded answers of models in the wire format of a provider, for programs in any language."""

from __future__ import annotations

from pathlib import Path

from agenttape_core.errors import ConfigurationError, shown_path
from agenttape_core.tools.compare.comparison import named_cassette
from agenttape_core.tools.model_server.answers import OnRepeat, answers_of
from agenttape_core.tools.model_server.server import ModelServer, Provider

__all__ = ["ModelServer", "serve_models"]


def serve_models(
    *cassettes: str | Path,
    provider: Provider = "openai",
    port: int = 0,
    pace: float = 0.0,
    on_repeat: OnRepeat = "fail",
) -> ModelServer:
    """Return a server of the recorded answers of models; as a context manager, it answers in a thread.

    Args:
        cassettes: Bare names under the cassette folder, or paths.
        provider: The provider whose wire format it speaks: `openai` or `anthropic`.
        port: The port; 0 for any that is free.
        pace: The recorded times of answers and chunks are multiplied by this; 0 for no time.
        on_repeat: The answer to a request that a client makes more often than it was recorded.

    Raises:
        CassetteError: If there's no such cassette, or it can't be read.
        ConfigurationError: If none has a call of a model, or the port can't be used.
    """
    opened = [(cassette, shown_path(cassette.path)) for cassette in map(named_cassette, cassettes)]
    answers = answers_of(opened, on_repeat)
    if not answers.answers:
        raise ConfigurationError(
            f"{', '.join(shown for _, shown in opened)}: no call of a model is recorded\n"
            "  record one, or serve its tools without --as"
        )
    return ModelServer(answers, provider, port, pace=pace)
