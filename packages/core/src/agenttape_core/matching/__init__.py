"""Sameness of requests: canonical form, fingerprint, address, lookup, and the explanation of a miss.

A module is imported when something of it is: a command that shows a cassette needs few of them.
"""

import sys
from typing import TYPE_CHECKING

from agenttape_core.on_demand import LatePackage
from agenttape_core.schema.late_names import late_names

if TYPE_CHECKING:
    from agenttape_core.matching.address import (
        Branch,
        Order,
        Position,
        SiblingPosition,
        current_branch,
        enter_branch,
        new_branch,
        places_above,
        rank_name,
        task_branch,
    )
    from agenttape_core.matching.canonical_text import canonical_json
    from agenttape_core.matching.difference import (
        ABSENT,
        Difference,
        differences,
        differing_key_orders,
        differing_leaves,
        is_identical,
        spelled,
    )
    from agenttape_core.matching.fingerprint import Canonicaliser, CanonicalRequest, KeyedItems, recorded_request
    from agenttape_core.matching.ignored_paths import NOTHING, Ignored
    from agenttape_core.matching.nearest import Nearest, is_permuted, nearest
    from agenttape_core.matching.recording_index import (
        STRICT,
        WAYS,
        Asked,
        Candidate,
        Matcher,
        MatchOn,
        MatchRule,
        OnRepeat,
        RecordingIndex,
        Way,
    )
    from agenttape_core.matching.run_ids import RUN_SPECIFIC_ID, IdMap, ids_held
    from agenttape_core.matching.selector import NO_CALLS, Key, Selector, bare_step, refuse_unselected

__all__ = [
    "ABSENT",
    "NOTHING",
    "NO_CALLS",
    "RUN_SPECIFIC_ID",
    "STRICT",
    "WAYS",
    "Asked",
    "Branch",
    "Candidate",
    "CanonicalRequest",
    "Canonicaliser",
    "Difference",
    "IdMap",
    "Ignored",
    "Key",
    "KeyedItems",
    "MatchOn",
    "MatchRule",
    "Matcher",
    "Nearest",
    "OnRepeat",
    "Order",
    "Position",
    "RecordingIndex",
    "Selector",
    "SiblingPosition",
    "Way",
    "bare_step",
    "canonical_json",
    "current_branch",
    "differences",
    "differing_key_orders",
    "differing_leaves",
    "enter_branch",
    "ids_held",
    "is_identical",
    "is_permuted",
    "nearest",
    "new_branch",
    "places_above",
    "rank_name",
    "recorded_request",
    "refuse_unselected",
    "spelled",
    "task_branch",
]

__getattr__ = late_names(
    __name__,
    {
        ".address": (
            "Branch",
            "Order",
            "SiblingPosition",
            "Position",
            "current_branch",
            "enter_branch",
            "new_branch",
            "places_above",
            "rank_name",
            "task_branch",
        ),
        ".canonical_text": ("canonical_json",),
        ".difference": (
            "ABSENT",
            "Difference",
            "differences",
            "differing_key_orders",
            "differing_leaves",
            "is_identical",
            "spelled",
        ),
        ".fingerprint": ("Canonicaliser", "CanonicalRequest", "KeyedItems", "recorded_request"),
        ".ignored_paths": ("NOTHING", "Ignored"),
        ".nearest": ("Nearest", "is_permuted", "nearest"),
        ".recording_index": (
            "STRICT",
            "WAYS",
            "Asked",
            "Candidate",
            "Matcher",
            "MatchOn",
            "OnRepeat",
            "RecordingIndex",
            "MatchRule",
            "Way",
        ),
        ".run_ids": ("RUN_SPECIFIC_ID", "IdMap", "ids_held"),
        ".selector": ("NO_CALLS", "Key", "Selector", "bare_step", "refuse_unselected"),
    },
)

sys.modules[__name__].__class__ = LatePackage  # `nearest` is a submodule, too
