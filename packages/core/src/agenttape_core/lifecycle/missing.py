"""The frameworks that are in use while their package of ours is not installed."""

from __future__ import annotations

import sys

from agenttape_core.errors import MissingIntegrationError, shown_path
from agenttape_core.guard.caller import is_library
from agenttape_core.lifecycle.entry_points import installed_names
from agenttape_core.lifecycle.start_session import Opened
from agenttape_core.named_tuples import NamedTuple


class _Framework(NamedTuple):
    """A framework that one of our packages records."""

    integration: str  # the name under which our package registers itself
    package: str  # what to install


FRAMEWORKS = {
    "langchain_core": _Framework("langchain_core", "agenttape-langchain"),
    "langgraph": _Framework("langgraph", "agenttape-langgraph"),
    "llama_index.core": _Framework("llama_index", "agenttape-llamaindex"),
    "workflows": _Framework("llama_index", "agenttape-llamaindex"),
}
"""The frameworks by the module whose import shows that they are in use."""


def missing_packages() -> dict[str, str]:
    """Return the packages that are not installed, by the framework that is in use without them."""
    installed = installed_names()
    return {
        module: framework.package
        for module, framework in FRAMEWORKS.items()
        if framework.integration not in installed and _is_installed(module)
    }


def _is_installed(module: str) -> bool:
    """Return True if a module is imported, and is none of the program that happens to have this name."""
    loaded = sys.modules.get(module)
    if loaded is None:
        return False
    places = [getattr(loaded, "__file__", None), *getattr(loaded, "__path__", ())]
    return any(is_library(place) for place in places if place)


def missing_integration(opened: Opened) -> MissingIntegrationError | None:
    """Return the error of a recording without a call, if one of our packages may be missing."""
    session, request = opened.session, opened.prepared.request
    report = session.report
    if report.recorded or report.replayed or report.stepped_into:
        return None
    if not (request.auto and request.is_current) or not (missing := missing_packages()):
        return None
    return MissingIntegrationError(explain(str(shown_path(opened.prepared.shown)), missing))


def explain(where: str, missing: dict[str, str]) -> str:
    """Return the message for a cassette; `missing` has the packages that aren't installed, by module."""
    frameworks = " and ".join(sorted({module.partition(".")[0] for module in missing}))
    packages = " ".join(sorted(set(missing.values())))
    return (
        f"{where}: no call was recorded, and {frameworks} {'are' if ' and ' in frameworks else 'is'} imported, which "
        "AgentTape records only\n  with a package that is not installed; nothing was written\n"
        f"  install it:  pip install {packages}"
    )
