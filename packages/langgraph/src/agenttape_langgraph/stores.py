"""Substitute LangGraph's long-term memory (`BaseStore`).

A store that reaches outside of the process is a boundary: its calls are recorded and replayed. An `InMemoryStore` is
not: the graph that fills it fills it again on replay, and only its embeddings are replayed. Writes of a replayed tool
or node to the store of its graph are effects, and are made again.

Sweeping out old items is a call like any other. A store's own periodic sweeps aren't calls: later reads show their
effect.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import threading
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any, TypeVar

from langgraph.store.base import BaseStore, GetOp, ListNamespacesOp, Op, PutOp, SearchOp
from langgraph.store.memory import InMemoryStore

from agenttape_core.integration import (
    Call,
    Cross,
    Family,
    InMemoryClasses,
    Leaf,
    SessionCall,
    begin,
    coroutine,
    current_session,
    executing,
    plain,
    state_of,
)
from agenttape_core.integration.alias import alias_class, is_alias
from agenttape_core.integration.leaves import DescribeLeaf, taking_part_while
from agenttape_core.integration.shapes import Shape
from agenttape_langchain.integration import MEMORY, current_config, method_body
from agenttape_langgraph._compat import store_of

StoreT = TypeVar("StoreT", bound=BaseStore)

_ORIGINAL = "agenttape_original"
_NOTED = "agenttape_noted"
_WORDS: dict[type, str] = {
    GetOp: "get",
    SearchOp: "search",
    PutOp: "put",
    ListNamespacesOp: "list_namespaces",
}
_IN_MEMORY = InMemoryClasses(("langgraph.store.memory.InMemoryStore",), ("batch", "abatch"))
_ALONE = ("aget", "asearch", "aput", "adelete", "alist_namespaces")
"""Methods whose calls `AsyncBatchedBaseStore` collects for a background task; their number depends on timing."""


def tape_store(store: StoreT) -> StoreT:
    """Return a recorded store for the given one; a recorded one is returned unchanged."""
    if is_alias(store):
        return store
    cls: Any = _store_alias(type(store))
    taped = object.__new__(cls)
    vars(taped)[_ORIGINAL] = store
    return taped  # type: ignore[no-any-return]


def reaches_outside(cls: type) -> bool:
    """Return true for a class of stores that keep their items outside of the process."""
    return cls not in _IN_MEMORY


@functools.cache
def _store_alias(cls: type[BaseStore]) -> type:
    leaves = {name: leaf for name, leaf in STORES.leaves.items() if hasattr(cls, name)}
    methods = {name: leaf.around(getattr(cls, name), leaf.cross) for name, leaf in leaves.items()}
    alias = alias_class(cls, methods, _store_alias)
    own: dict[str, Any] = {"__getattr__": _get, "__setattr__": _set, "__reduce_ex__": _reduce}
    if hasattr(cls, "__del__"):
        own["__del__"] = lambda _: None  # the original is still in use, or ends by itself
    for name, method in own.items():
        setattr(alias, name, method)
    return alias


def _original(store: Any) -> Any:
    """Return the original of a recorded store; others, and `None`, are returned unchanged."""
    return vars(store)[_ORIGINAL] if is_alias(store) else store


def _get(self: Any, name: str) -> Any:
    """Return an attribute of the original, which may keep its state in slots that no two objects can share."""
    if name.startswith("__"):
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
    return getattr(vars(self)[_ORIGINAL], name)


def _set(self: Any, name: str, value: Any) -> None:
    setattr(vars(self)[_ORIGINAL], name, value)


def _reduce(self: Any, _: Any) -> Any:
    return tape_store, (vars(self)[_ORIGINAL],)


# -- the calls ---------------------------------------------------------------------------------------------------------


def _is_taken(store: Any) -> bool:
    """Return true if calls of a store cross: it reaches outside, and is taped or the session is automatic."""
    session = current_session()
    if session is None or not reaches_outside(type(store)):
        return False
    if not (is_alias(store) or session.auto):
        name = type(store).__name__
        session.refuse_after_replayed_write(state_of(store), name, f"a call of {name} that is not taped")
        return False
    outer = executing()
    return outer is None or not outer.stack.is_inside(state_of(_original(store)))


def _is_background(store: Any) -> bool:
    """Return true in the task in which a store makes its collected calls: each has crossed already."""
    return _is_in_task(getattr(store, "_task", None))


def _is_in_task(task: Any) -> bool:
    try:
        return task is not None and asyncio.current_task() is task
    except RuntimeError:
        return False


def _cross(store: Any, ops: list[Op]) -> SessionCall | None:
    if not _is_taken(store) or _is_background(_original(store)):
        return None
    asked = [_plain_op(op) for op in ops]
    method, arguments = asked[0] if len(asked) == 1 else ("batch", {"ops": [{"op": word, **op} for word, op in asked]})
    owner = _original(store)
    writes = any(isinstance(op, PutOp) for op in ops)
    return begin(MEMORY, owner, type(owner).__name__, lambda _: method_body(method, arguments, {}), writes=writes)


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
    session_call = _cross(self, ops)

    def execute() -> Any:
        results = real(store, ops)
        _note_puts(store, ops)
        return results

    return Call(session_call, _real(self, execute, plain) if session_call is None else lambda: real(store, ops))


def _describe_abatch(real: Callable[..., Any], _: Cross, self: Any, /, ops: Iterable[Op]) -> Call:
    ops, store = list(ops), _original(self)
    session_call = _cross(self, ops)

    async def execute() -> Any:
        results = await real(store, ops)
        _note_puts(store, ops)
        return results

    return Call(session_call, _real(self, execute, coroutine) if session_call is None else lambda: real(store, ops))


def _real(store: Any, execute: Callable[[], Any], shape: Shape) -> Callable[[], Any]:
    """Return the call of a store that does not cross; where a taped one keeps its items in memory, its calls do."""
    return taking_part_while(execute, shape) if is_alias(store) and not reaches_outside(type(store)) else execute


def _describe_alone(  # the name is bound for each method
    name: str, real: Callable[..., Any], _: Cross, self: Any, /, *args: Any, **kwargs: Any
) -> Call:
    """Describe a call that would be collected: it is made on its own, as by `BaseStore`, where it crosses."""
    if _is_taken(self):
        return Call(None, lambda: getattr(BaseStore, name)(self, *args, **kwargs))
    return Call(None, _real(self, lambda: real(_original(self), *args, **kwargs), coroutine))


def _describe_sweep(real: Callable[..., Any], _: Cross, self: Any, /) -> Call:
    store = _original(self)
    if not _is_taken(self) or _sweeps_by_itself(store):
        return Call(None, lambda: real(store))
    name = type(store).__name__
    session_call = begin(MEMORY, store, name, lambda _: method_body("sweep_ttl", {}, {}), writes=True)
    return Call(session_call, lambda: real(store))


def _sweeps_by_itself(store: Any) -> bool:
    """Return true in the thread or task of a store that sweeps it from time to time."""
    sweeper = getattr(store, "_ttl_sweeper_thread", None)
    return sweeper is threading.current_thread() or _is_in_task(getattr(store, "_ttl_sweeper_task", None))


def _plain_or_awaited(real: Callable[..., Any], describe: Callable[..., Call]) -> Callable[..., Any]:
    """Wrap a method that stores of either sort have under one name."""
    return (coroutine if inspect.iscoroutinefunction(real) else plain)(real, describe)


# -- writes inside a call that may be replayed -------------------------------------------------------------------------


def _note_puts(store: Any, ops: list[Op]) -> None:
    """Note writes to the store of a graph on all calls around, unless they belong to the store's own call."""
    session_call = executing()
    if (
        session_call is None
        or session_call.stack.is_inside(state_of(store))
        or _original(store_of(current_config())) is not store
    ):
        return
    puts = _puts(store, ops)
    while session_call is not None and puts:
        session_call.effected({"store": puts})
        session_call = session_call.parent


def _puts(store: Any, ops: list[Op]) -> list[dict[str, Any]]:
    return [{**_plain_op(op)[1], **_times(store, op)} for op in ops if isinstance(op, PutOp)]


def noting_store(store: Any, note: Callable[[Any], None]) -> Any:
    """Return a store that replaces the given one in the code of one observed call, and notes its writes."""
    original = _original(store)
    cls: Any = type(original)
    noting = object.__new__(_noting_alias(cls))
    vars(noting).update({_ORIGINAL: original, _NOTED: (store, note)})
    return noting


@functools.cache
def _noting_alias(cls: type[BaseStore]) -> Any:
    methods: dict[str, Any] = {"batch": _noted_batch, "abatch": _noted_abatch}
    methods |= {
        name: functools.partialmethod(_noted_alone, name)
        for name in ("aput", "adelete")
        if getattr(cls, name) is not getattr(BaseStore, name)
    }
    alias = alias_class(cls, methods, _noting_alias)
    own: dict[str, Any] = {"__getattr__": _get, "__setattr__": _set, "__reduce_ex__": _reduce}
    if hasattr(cls, "__del__"):
        own["__del__"] = lambda _: None
    for name, method in own.items():
        setattr(alias, name, method)
    return alias


def _noted_batch(self: Any, ops: Iterable[Op]) -> Any:
    ops, (store, note) = list(ops), vars(self)[_NOTED]
    results = store.batch(ops)
    _note(store, note, ops)
    return results


async def _noted_abatch(self: Any, ops: Iterable[Op]) -> Any:
    ops, (store, note) = list(ops), vars(self)[_NOTED]
    results = await store.abatch(ops)
    _note(store, note, ops)
    return results


async def _noted_alone(self: Any, name: str, /, *args: Any, **kwargs: Any) -> None:
    """Make a write that the store collects for a background task; its operation comes from `BaseStore`."""
    store, note = vars(self)[_NOTED]
    ops: list[Op] = []

    async def collect(made: Iterable[Op]) -> None:
        ops.extend(made)

    terms = SimpleNamespace(supports_ttl=store.supports_ttl, ttl_config=store.ttl_config, abatch=collect)
    await getattr(BaseStore, name)(terms, *args, **kwargs)
    await getattr(store, name)(*args, **kwargs)
    _note(store, note, ops)


def _note(store: Any, note: Callable[[Any], None], ops: list[Op]) -> None:
    puts = _puts(_original(store), ops)
    if puts:
        note(puts)


def _ops(puts: Any) -> list[Op]:
    return [PutOp(put["namespace"], put["key"], put.get("value"), put.get("index"), put.get("ttl")) for put in puts]


def _times(store: Any, put: PutOp) -> dict[str, Any]:
    """Return the times of an item in memory: inside an executed call the clock is real."""
    item = store.get(put.namespace, put.key) if isinstance(store, InMemoryStore) else None
    return {"times": [item.created_at, item.updated_at]} if item is not None else {}


def _set_times(store: Any, puts: Any) -> None:
    for put in puts:
        item = store.get(put["namespace"], put["key"]) if "times" in put and isinstance(store, InMemoryStore) else None
        if item is not None:
            item.created_at, item.updated_at = put["times"]


def put_again(puts: Any) -> None:
    """Make the writes of a replayed call to the store of its graph again."""
    store = store_of(current_config())
    if store is not None:
        store.batch(_ops(puts))
        _set_times(store, puts)


async def aput_again(puts: Any) -> None:
    """Do the same, awaited."""
    store = store_of(current_config())
    if store is not None:
        await store.abatch(_ops(puts))
        _set_times(store, puts)


def _leaf(shape: Shape, describe: DescribeLeaf) -> Leaf:
    """Return a leaf whose description begins the call: it notes writes if no call crosses."""
    return Leaf(shape, lambda *_: None, describe)


STORES = Family(
    BaseStore,
    {
        "batch": _leaf(plain, _describe_batch),
        "abatch": _leaf(coroutine, _describe_abatch),
        **{name: _leaf(coroutine, functools.partial(_describe_alone, name)) for name in _ALONE},
        "sweep_ttl": _leaf(_plain_or_awaited, _describe_sweep),
    },
)
"""The stores of LangGraph; LangChain has an interface of the same name."""
