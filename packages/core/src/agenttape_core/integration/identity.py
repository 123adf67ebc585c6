"""The identity of models that do not describe themselves.

A model of a framework's own packages has its identity in its request. One that a company wrote for itself often does
not, so two different ones would make the same request. Such a model is described by its public fields.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any

from agenttape_core.errors import UnidentifiedModelWarning
from agenttape_core.integration.object_settings import MODEL_NAMES, MODEL_SETTINGS, settings_of
from agenttape_core.session import Session

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
    names, wanted = _public_names(value, base)
    found = settings_of(value, wanted)  # in one search: this is done for each call
    state = getattr(value, "__dict__", {})
    members = {name: state[name].value for name in names if isinstance(state.get(name), Enum)}
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
                f"{what}, so another one of this class would be served its answers\n"
                f"  give {name} a public field such as `model`, or describe it as its framework asks for"
            )
        )


def _root(cls: type) -> str:
    return cls.__module__.partition(".")[0]


def _public_names(value: Any, base: type) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of the attributes that tell a model from others, and these with the names of known settings."""
    declared: Iterable[str] = getattr(type(value), "model_fields", ()) or getattr(value, "__dict__", ())
    return _told_apart(tuple(declared), base)


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
