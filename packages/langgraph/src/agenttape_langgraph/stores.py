"""Substitute LangGraph's long-term memory (`BaseStore`).

A store that reaches outside of the process is a boundary: what it is asked is recorded and served. An `InMemoryStore`
is not, unless it is taped: the graph that fills it fills it again on replay. What a tool or a node that is served as a
whole wrote to the store of its graph is an effect, and is written again.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from langgraph.store.base import BaseStore, GetOp, ListNamespacesOp, Op, PutOp, SearchOp
from langgraph.store.memory import InMemoryStore

from agenttape_core.integration import (
    Call,
    Cross,
    Crossing,
    DescribeLeaf,
    Family,
    Leaf,
    Shape,
    alias_class,
    begin,
    coroutine,
    current_session,
    executing,
    is_alias,
    plain,
    state_of,
)
from agenttape_langchain.integration import MEMORY, current_config, method_body
from agenttape_langgraph._compat import store_of

StoreT = TypeVar("StoreT", bound=BaseStore)

_ORIGINAL = "agenttape_original"
_WORDS: dict[type, str] = {
    GetOp: "get",
    SearchOp: "search",
    PutOp: "put",
    ListNamespacesOp: "list_namespaces",
}
_ALONE = ("aget", "asearch", "aput", "adelete", "alist_namespaces")
"""Methods of which `AsyncBatchedBaseStore` collects calls for a task in the background; how many, timing decides."""


def tape_store(store: StoreT) -> StoreT:
    """Return a taped store that stands for another one; a taped one is returned as it is."""
    if is_alias(store):
        return store
    cls: Any = _store_alias(type(store))
    taped = object.__new__(cls)
    vars(taped)[_ORIGINAL] = store
    return taped  # type: ignore[no-any-return]


def reaches_outside(cls: type) -> bool:
    """Whether the stores of a class keep what they hold outside of the process."""
    return not issubclass(cls, InMemoryStore)


@functools.cache
def _store_alias(cls: type[BaseStore]) -> type:
    methods = {name: leaf.around(getattr(cls, name), leaf.cross) for name, leaf in STORES.leaves.items()}
    alias = alias_class(cls, methods, _store_alias)
    own: dict[str, Any] = {"__getattr__": _get, "__setattr__": _set, "__reduce_ex__": _reduce}
    if hasattr(cls, "__del__"):
        own["__del__"] = lambda _: None  # the original is still in use, or ends by itself
    for name, method in own.items():
        setattr(alias, name, method)
    return alias


def _original(store: Any) -> Any:
    return vars(store)[_ORIGINAL] if is_alias(store) else store


def _get(self: Any, name: str) -> Any:
    """Return what the original has: it may keep its state in slots, which no two objects can share."""
    if name.startswith("__"):
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
    return getattr(vars(self)[_ORIGINAL], name)


def _set(self: Any, name: str, value: Any) -> None:
    setattr(vars(self)[_ORIGINAL], name, value)


def _reduce(self: Any, _: Any) -> Any:
    return tape_store, (vars(self)[_ORIGINAL],)


# -- the calls ---------------------------------------------------------------------------------------------------------


def _is_taken(store: Any) -> bool:
    """Whether calls of a store cross: of a taped one, and in an ambient session of one that reaches outside."""
    session = current_session()
    if session is None or not (is_alias(store) or (session.ambient and reaches_outside(type(store)))):
        return False
    outer = executing()
    return outer is None or not outer.is_inside(state_of(_original(store)))


def _is_background(store: Any) -> bool:
    """Whether this is the task in which a store works off what was collected; who called has crossed already."""
    task = getattr(store, "_task", None)
    try:
        return task is not None and asyncio.current_task() is task
    except RuntimeError:
        return False


def _cross(store: Any, ops: list[Op]) -> Crossing | None:
    if not _is_taken(store) or _is_background(_original(store)):
        return None
    plain = [_plain_op(op) for op in ops]
    method, arguments = plain[0] if len(plain) == 1 else ("batch", {"ops": [{"op": word, **op} for word, op in plain]})
    owner = _original(store)
    return begin(MEMORY, owner, type(owner).__name__, lambda _: method_body(method, arguments, {}))


def _plain_op(op: Any) -> tuple[str, dict[str, Any]]:
    fields = {name: value for name, value in op._asdict().items() if value is not None}
    conditions = fields.get("match_conditions")
    if conditions is not None:
        fields["match_conditions"] = [dict(condition._asdict()) for condition in conditions]
    if isinstance(op, PutOp) and op.value is None:
        return "delete", {"namespace": op.namespace, "key": op.key}
    return _WORDS.get(type(op), type(op).__name__), fields


def _describe_batch(real: Callable[..., Any], _: Cross, self: Any, /, ops: Iterable[Op]) -> Call:
    ops, store = list(ops), _original(self)
    crossing = _cross(self, ops)

    def really() -> Any:
        results = real(store, ops)
        _tell(store, ops)
        return results

    return Call(crossing, really if crossing is None else lambda: real(store, ops))


def _describe_abatch(real: Callable[..., Any], _: Cross, self: Any, /, ops: Iterable[Op]) -> Call:
    ops, store = list(ops), _original(self)
    crossing = _cross(self, ops)

    async def really() -> Any:
        results = await real(store, ops)
        _tell(store, ops)
        return results

    return Call(crossing, really if crossing is None else lambda: real(store, ops))


def _describe_alone(  # the name is bound for each method
    name: str, real: Callable[..., Any], _: Cross, self: Any, /, *args: Any, **kwargs: Any
) -> Call:
    """Let a call that would be collected go its own way, as the interface has it, where it is recorded or served."""
    if _is_taken(self):
        return Call(None, lambda: getattr(BaseStore, name)(self, *args, **kwargs))
    return Call(None, lambda: real(_original(self), *args, **kwargs))


# -- what is written inside of a call that may be served ---------------------------------------------------------------


def _tell(store: Any, ops: list[Op]) -> None:
    """Tell all crossings around what is written to the store of their graph, if that was really done."""
    crossing = executing()
    if crossing is None or crossing.is_inside(state_of(store)) or store_of(current_config()) is not store:
        return
    puts = [{**_plain_op(op)[1], **_times(store, op)} for op in ops if isinstance(op, PutOp)]
    while crossing is not None and puts:
        crossing.effected({"store": puts})
        crossing = crossing.parent


def _ops(puts: Any) -> list[Op]:
    return [PutOp(put["namespace"], put["key"], put.get("value"), put.get("index"), put.get("ttl")) for put in puts]


def _times(store: Any, put: PutOp) -> dict[str, Any]:
    """Return when an item in memory says that it was made; time is real inside of what is executed."""
    item = store.get(put.namespace, put.key) if isinstance(store, InMemoryStore) else None
    return {"times": [item.created_at, item.updated_at]} if item is not None else {}


def _set_times(store: Any, puts: Any) -> None:
    for put in puts:
        item = store.get(put["namespace"], put["key"]) if "times" in put and isinstance(store, InMemoryStore) else None
        if item is not None:
            item.created_at, item.updated_at = put["times"]


def put_again(puts: Any) -> None:
    """Write again what a served call wrote to the store of its graph."""
    store = store_of(current_config())
    if store is not None:
        store.batch(_ops(puts))
        _set_times(store, puts)


async def aput_again(puts: Any) -> None:
    """Write it again, awaited."""
    store = store_of(current_config())
    if store is not None:
        await store.abatch(_ops(puts))
        _set_times(store, puts)


def _leaf(shape: Shape, describe: DescribeLeaf) -> Leaf:
    """Return a leaf whose description decides what crosses: it has something to do where nothing does, too."""
    return Leaf(shape, lambda *_: None, describe)


STORES = Family(
    BaseStore,
    {
        "batch": _leaf(plain, _describe_batch),
        "abatch": _leaf(coroutine, _describe_abatch),
        **{name: _leaf(coroutine, functools.partial(_describe_alone, name)) for name in _ALONE},
    },
)
"""Every store of LangGraph; LangChain's of the same name are others."""
