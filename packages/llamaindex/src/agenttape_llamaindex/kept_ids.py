"""The ids that an LLM keeps on itself in a call, and sends with the next one: that of the response before.

They are set by the real call, so a served one sets them again: a call that is executed after it goes on in the same
conversation. Only texts in private attributes whose names end with `_id` count, for others may be secrets.
"""

from __future__ import annotations

from typing import Any

_KEPT = "kept"
"""The key of an effect that such ids are."""


class KeptIds:
    """The ids that an LLM keeps, before a call of it.

    Args:
        llm: The LLM.
    """

    __slots__ = ("_before", "_llm")

    def __init__(self, llm: Any) -> None:
        self._llm = llm
        self._before = _ids_of(llm)

    def changed(self) -> dict[str, Any] | None:
        """Return the effect of the call on them; `None` if it had none."""
        now = _ids_of(self._llm)
        changed = {name: value for name, value in now.items() if self._before.get(name) != value}
        return {_KEPT: changed} if changed else None

    def apply(self, effect: Any) -> None:
        """Repeat the effect of a served call."""
        for name, value in effect.get(_KEPT, {}).items():
            setattr(self._llm, name, value)

    async def aapply(self, effect: Any) -> None:
        """Repeat the effect of a served call that is awaited."""
        self.apply(effect)


def _ids_of(llm: Any) -> dict[str, Any]:
    private = getattr(llm, "__pydantic_private__", None) or {}
    return {name: each for name, each in private.items() if name.endswith("_id") and isinstance(each, str | None)}
