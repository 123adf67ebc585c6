"""Parts of the stream of a graph (namespace, mode, data) as plain data, apart from the run that they came from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agenttape_langgraph._compat import graph_of

if TYPE_CHECKING:
    from langchain_core.runnables import RunnableConfig


def plain_part(part: Any, config: RunnableConfig) -> dict[str, Any]:
    """Return a part that a tool has put on the stream of a graph, relative to the run of the tool."""
    namespace, mode, data = part
    if mode == "messages":
        message, metadata = data
        data = [message, *_apart_from(config.get("metadata") or {}, metadata)]
    return {**_relative(namespace, config), "mode": mode, "data": data}


def _relative(namespace: tuple[str, ...], config: RunnableConfig) -> dict[str, Any]:
    """Return a namespace relative to that of a run: task ids differ from run to run."""
    own, graph = graph_of(config)
    if namespace == graph:
        return {}
    inside = namespace[: len(own)] == own
    return {"inside": list(namespace[len(own) :])} if inside else {"namespace": list(namespace)}


def part_of(plain: Mapping[str, Any], config: RunnableConfig) -> tuple[tuple[str, ...], str, Any]:
    """Return the part of a stream that another run of the tool puts there."""
    own, graph = graph_of(config)
    namespace = (*own, *plain["inside"]) if "inside" in plain else tuple(plain.get("namespace", graph))
    data = plain["data"]
    if plain["mode"] == "messages":
        data = (data[0], _together_with(config.get("metadata") or {}, *data[1:]))
    return namespace, plain["mode"], data


def _apart_from(own: Mapping[str, Any], metadata: Mapping[str, Any]) -> list[Any]:
    """Return the metadata of a part that are not those of the run, with their places if they are not the last ones."""
    rest = {key: item for key, item in metadata.items() if key not in own or own[key] != item}
    if list({**own, **rest}) == list(metadata):
        return [rest]
    return [rest, [place for place, key in enumerate(metadata) if key in rest]]


def _together_with(
    own: Mapping[str, Any], rest: Mapping[str, Any], places: Sequence[int] | None = None
) -> dict[str, Any]:
    """Return all metadata of a part, those of the run among them."""
    if places is None:
        return {**own, **rest}
    items = [item for item in own.items() if item[0] not in rest]
    for place, item in zip(places, rest.items(), strict=True):
        items.insert(place, item)
    return dict(items)
