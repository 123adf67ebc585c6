"""The standard suites of chat models, on OpenAI's client."""

from __future__ import annotations

from functools import reduce
from operator import add
from typing import Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_openai import ChatOpenAI
from langchain_tests.integration_tests import ChatModelIntegrationTests
from langchain_tests.unit_tests import ChatModelUnitTests

from agenttape_langchain import tape

from .originals import GONE

pytestmark = [  # what langchain-openai says to what the suites ask of it
    pytest.mark.filterwarnings("ignore:Pydantic serializer warnings"),
    pytest.mark.filterwarnings("ignore:Received a Pydantic BaseModel V1 schema"),
    pytest.mark.filterwarnings("ignore:OpenAI may require a filename"),
]


class OfOpenAI:
    """The suites' facts about the model."""

    automatic = True

    @property
    def chat_model_class(self) -> type[BaseChatModel]:
        return ChatOpenAI

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return {"model": "gpt-5-mini", "stream_usage": True}


class TapedWhenMade(ChatOpenAI):
    """Stands for OpenAI's client where the suites make models themselves."""

    def __new__(cls, **params: Any) -> Any:
        return tape(ChatOpenAI(**params))


class Taped(OfOpenAI):
    """The same, of a taped model in a session that tapes nothing else."""

    automatic = False

    @property
    def chat_model_class(self) -> type[BaseChatModel]:
        return TapedWhenMade


class OfOpenAIAlone(OfOpenAI):
    """Further facts for the unit suite, which calls no service."""

    @property
    def chat_model_params(self) -> dict[str, Any]:
        return super().chat_model_params | {"base_url": GONE}

    @property
    def init_from_env_params(self) -> tuple[dict[str, str], dict[str, Any], dict[str, Any]]:
        env = {"OPENAI_API_KEY": "a key", "OPENAI_ORG_ID": "an organisation", "OPENAI_API_BASE": GONE}
        fields = ("openai_api_key", "openai_organization", "openai_api_base")
        return env, {}, dict(zip(fields, env.values(), strict=True))


class OfOpenAIWithEverything(OfOpenAI):
    """Further facts for the integration suite."""

    supports_json_mode = True
    supports_image_inputs = True
    supports_image_urls = True
    supports_pdf_inputs = True
    supports_audio_inputs = True
    supports_anthropic_inputs = True
    supports_image_tool_message = True
    supports_pdf_tool_message = True
    model_override_value = "gpt-5-nano"

    @property
    def supported_usage_metadata_details(self) -> dict[str, list[str]]:
        kinds = ["audio_input", "audio_output", "reasoning_output", "cache_read_input"]
        return {"invoke": kinds, "stream": [kind for kind in kinds if kind != "audio_output"]}

    def _asked(self, question: Any, *, stream: bool = False, **options: Any) -> AIMessage:
        model = self.chat_model_class(**self.chat_model_params)
        if not stream:
            return model.invoke(question, **options)
        return reduce(add, model.stream(question, **options))

    def invoke_with_audio_input(self, *, stream: bool = False) -> AIMessage:
        sound = {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}
        return self._asked([HumanMessage([{"type": "text", "text": "What is this?"}, sound])], stream=stream)

    def invoke_with_audio_output(self, *, stream: bool = False) -> AIMessage:
        voice = {"voice": "alloy", "format": "wav"}
        return self._asked("Say hello", stream=stream, modalities=["text", "audio"], audio=voice)

    def invoke_with_reasoning_output(self, *, stream: bool = False) -> AIMessage:
        return self._asked("Think first", stream=stream, reasoning_effort="low")

    def invoke_with_cache_read_input(self, *, stream: bool = False) -> AIMessage:
        return self._asked("Something long", stream=stream)


class TestUnit(OfOpenAIAlone, ChatModelUnitTests):
    pass


class TestUnitTaped(Taped, OfOpenAIAlone, ChatModelUnitTests):
    pass


class TestIntegration(OfOpenAIWithEverything, ChatModelIntegrationTests):
    pass


class TestIntegrationTaped(Taped, OfOpenAIWithEverything, ChatModelIntegrationTests):
    pass
