"""Functions of modules that are wrapped as soon as they are imported."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path

import pytest

from agenttape_core.lifecycle.patched_on_import import PatchedOnImport


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0)])
def test_several_functions_of_one_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: tuple[int, ...]
) -> None:
    """Each is wrapped, whoever watches for the module first, and is itself again afterwards."""
    (tmp_path / "late_shop.py").write_text("\n".join(f"def f{number}(): return {number}" for number in range(3)))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "late_shop", raising=False)
    before = list(sys.meta_path)
    with ExitStack() as stack:
        for number in order:
            patched = PatchedOnImport("late_shop", f"f{number}", lambda real: lambda: real() + 10)
            stack.enter_context(patched)
        shop = import_module("late_shop")
        assert [shop.f0(), shop.f1(), shop.f2()] == [10, 11, 12]
    assert [shop.f0(), shop.f1(), shop.f2()] == [0, 1, 2]
    assert sys.meta_path == before
    del sys.modules["late_shop"]
