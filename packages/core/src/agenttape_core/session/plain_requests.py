"""The requests of a session as plain, redacted data: made canonical, they have a fingerprint to be found by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from agenttape_core.errors import shown_path
from agenttape_core.matching import Canonicaliser
from agenttape_core.schema import Plain
from agenttape_core.session.setup import Setup


def canonicaliser(setup: Setup, encode: Callable[[Any], Plain], warn: Callable[[Warning], object]) -> Canonicaliser:
    """Return what makes canonical requests.

    Args:
        setup: All that a session is made of.
        encode: Makes plain data of a value.
        warn: Gives a warning when the session has ended.
    """
    redactor = setup.redactor

    def plain(value: Any) -> Any:
        return redactor.value(encode(value))

    def plain_items(name: str, values: Sequence[Any]) -> list[Any]:
        """Return values under one name as plain, redacted data; the texts in them are searched together."""
        if len(values) > 1:
            redactor.foresee(values)
        return [
            dict(value)
            if name in redactor.harmless_keys and redactor.is_plain(value)
            else next(iter(plain({name: value}).values()))
            for value in values
        ]

    look = None
    if setup.policy.records and setup.frozen is not None:
        from agenttape_core.session.module_dates import ModuleDates  # a replay needs none

        look = ModuleDates(warn, shown_path(setup.path)).look
    return Canonicaliser(plain, setup.ignored, plain_items, look)
