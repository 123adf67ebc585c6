"""The settings and the identity of an object, as parts of its requests: the model, the number of results, a collection.

Only attributes of known names with plain values count. All others (keys, addresses, folders, time limits) belong to the
machine that the object runs on, and a replay on another one must find its recording.
"""

from __future__ import annotations

import functools
from collections.abc import Hashable, Iterable, Mapping
from enum import Enum
from itertools import chain
from typing import Any
from weakref import WeakKeyDictionary

from agenttape_core.errors import UnidentifiedModelWarning
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.session import Session

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
    cls = type(value)
    known = _known_of(cls, names)
    if known is None:
        known = _kept[cls][names] = _Known.of(cls, names)
    return _settings(value, known)


def _settings(value: Any, known: _Known) -> dict[str, Any]:
    state = getattr(value, "__dict__", {})
    found = {}
    here = known.wanted.intersection(state)
    for name in known.of_class | here if known.of_class else here:  # few of them name an attribute
        setting = state[name] if name in state else getattr(type(value), name, None)
        if isinstance(setting, _PLAIN) and setting not in _EMPTY:
            found[name] = setting
    return {name: found[name] for name in known.names if name in found} if len(found) > 1 else found


class _Known(NamedTuple):
    """The requested names in the objects of a class.

    They are kept until it inherits from other classes, or the number of names in one of them changes. A class of
    pydantic takes longer to report that it has no such attribute than the rest of a request takes.
    """

    names: tuple[str, ...]
    wanted: frozenset[str]  # the same
    of_class: frozenset[str]  # those of them that are attributes of the class
    order: int  # the hash of the order of inheritance: the classes themselves would live on
    # By the place of a class in the order of inheritance, the number of its names; only for those that may change. To
    # look at each of them in a call takes longer than all else that's done here.
    sizes: dict[int, int]
    public: tuple[str, ...] = ()  # the names that tell models apart, besides those of known settings

    @classmethod
    def of(cls, asked: type, names: tuple[str, ...], base: type = object, public: tuple[str, ...] = ()) -> _Known:
        """Look at a class. The framework's own class, and those that it inherits from, don't change."""
        wanted, order = frozenset(names), asked.__mro__
        sizes = {place: len(vars(each)) for place, each in enumerate(order) if not issubclass(base, each)}
        return cls(names, wanted, wanted.intersection(chain(*map(vars, order))), hash(order), sizes, public)


_MOST_KEPT = 16
_kept: WeakKeyDictionary[type, dict[Hashable, _Known]] = WeakKeyDictionary()
"""The names known of each class, by the requested ones; or by the framework's class, for public fields."""
_vars_of_class = vars(type)["__dict__"].__get__  # as `vars`, which looks for it in the metaclass first


def _known_of(cls: type, key: Hashable) -> _Known | None:
    """Return the names that are known of a class, if they still hold."""
    kept = _kept.get(cls)
    if kept is None or len(kept) > _MOST_KEPT:
        kept = _kept[cls] = {}
    known = kept.get(key)
    if known is not None:
        order = cls.__mro__
        if hash(order) != known.order:
            return None
        for place, size in known.sizes.items():
            if len(_vars_of_class(order[place])) != size:
                return None
    return known


# The identity of models that do not describe themselves.
#
# A model of a framework's own packages has its identity in its request. One that a company wrote for itself often does
# not, so two different ones would make the same request. Such a model is described by its public fields.

_OF_THE_MACHINE = frozenset(
    {
        "key",
        "keys",
        "secret",
        "token",
        "password",
        "passwd",
        "credential",
        "credentials",
        "auth",
        "url",
        "uri",
        "host",
        "hostname",
        "port",
        "endpoint",
        "address",
        "base",
        "server",
        "path",
        "dir",
        "directory",
        "folder",
        "file",
        "filename",
        "cache",
        "proxy",
        "proxies",
        "organization",
        "project",
        "account",
        "user",
        "timeout",
        "delay",
        "latency",
        "wait",
        "sleep",
        "interval",
        "retry",
        "retries",
        "backoff",
        "verbose",
        "debug",
        "log",
        "logger",
    }
)
"""Words in the names of attributes that say where and as whom an object works, not as which model."""


def public_fields(value: Any, base: type) -> dict[str, Any]:
    """Return the attributes that tell a model from others of its class, which does not describe itself.

    Its model and its known settings count, and all other public attributes that hold a text, a fraction or a member of
    an enumeration. Whole numbers and flags don't, nor do collections: in a model, these are counters and scripts.

    Args:
        value: The model.
        base: The framework's class, whose own attributes do not count.
    """
    known = _known_of(type(value), base) or _public_names(value, base)
    found, names = _settings(value, known), known.public  # in one search: this is done for each call
    state, members = getattr(value, "__dict__", {}), {}
    for name in names:
        if isinstance(member := state.get(name), Enum):
            members[name] = member.value
    if not found:
        return members
    named = [found[name] for name in MODEL_NAMES if name in found]
    model = {"model": named[0]} if named else {}
    settings = {name: found[name] for name in MODEL_SETTINGS if name in found}
    described = {name: found[name] for name in names if isinstance(found.get(name), str | float)}
    return {**model, **settings, **described, **members}


def warn_unless_identified(session: Session, kind: str, value: Any, identity: Mapping[str, Any], base: type) -> None:
    """Warn at the end of a recording of a model that can't be distinguished from others of its class.

    The framework's own classes without an identity are doubles for tests.

    Args:
        session: The session.
        kind: The kind of boundary.
        value: The model.
        identity: The part of its requests that identifies the model.
        base: The framework's class.
    """
    if not session.policy.records or _root(type(value)) == _root(base):
        return
    if not any(setting is not None for setting in identity.values()):
        name = type(value).__qualname__
        what = f"{session.path}: the requests of {kind} {name} do not say which model is asked"
        session.warn_at_end(
            UnidentifiedModelWarning(
                f"{what}, so another one of this class would get its answers\n"
                f"  give {name} a public field such as `model`, or describe it as its framework asks for"
            )
        )


def _root(cls: type) -> str:
    return cls.__module__.partition(".")[0]


def _public_names(value: Any, base: type) -> _Known:
    """Return the names of the attributes that tell a model from others, and those of known settings."""
    cls = type(value)
    fields: Iterable[str] = getattr(cls, "model_fields", ())
    own: Iterable[str] = fields or getattr(value, "__dict__", ())
    names, wanted = _told_apart(tuple(own), base)
    known = _Known.of(cls, wanted, base, names)
    if fields:  # else each object has its own
        _kept[cls][base] = known
    return known


@functools.lru_cache(256)
def _told_apart(declared: tuple[str, ...], base: type) -> tuple[tuple[str, ...], tuple[str, ...]]:
    others = {*_names_of(base), *MODEL_NAMES}
    names = tuple(name for name in declared if _tells_models_apart(name) and name not in others)
    return names, (*MODEL_NAMES, *MODEL_SETTINGS, *names)


@functools.lru_cache(1024)
def _tells_models_apart(name: str) -> bool:
    return not name.startswith("_") and _OF_THE_MACHINE.isdisjoint(name.lower().split("_"))


@functools.lru_cache(16)
def _names_of(base: type) -> frozenset[str]:
    return frozenset(getattr(base, "model_fields", ()))
