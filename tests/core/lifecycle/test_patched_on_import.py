"""Functions of modules that are wrapped as soon as they are imported."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from threading import Thread
from types import ModuleType

import pytest

from agenttape_core.integration.patching import ConnectedOnImport, PatchedOnImport


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


def test_a_module_that_another_thread_imports_is_awaited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever enters while another thread imports a module gets it connected once it has run, and neither hangs."""

    def is_in_import(thread: Thread) -> bool:
        """Return whether a thread runs code of the import system."""
        at = sys._current_frames().get(thread.ident or 0)
        while at is not None and not at.f_code.co_filename.startswith("<frozen importlib"):
            at = at.f_back
        return at is not None

    (tmp_path / "gate_of_import.py").write_text(
        "import threading\nreached, go = threading.Event(), threading.Event()\n"
    )
    (tmp_path / "slow_to_import.py").write_text(
        "import gate_of_import\ngate_of_import.reached.set()\ngate_of_import.go.wait()\nname = 'whole'\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    gate = import_module("gate_of_import")
    connected: list[str] = []

    @contextmanager
    def connect(module: ModuleType) -> Iterator[None]:
        connected.append(module.name)
        yield

    connecting = ConnectedOnImport("slow_to_import", connect=connect)

    def enter() -> None:
        with connecting:
            pass

    importer = Thread(target=import_module, args=("slow_to_import",))
    opener = Thread(target=enter)
    with connecting:
        importer.start()
        gate.reached.wait()
        opener.start()
        while opener.is_alive() and not is_in_import(opener):
            pass
        gate.go.set()
        importer.join()
        opener.join()
    assert connected == ["whole"]
