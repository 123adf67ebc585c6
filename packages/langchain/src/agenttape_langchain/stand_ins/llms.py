"""A text model made of a cassette."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseLLM
from langchain_core.outputs import GenerationChunk, LLMResult
from pydantic import PrivateAttr

from agenttape_core.integration import SessionCall, areplay_call, areplay_stream, replay_call, replay_stream
from agenttape_core.integration.stand_ins import OnRepeat, Pace, RecordedPart, StandIn, hold_signature
from agenttape_langchain.llms import COMPLETION
from agenttape_langchain.requests import completion_body


class ReplayLLM(StandIn, BaseLLM):
    """A text model that answers from a cassette, as the recorded model did.

    Args:
        cassette: A bare name under the cassette folder, or a path.
        model: The recorded model, if the cassette holds several.
        on_repeat: The answer to more calls of a request than were recorded: `fail`, `last`, `cycle`; by default the
            setting of the project.
        pace: The duration of an answer, as for `ReplayChatModel`.
        options: Options of every text model.

    Raises:
        CassetteError: If there's no such cassette, or it cannot be read.
        ConfigurationError: If it holds no completion, or not of that model.
    """

    cassette: str | Path
    model: str | None = None
    on_repeat: OnRepeat | None = None
    pace: Pace | None = None

    _recorded: RecordedPart = PrivateAttr()

    def __init__(self, cassette: str | Path, **options: Any) -> None:
        super().__init__(cassette=cassette, **options)
        self._recorded = RecordedPart(
            cassette,
            frozenset({COMPLETION.kind}),
            _settings_in,
            on_repeat=self.on_repeat,
            pace=self.pace,
            choice={"model": self.model},
        )

    @property
    def _llm_type(self) -> str:
        return "agenttape-replay"

    @property
    def _identifying_params(self) -> Mapping[str, Any]:
        return self._recorded.settings[0]

    def _cross(self, prompts: list[str], stop: list[str] | None, kwargs: dict[str, Any]) -> SessionCall:
        """Begin a call; stop words that the call does not give are not part of its request."""
        given = {**kwargs, **({"stop": stop} if stop else {})}

        def body(settings: Mapping[str, Any]) -> dict[str, Any]:
            held = {key: value for key, value in settings.items() if key != "stop"}
            return completion_body(prompts, {**held, **given})

        return self._recorded.cross(COMPLETION, body, given)

    @hold_signature
    def _generate(
        self,
        prompts: list[str],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> LLMResult:
        result: LLMResult = replay_call(self._cross(prompts, stop, kwargs))
        return result

    @hold_signature
    async def _agenerate(
        self,
        prompts: list[str],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> LLMResult:
        result: LLMResult = await areplay_call(self._cross(prompts, stop, kwargs))
        return result

    def _stream(
        self,
        prompt: str,
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[GenerationChunk]:
        for chunk in replay_stream(self._cross([prompt], stop, kwargs)):
            if run_manager is not None:
                run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk

    async def _astream(
        self,
        prompt: str,
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[GenerationChunk]:
        async for chunk in areplay_stream(self._cross([prompt], stop, kwargs)):
            if run_manager is not None:
                await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk


def _settings_in(request: Mapping[str, Any]) -> Mapping[str, Any]:
    return {key: value for key, value in request.items() if key != "prompts"}
