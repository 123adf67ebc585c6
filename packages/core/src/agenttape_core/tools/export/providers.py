"""The provider of a model, in the words of OpenTelemetry's GenAI conventions (`gen_ai.provider.name`)."""

from __future__ import annotations

_PROVIDERS = (
    ("azurechatopenai", "azure.ai.openai"),
    ("azureopenai", "azure.ai.openai"),
    ("azureai", "azure.ai.inference"),
    ("openai", "openai"),
    ("anthropic", "anthropic"),
    ("bedrock", "aws.bedrock"),
    ("vertex", "gcp.vertex_ai"),
    ("gemini", "gcp.gemini"),
    ("googlegenerativeai", "gcp.gemini"),
    ("googlegenai", "gcp.gen_ai"),
    ("cohere", "cohere"),
    ("deepseek", "deepseek"),
    ("groq", "groq"),
    ("watsonx", "ibm.watsonx.ai"),
    ("ibm", "ibm.watsonx.ai"),
    ("mistral", "mistral_ai"),
    ("perplexity", "perplexity"),
    ("xai", "x_ai"),
)
"""Parts of the names of providers and classes, longer ones before those that they contain."""


def provider_name(named: str | None, class_name: str) -> str:
    """Return the conventions' name of a provider, or the framework's if they have none.

    Args:
        named: The provider as the answer names it, if it does.
        class_name: The class of the model.
    """
    for name in filter(None, (named, class_name)):
        plain = name.lower().replace("_", "").replace("-", "")
        for part, provider in _PROVIDERS:
            if part in plain:
                return provider
    return named or class_name
