"""Every leaf interface of LangChain is a boundary, or code of the program for a reason that's given here."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from agenttape_langchain.automatic import LIMITERS
from agenttape_langchain.chat_models import CHAT_MODELS
from agenttape_langchain.tape import LATE, late_family

from ..kit.leaf_interfaces import leaf_interfaces, unjudged, unneeded

_COMPOSES = "composes other runnables; those at its ends are boundaries"
_FORMATS = "makes text or messages of values, in this process"
_PARSES = "reads text or messages, in this process"
_LOADS = "reads local files in a replay, too; over the network it's refused (record it with http=True)"
_CACHES = "a cache of the program, in front of the model: it's emptied or kept by the program"
_INDEXES = "bookkeeping of the program; over the network it's refused"
_CALLS_LEAF = "the framework's own method, which calls the leaf of the same class"

PROGRAM = {
    "langchain_core.caches.BaseCache": _CACHES,
    "langchain_core.callbacks.base.AsyncCallbackHandler": "a handler of the program: it observes, and runs in a replay",
    "langchain_core.callbacks.base.CallbackManagerMixin": "a handler of the program: it observes, and runs in a replay",
    "langchain_core.callbacks.manager.AsyncRunManager": "reports to handlers",
    "langchain_core.chat_loaders.BaseChatLoader": _LOADS,
    "langchain_core.document_loaders.base.BaseBlobParser": _LOADS,
    "langchain_core.document_loaders.blob_loaders.BlobLoader": _LOADS,
    "langchain_core.documents.transformers.BaseDocumentTransformer": "models that it asks are boundaries",
    "langchain_core.example_selectors.base.BaseExampleSelector": "the store that it asks is a boundary",
    "langchain_core.indexing.base.RecordManager": _INDEXES,
    "langchain_core.language_models.base.BaseLanguageModel": _CALLS_LEAF,
    "langchain_core.language_models.chat_models.BaseChatModel.bind_tools": "returns a binding of the model",
    "langchain_core.language_models.chat_models.SimpleChatModel": "its `_generate`, a boundary, calls it",
    "langchain_core.language_models.llms.LLM": "its `_generate`, a boundary, calls it",
    "langchain_core.output_parsers.base.BaseLLMOutputParser": _PARSES,
    "langchain_core.output_parsers.base.BaseOutputParser": _PARSES,
    "langchain_core.output_parsers.list.ListOutputParser": _PARSES,
    "langchain_core.output_parsers.openai_functions.JsonOutputFunctionsParser": _PARSES,
    "langchain_core.output_parsers.openai_tools.JsonOutputToolsParser": _PARSES,
    "langchain_core.output_parsers.transform.BaseCumulativeTransformOutputParser": _PARSES,
    "langchain_core.prompt_values.PromptValue": _FORMATS,
    "langchain_core.prompts.base.BasePromptTemplate": _FORMATS,
    "langchain_core.prompts.chat.BaseChatPromptTemplate": _FORMATS,
    "langchain_core.prompts.chat.BaseStringMessagePromptTemplate": _FORMATS,
    "langchain_core.prompts.chat.ChatPromptTemplate": _FORMATS,
    "langchain_core.prompts.dict.DictPromptTemplate": _FORMATS,
    "langchain_core.prompts.few_shot.FewShotChatMessagePromptTemplate": _FORMATS,
    "langchain_core.prompts.image.ImagePromptTemplate": _FORMATS,
    "langchain_core.prompts.message.BaseMessagePromptTemplate": _FORMATS,
    "langchain_core.prompts.string.StringPromptTemplate": _FORMATS,
    "langchain_core.runnables.base.Runnable": _COMPOSES,
    "langchain_core.runnables.base.RunnableEachBase": _COMPOSES,
    "langchain_core.runnables.configurable.DynamicRunnable": _COMPOSES,
    "langchain_core.structured_query.Visitor": "translates a query into a store's language",
    "langchain_core.tools.base.BaseToolkit": "lists tools, each of which is a boundary",
    "langchain_core.tracers.base.AsyncBaseTracer": "a tracer of the program: it observes, and runs in a replay",
    "langchain_core.tracers.base.BaseTracer": "a tracer of the program: it observes, and runs in a replay",
    "langchain_core.vectorstores.base.VectorStore._select_relevance_score_fn": "returns a function of the store's own",
    "langchain_core.vectorstores.base.VectorStore.from_texts": "makes a store; the texts go in by `add_texts`",
    "langchain.agents.middleware._execution.BaseExecutionPolicy": "a shell: its start and commands are boundaries",
    "langchain.agents.middleware.types.AgentMiddleware": "a middleware of the program: it runs around models and tools",
    "langchain_text_splitters.base.TextSplitter": "splits text, in this process",
}


def test_every_leaf_interface_is_judged() -> None:
    """An abstract leaf method that LangChain adds fails here until it's a boundary, or listed with a reason."""
    found = leaf_interfaces("langchain_core", "langchain", "langchain_text_splitters")
    families = [CHAT_MODELS, LIMITERS, *(late_family(module) for module in LATE if module in sys.modules)]
    boundaries = [(family.base, method) for family in families for method in family.leaves]
    assert len(found) > 40
    assert unjudged(found, boundaries, PROGRAM) == []


def test_listed_program_code_exists() -> None:
    """What's listed as code of the program is a leaf interface of an installed package."""
    found = leaf_interfaces("langchain_core", "langchain", "langchain_text_splitters")
    packages = {name.partition(".")[0] for name in found}
    dead = [name for name in unneeded(found, PROGRAM) if name.partition(".")[0] in packages]
    assert dead == []


def test_unknown_interface_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package with a new abstract leaf, sync or only declared, is reported by name."""
    (tmp_path / "newframework").mkdir()
    (tmp_path / "newframework" / "__init__.py").write_text("")
    (tmp_path / "newframework" / "oracles.py").write_text(
        "import abc\n"
        "class BaseOracle(abc.ABC):\n"
        "    @abc.abstractmethod\n"
        "    def _ask(self, question): ...\n"
        "    def close(self): return None\n"
        "class BaseSeer:\n"
        "    def see(self):\n"
        "        '''See.'''\n"
        "        raise NotImplementedError('see')\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    found = leaf_interfaces("newframework")
    assert unjudged(found, [], {}) == ["newframework.oracles.BaseOracle._ask", "newframework.oracles.BaseSeer.see"]
    assert unjudged(found, [], {"newframework.oracles.BaseSeer": "a joke"}) == ["newframework.oracles.BaseOracle._ask"]
    assert unneeded(found, {"newframework.oracles.BaseSage": "gone"}) == ["newframework.oracles.BaseSage"]
