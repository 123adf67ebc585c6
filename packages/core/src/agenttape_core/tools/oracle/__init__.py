"""A tool oracle: what tools answered, for agents in any language.

The file is the one of Forge's replay: a JSON array with an entry for each call of a tool.
"""

from agenttape_core.tools.oracle.lookup import (
    Entry,
    ToolOracle,
    Unknown,
    args_hash,
    entries_of,
    lines_of,
    oracle_of,
    read_oracle,
)
from agenttape_core.tools.oracle.server import OracleServer

__all__ = [
    "Entry",
    "OracleServer",
    "ToolOracle",
    "Unknown",
    "args_hash",
    "entries_of",
    "lines_of",
    "oracle_of",
    "read_oracle",
]
