"""The text of a message, which is a string that can also be called; tools return it where they mean a string."""

from __future__ import annotations

from langchain_core.messages.base import TextAccessor

from agenttape_core.integration import TypeCodec

CODEC = TypeCodec(
    "$text",
    lambda value: type(value) is TextAccessor,
    lambda value, nested: nested(str(value)),
    lambda plain, nested: TextAccessor(nested(plain)),
)
"""`message.text`."""
