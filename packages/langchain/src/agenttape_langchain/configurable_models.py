"""Tape the configurable models of `init_chat_model`, which make a model of the configuration for each call."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from agenttape_core.integration.alias import alias_class, alias_of
from agenttape_langchain._compat import configurable_model_class, configured_model
from agenttape_langchain.chat_models import CHAT_MODELS

_OPERATIONS = frozenset({"bind_tools", "with_structured_output"})
"""Operations that a configurable model queues until it has a model."""


def is_configurable_model(value: object) -> bool:
    """Return whether an object is a configurable model."""
    cls = configurable_model_class()
    return cls is not None and isinstance(value, cls)


def tape_configurable_model(model: Any) -> Any:
    """Return the taped alias of a configurable model: every model that it makes is taped."""
    return alias_of(model, _configurable_alias)


@functools.cache
def _configurable_alias(cls: Any) -> type:
    def _model(self: Any, config: Any = None) -> Any:
        return configured_model(cls, self, config, CHAT_MODELS.tape)

    def with_config(self: Any, config: Any = None, **kwargs: Any) -> Any:
        return tape_configurable_model(cls.with_config(self, config, **kwargs))

    def __getattr__(self: Any, name: str) -> Any:  # noqa: N807 - it becomes the method of that name
        value = cls.__getattr__(self, name)
        return _taping(value) if name in _OPERATIONS else value

    methods = {"_model": _model, "with_config": with_config, "__getattr__": __getattr__}
    return alias_class(cls, methods, _configurable_alias)


def _taping(operation: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap an operation, which returns another configurable model."""

    @functools.wraps(operation)
    def taping(*args: Any, **kwargs: Any) -> Any:
        return tape_configurable_model(operation(*args, **kwargs))

    return taping
