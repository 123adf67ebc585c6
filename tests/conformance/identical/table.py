"""The whole table: all modules that put programs into it, in the order of the page."""

from __future__ import annotations

from . import (  # noqa: F401 - they fill the table
    cancelled,
    chains,
    graphs,
    llama,
    llama_agents,
    llama_engines,
    llama_flows,
    llama_tasks,
    plain,
    retries,
)
from .rows import NARROW, ROWS, Framework, Row, cells

__all__ = ["NARROW", "ROWS", "Framework", "Row", "cells"]
