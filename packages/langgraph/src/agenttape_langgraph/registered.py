"""The registrations of LangGraph's values, packages and effects, imported when a session or a reader needs them."""

from agenttape_core.integration import register_codecs
from agenttape_core.integration.patching import register_packages
from agenttape_langchain.integration import register_effects, register_tape
from agenttape_langgraph.codec import CODECS
from agenttape_langgraph.effects import EFFECTS
from agenttape_langgraph.tape import tape_own

register_codecs(CODECS)
register_packages({"agenttape_langgraph": "agenttape-langgraph", "langgraph": "langgraph"})
register_tape(tape_own)
register_effects(EFFECTS)  # here and not where sessions connect: a taped tool may be replayed without any
