"""The commands of `agenttape fleet`, a module each."""

from __future__ import annotations

from collections.abc import Mapping

FLEET: Mapping[str, str] = {
    "plan": "List the work on many recordings, as a file for any number of workers.",
    "work": "Do a shard of a plan, and store an outcome for each recording.",
    "merge": "Write one report on the results of all shards.",
    "index": "Write a table with a row for each recorded call, for queries and for notebooks.",
    "forget": "Erase old recordings of a store, or a value in all of them.",
    "query": "Answer a question about the calls in an index.",
}
"""Each is a function in a module of its name, imported when it's used; with the first sentence of its help."""
