"""The settings of an object that are part of its requests: the model, the number of results, the collection.

Only attributes of known names with plain values count. All others (keys, addresses, folders, time limits) belong to the
machine that the object runs on, and a replay on another one must find its recording.
"""

from __future__ import annotations

from itertools import chain
from typing import Any
from weakref import WeakKeyDictionary

MODEL_NAMES = ("model", "model_name", "model_id", "deployment", "deployment_name", "repo_id")
"""The attributes that hold the name of a model."""
_PLAIN = (str, int, float, list, tuple, dict)
_EMPTY: tuple[Any, ...] = ("", [], (), {})

MODEL_SETTINGS = (
    "temperature",
    "max_tokens",
    "max_completion_tokens",
    "max_new_tokens",
    "num_output",
    "top_p",
    "top_k",
    "min_p",
    "frequency_penalty",
    "presence_penalty",
    "repetition_penalty",
    "logprobs",
    "top_logprobs",
    "logit_bias",
    "seed",
    "stop",
    "stop_sequences",
    "strict",
    "json_mode",
    "response_format",
    "reasoning_effort",
    "reasoning_options",
    "reasoning",
    "thinking",
    "thinking_dict",
    "thinking_config",
    "modalities",
    "audio_config",
    "generation_config",
    "generate_kwargs",
    "additional_kwargs",
    "model_kwargs",
    "instructions",
    "built_in_tools",
)
"""The attributes of language models that they send to their provider, by the names that they use."""

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
    """Return the name of an object's model under `model`, if it has one."""
    found = settings_of(value, MODEL_NAMES)
    return {"model": next(iter(found.values()))} if found else {}


def settings_of(value: Any, names: tuple[str, ...]) -> dict[str, Any]:
    """Return the attributes of an object under these names that hold texts, numbers, or collections."""
    cls, state = type(value), getattr(value, "__dict__", {})
    wanted, of_class = _wanted(cls, names)
    present = of_class | wanted.intersection(state)  # few of the names are those of an attribute
    found = {name: state[name] if name in state else getattr(cls, name, None) for name in present}
    found = {name: setting for name, setting in found.items() if isinstance(setting, _PLAIN) and setting not in _EMPTY}
    return {name: found[name] for name in names if name in found} if len(found) > 1 else found


_vars_of_class = vars(type)["__dict__"].__get__  # as `vars`, which looks for it in the metaclass first
_MOST_KEPT = 16
_Kept = tuple[list[int], dict[tuple[str, ...], tuple[frozenset[str], frozenset[str]]]]
_kept: WeakKeyDictionary[type, _Kept] = WeakKeyDictionary()


def _wanted(cls: type, names: tuple[str, ...]) -> tuple[frozenset[str], frozenset[str]]:
    """Return names as a set, and those of them that are attributes of a class.

    They are kept until the number of names in a class that it inherits from changes. A class of pydantic takes longer
    to report that it has no such attribute than the rest of a request takes.
    """
    sizes = [*map(len, map(_vars_of_class, cls.__mro__))]
    kept = _kept.get(cls)
    if kept is None or kept[0] != sizes or len(kept[1]) > _MOST_KEPT:
        kept = _kept[cls] = sizes, {}
    found = kept[1].get(names)
    if found is None:
        wanted = frozenset(names)
        found = kept[1][names] = wanted, wanted.intersection(chain(*map(vars, cls.__mro__)))
    return found
