"""The triplets of LlamaIndex's property graph in one order, whatever the hash seed of the process.

`LabelledPropertyGraph` keeps them in a set, whose order goes into prompts by way of the retrievers. The relations are
in a dict beside it, so the order in which they were added is known.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from agenttape_core.integration import current_session


def in_order(get_triplets: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    """Return the method of a graph with its result in the order in which the relations were added, within sessions."""

    @functools.wraps(get_triplets)
    def ordered(graph: Any) -> list[Any]:
        triplets = get_triplets(graph)
        if current_session() is None:
            return triplets
        places = {id(relation): place for place, relation in enumerate(graph.relations.values())}

        def place(triplet: Any) -> tuple[int, str, str]:
            subject, relation, target = triplet
            return places[id(relation)], subject.id, target.id

        return sorted(triplets, key=place)

    return ordered
