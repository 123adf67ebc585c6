"""The registrations of LangChain's values and packages, imported when a session or a reader needs them."""

from agenttape_core.integration import register_codecs
from agenttape_core.integration.patching import register_packages
from agenttape_langchain.codec import CODECS

register_codecs(CODECS)  # not where sessions connect: a handler or a stand-in model may be alone
register_packages(
    {
        "agenttape_langchain": "agenttape-langchain",
        "langchain": "langchain",
        "langchain_core": "langchain-core",
        "langgraph": "langgraph",  # agents of LangChain run on it, whether or not its own integration is installed
    }
)
