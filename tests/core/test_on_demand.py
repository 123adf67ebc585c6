"""The registrations that packages of integrations leave until they are needed."""

from __future__ import annotations

import sys
import types
from pathlib import Path

import pytest

from agenttape_core.integration import value_codec
from agenttape_core.on_demand import LatePackage, register_late


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Two modules that note their import; the first names the second."""
    noted: list[str] = []
    monkeypatch.setitem(sys.modules, "noting", types.SimpleNamespace(noted=noted))
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "late_one.py").write_text(
        "import noting\nfrom agenttape_core.integration import value_codec\n"
        "from agenttape_core.on_demand import register_late\n"
        "register_late('late_two')\nvalue_codec()\nnoting.noted.append(__name__)\n",
        encoding="utf-8",
    )
    (tmp_path / "late_two.py").write_text("import noting\nnoting.noted.append(__name__)\n", encoding="utf-8")
    for name in ("late_one", "late_two"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return noted


def test_what_is_named_is_imported_when_a_value_is_met(modules: list[str]) -> None:
    """The modules are imported once, by the first value, also if their import names others or meets values itself."""
    register_late("late_one")
    assert modules == []
    value_codec()
    assert sorted(modules) == ["late_one", "late_two"]
    value_codec()
    assert len(modules) == 2


def test_an_import_that_fails_is_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who needs a module that cannot be imported is told so, each time, until it can be."""
    monkeypatch.syspath_prepend(tmp_path)
    register_late("late_broken")
    for _ in range(2):
        with pytest.raises(ModuleNotFoundError, match="late_broken"):
            value_codec()
    (tmp_path / "late_broken.py").write_text("", encoding="utf-8")
    monkeypatch.delitem(sys.path_importer_cache, str(tmp_path), raising=False)
    value_codec()
    assert sys.modules.pop("late_broken")


def test_a_submodule_does_not_take_the_place_of_a_name() -> None:
    """In a package of this class, a name that is exported is the object, after its submodule of the same name came."""
    package, inner = LatePackage("package"), types.ModuleType("package.tape")
    package.__all__ = ["tape"]
    inner.tape = tape = object()  # type: ignore[attr-defined]
    package.tape = inner
    package.codec = inner
    assert (package.tape, package.codec) == (tape, inner)
