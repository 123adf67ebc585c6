"""Processes that libraries start to look at the machine do not trip the guard; those of the program do."""

from __future__ import annotations

import ctypes.util
import platform
import subprocess
import sys
import types
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agenttape_core.errors import NetworkBlockedError
from agenttape_core.guard import Guard, guarding

pytestmark = pytest.mark.process


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The programs that are started, as far as they are on this machine."""
    programs: list[str] = []
    real = subprocess.Popen.__init__

    def start(self: Any, command: Any, *args: Any, **kwargs: Any) -> None:
        real(self, command, *args, **kwargs)
        programs.append(command if isinstance(command, str) else str(command[0]))

    monkeypatch.setattr(subprocess.Popen, "__init__", start)
    return programs


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Keep the process offline, with nothing known of the machine yet."""
    for module, name, value in (
        (platform, "_uname_cache", None),
        (platform, "_platform_cache", {}),
        (uuid, "_node", None),
        (uuid, "_UuidCreate", None),
        (uuid, "_generate_time_safe", None),
    ):
        if hasattr(module, name):
            monkeypatch.setattr(module, name, value)
    with guarding(Guard(name="c"), lambda: False):
        yield


def test_the_platform_can_be_asked(started: list[str]) -> None:
    """As the SDKs of the providers do for their headers, with a real `uname -p` the first time."""
    assert platform.platform()
    assert platform.uname().processor == platform.processor()
    if sys.platform == "linux":
        assert started == ["uname"]


def test_the_node_and_libraries_can_be_looked_up(started: list[str]) -> None:
    """The hardware address for ids of version 1, and the place of a library of C."""
    assert uuid.getnode()
    ctypes.util.find_library("c")
    assert not {"python", sys.executable} & set(started)


def test_a_process_of_the_program_is_refused() -> None:
    """The same command, started by anybody else."""
    with pytest.raises(NetworkBlockedError, match="start the process 'uname'"):
        subprocess.run(["uname", "-p"], check=False)


def test_a_module_of_the_users_with_such_a_name_is_refused(tmp_path: Path) -> None:
    """A name is not enough: the code must have been installed, or have come with Python."""
    module: Any = types.ModuleType("platform")
    code = compile("import subprocess\ndef look(): subprocess.run(['uname'])", str(tmp_path / "platform.py"), "exec")
    exec(code, vars(module))
    with pytest.raises(NetworkBlockedError):
        module.look()
