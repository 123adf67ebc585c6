"""The words that spans use for operations and providers."""

from __future__ import annotations

import pytest
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes as conventions

from agenttape_core.tools.export.attributes import OPERATIONS, provider_name


@pytest.mark.parametrize(
    ("said", "class_name", "name"),
    [
        ("openai", "ChatOpenAI", "openai"),
        (None, "AzureChatOpenAI", "azure.ai.openai"),
        (None, "Anthropic", "anthropic"),
        ("google_genai", "ChatGoogleGenerativeAI", "gcp.gen_ai"),
        (None, "ChatBedrockConverse", "aws.bedrock"),
        (None, "MistralAI", "mistral_ai"),
        ("ollama", "ChatOllama", "ollama"),
        (None, "ScriptedLLM", "ScriptedLLM"),
    ],
)
def test_provider(said: str | None, class_name: str, name: str) -> None:
    """A provider is called as the conventions call it, or what the framework calls it."""
    assert provider_name(said, class_name) == name


def test_the_words_are_of_the_conventions() -> None:
    """The operations and providers that spans name are those that the installed conventions define."""
    assert set(OPERATIONS.values()) | {"invoke_workflow"} <= {
        each.value for each in conventions.GenAiOperationNameValues
    }
    names = [
        "ChatOpenAI",
        "AzureOpenAI",
        "AzureAIInference",
        "Anthropic",
        "Bedrock",
        "ChatVertexAI",
        "Gemini",
        "Cohere",
        "GoogleGenAI",
    ]
    names += ["ChatGoogleGenerativeAI", "DeepSeek", "Groq", "ChatWatsonx", "ChatMistralAI", "ChatXAI", "ChatPerplexity"]
    defined = {each.value for each in conventions.GenAiProviderNameValues}
    assert {provider_name(None, name) for name in names} == defined
