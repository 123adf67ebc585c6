"""What an object says in plain words of what it asks its provider for: the model, how many, which collection.

Only attributes of known names count, with plain values. Whatever else an object holds, such as keys, addresses,
folders or time limits, belongs to the machine it runs on, and a replay on another one must find its recording.
"""

from __future__ import annotations

from typing import Any

_MODEL = ("model", "model_name", "model_id", "deployment", "deployment_name", "repo_id")
_PLAIN = (str, int, float, list, tuple, dict)
_EMPTY: tuple[Any, ...] = ("", [], (), {})

EMBEDDING_SETTINGS = (
    "dimensions",
    "output_dimensionality",
    "task_type",
    "input_type",
    "normalize",
    "truncate",
    "truncation",
    "embed_instruction",
    "query_instruction",
)

SEARCH_SETTINGS = (
    "k",
    "top_k",
    "top_n",
    "top_k_results",
    "fetch_k",
    "lambda_mult",
    "score_threshold",
    "similarity_threshold",
    "min_score",
    "relevance_threshold",
    "search_type",
    "search_kwargs",
    "search_depth",
    "filter",
    "lang",
    "language",
    "topic",
    "include_domains",
    "exclude_domains",
    "include_original",
    "max_results",
)

STORE_SETTINGS = ("collection_name", "index_name", "table_name", "namespace", "session_id", "conversation_id")


def model_of(value: Any) -> dict[str, Any]:
    """Return the name of the model that an object asks, under `model`, if it says one."""
    found = settings_of(value, _MODEL)
    return {"model": next(iter(found.values()))} if found else {}


def settings_of(value: Any, names: tuple[str, ...]) -> dict[str, Any]:
    """Return the attributes of an object under these names that hold words, numbers, or something made of them."""
    state = getattr(value, "__dict__", {})
    found = {name: state[name] if name in state else getattr(type(value), name, None) for name in names}
    return {name: setting for name, setting in found.items() if isinstance(setting, _PLAIN) and setting not in _EMPTY}
