"""How an integration substitutes methods of objects it did not write: the part that no framework is special to.

A *family* is a base class of a framework and its leaf methods. `alias_of` makes taped objects: aliases of a dynamic
subclass that share the state of the object they stand for. `wrapping` meets the objects that nobody taped, in the
classes themselves, while sessions are open. Both put the same wrapper around the same methods: a *shape* over one
decision.
"""

from agenttape_core.substitution.alias import (
    StandIn,
    alias_class,
    alias_of,
    is_alias,
    is_alias_class,
    original_of,
    state_of,
)
from agenttape_core.substitution.leaves import (
    Cross,
    Family,
    Leaf,
    Shape,
    alias_for,
    async_generator,
    begin,
    coroutine,
    generator,
    kept,
    named_arguments,
    only_ambient,
    plain,
)
from agenttape_core.substitution.object_settings import (
    EMBEDDING_SETTINGS,
    SEARCH_SETTINGS,
    STORE_SETTINGS,
    model_of,
    settings_of,
)
from agenttape_core.substitution.request_values import asked
from agenttape_core.substitution.subclasses import wrapping
from agenttape_core.substitution.threads import forking_pools

__all__ = [
    "EMBEDDING_SETTINGS",
    "SEARCH_SETTINGS",
    "STORE_SETTINGS",
    "Cross",
    "Family",
    "Leaf",
    "Shape",
    "StandIn",
    "alias_class",
    "alias_for",
    "alias_of",
    "asked",
    "async_generator",
    "begin",
    "coroutine",
    "forking_pools",
    "generator",
    "is_alias",
    "is_alias_class",
    "kept",
    "model_of",
    "named_arguments",
    "only_ambient",
    "original_of",
    "plain",
    "settings_of",
    "state_of",
    "wrapping",
]
