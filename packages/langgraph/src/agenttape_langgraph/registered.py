"""The registrations of LangGraph's values, packages and effects, imported when a session or a reader needs them."""

from typing import Any

from langgraph.store.base import Item, SearchItem

from agenttape_core.integration import TypeCodec, register_codecs
from agenttape_core.integration.patching import register_packages
from agenttape_langchain.integration import register_effects, register_tape
from agenttape_langgraph.effects import EFFECTS
from agenttape_langgraph.tape import tape_own

# -- Codecs for LangGraph's objects, in addition to LangChain's.

_ITEM = ("value", "key", "namespace", "created_at", "updated_at")


def _write_item(item: Any, nested: Any) -> Any:
    return {name: nested(getattr(item, name)) for name in _ITEM}


def _read_item(plain: Any, nested: Any) -> Any:
    return Item(**{name: nested(plain[name]) for name in _ITEM})


def _write_found(item: Any, nested: Any) -> Any:
    return {**_write_item(item, nested), "score": nested(item.score)}


def _read_found(plain: Any, nested: Any) -> Any:
    fields = {name: nested(plain[name]) for name in _ITEM}
    return SearchItem(**fields, score=nested(plain["score"]))


CODECS: tuple[TypeCodec, ...] = (
    TypeCodec("$store_item", lambda value: type(value) is Item, _write_item, _read_item),
    TypeCodec("$found_item", lambda value: type(value) is SearchItem, _write_found, _read_found),
)
"""The items that stores return."""

register_codecs(CODECS)
register_packages({"agenttape_langgraph": "agenttape-langgraph", "langgraph": "langgraph"})
register_tape(tape_own)
register_effects(EFFECTS)  # here and not where sessions connect: a taped tool may be replayed without any
