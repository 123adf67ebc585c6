"""The standard suites of tools: made of functions, of a class, with an artifact."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.tools import BaseTool, StructuredTool
from langchain_tests.integration_tests import ToolsIntegrationTests
from langchain_tests.unit_tests import ToolsUnitTests

from agenttape_langchain import tape

from .originals import Asking, World


def look_up(question: str) -> str:
    """Look something up."""
    return World.ask(question)


def look_up_with_source(question: str) -> tuple[str, dict[str, str]]:
    """Look something up, and say where."""
    return World.ask(question), {"source": "the world"}


class OfFunction:
    """A tool that is made of a function."""

    automatic = True

    @property
    def tool_constructor(self) -> BaseTool:
        return StructuredTool.from_function(look_up)

    @property
    def tool_invoke_params_example(self) -> dict[str, Any]:
        return {"question": "who are you?"}


class OfClass(OfFunction):
    """A tool with a class of its own, and parameters."""

    @property
    def tool_constructor(self) -> type[BaseTool]:
        return Asking

    @property
    def tool_constructor_params(self) -> dict[str, Any]:
        return {"politeness": 2}


class OfArtifact(OfFunction):
    """A tool that also returns what the model does not see."""

    @property
    def tool_constructor(self) -> BaseTool:
        return StructuredTool.from_function(look_up_with_source, response_format="content_and_artifact")


class Taped:
    """The same tool, taped, in a session that tapes nothing else."""

    automatic = False

    @pytest.fixture
    def tool(self) -> BaseTool:
        made = self.tool_constructor
        return tape(made if isinstance(made, BaseTool) else made(**self.tool_constructor_params))


class TestUnit(OfClass, ToolsUnitTests):
    pass


class TestUnitTaped(Taped, OfClass, ToolsUnitTests):
    pass


class TestFunction(OfFunction, ToolsIntegrationTests):
    pass


class TestFunctionTaped(Taped, OfFunction, ToolsIntegrationTests):
    pass


class TestClass(OfClass, ToolsIntegrationTests):
    pass


class TestClassTaped(Taped, OfClass, ToolsIntegrationTests):
    pass


class TestArtifact(OfArtifact, ToolsIntegrationTests):
    pass


class TestArtifactTaped(Taped, OfArtifact, ToolsIntegrationTests):
    pass
