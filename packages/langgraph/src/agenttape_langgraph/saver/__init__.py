"""LangGraph's checkpoints in one SQLite file."""

from agenttape_langgraph.saver.database import Database
from agenttape_langgraph.saver.local import LocalSaver
from agenttape_langgraph.saver.tape_saver import TapeSaver

__all__ = ["Database", "LocalSaver", "TapeSaver"]
