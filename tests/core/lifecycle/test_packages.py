"""The header names the versions of what can change a recording: registered packages that are imported."""

from __future__ import annotations

import sys
from importlib.metadata import version
from types import ModuleType

import pytest

from agenttape_core.integration.patching import register_packages
from agenttape_core.lifecycle import header
from agenttape_core.lifecycle.header import package_versions


@pytest.fixture(autouse=True)
def registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the registry of this process as it is."""
    monkeypatch.setattr(header, "_distributions", dict(header._distributions))


def test_registered_and_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package is named once something of it is imported, by its distribution, and not twice."""
    register_packages({"their_client": "pytest", "their_other_client": "pytest", "never_imported": "ruff"})
    assert "pytest" not in package_versions()
    for name in ("their_client", "their_other_client"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    assert package_versions()["pytest"] == version("pytest")
    assert "ruff" not in package_versions()
    assert list(package_versions()) == sorted(package_versions())


def test_from_a_source_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that is imported without being installed has no version to name."""
    register_packages({"their_client": "no-such-distribution-anywhere"})
    monkeypatch.setitem(sys.modules, "their_client", ModuleType("their_client"))
    assert "no-such-distribution-anywhere" not in package_versions()


@pytest.mark.parametrize("client", ["anthropic", "openai"])
def test_clients_of_providers(client: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client of a provider is named whoever calls it, without any integration."""
    monkeypatch.setitem(sys.modules, client, ModuleType(client))
    assert package_versions()[client] == version(client)
