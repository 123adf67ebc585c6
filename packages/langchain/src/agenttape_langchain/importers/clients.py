"""The provider packages at work: they parse a recorded answer themselves, without any network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agenttape_core.integration.importing import Exchange, Wire, apart_class, wire_of
from agenttape_langchain._compat import answered_by


def model_on_wire(
    cls: Any, sdk: str, exchange: Exchange, settings: Mapping[str, Any], options: Mapping[str, Any]
) -> tuple[Any, Wire]:
    """Return a model whose client gets the recorded response, once and without a retry.

    `sdk` is the package that it sends with, `openai` or `anthropic`; `settings` are arguments of the class, and
    `options` further ones, given by the user.
    """
    wire = wire_of(sdk, exchange)
    return answered_by(apart_class(cls), {**settings, **options, "max_retries": 0}, wire.http_client), wire


def as_constructed(model: Any, options: Mapping[str, Any]) -> Any:
    """Return the program's model: with the retries of the options, or those of the class."""
    retries = options.get("max_retries", type(model).model_fields["max_retries"].default)
    return model.model_copy(update={"max_retries": retries})
