"""Where there is no room or no right to write, the error is clear and nothing that was recorded is lost.

The scenarios, with what must hold in each, are in `disks/child.py`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
CHILD = Path(__file__).parent / "disks" / "child.py"
UNSHARE = shutil.which("unshare")
MOUNT = 'mkdir -p "$1" && mount -t tmpfs -o "$2" tmpfs "$1" && shift 2 && exec "$@"'

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(sys.platform == "win32", reason="disks are limited as POSIX does it"),
]


@cache
def can_mount(folder: Path) -> bool:
    """Whether this user may have a file system of their own, in a namespace of their own."""
    command = [UNSHARE or "false", "-rm", "sh", "-c", MOUNT, "sh", str(folder), "size=64k", "true"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def on_a_disk(tmp_path: Path, size: int, *command: str) -> None:
    """Run a command where the folder `disk` is a file system of so many KiB."""
    if not can_mount(tmp_path / "probe"):
        pytest.skip("a small file system cannot be mounted here: no unshare, or no right to use it")
    disk = str(tmp_path / "disk")
    passes(tmp_path, UNSHARE or "", "-rm", "sh", "-c", MOUNT, "sh", disk, f"size={size}k", *command)


def passes(tmp_path: Path, *command: str) -> None:
    """Run a command that must succeed; the user's folder is a temporary one."""
    environment = {
        **os.environ,
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "TMPDIR": str(tmp_path),
        "PYTHONPATH": str(ROOT),
    }
    child = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment)
    assert child.returncode == 0, child.stderr[-3000:]


@pytest.mark.parametrize(
    ("scenario", "size"),
    [("journal", 64), ("swallowed", 64), ("room_again", 64), ("commit", 64), ("asset", 64)],
)
def test_a_full_disk_loses_nothing(tmp_path: Path, scenario: str, size: int) -> None:
    """Whatever has no room, the journal, the cassette or an asset: see the scenario."""
    on_a_disk(tmp_path, size, sys.executable, str(CHILD), scenario, str(tmp_path / "disk"))


@pytest.mark.parametrize("scenario", ["limited", "hopeless"])
def test_where_no_file_may_grow_memory_keeps_the_rest(tmp_path: Path, scenario: str) -> None:
    """Files are limited for the process, wherever they are: see the scenario."""
    folder = tmp_path / "folder"
    folder.mkdir()
    passes(tmp_path, sys.executable, str(CHILD), scenario, str(folder))


def test_a_server_whose_disk_is_full_answers(tmp_path: Path) -> None:
    """It's told once, and its recordings go on when there's room: see the scenario."""
    on_a_disk(tmp_path, 512, sys.executable, str(CHILD), "requests", str(tmp_path / "disk"))


SHOW = 'cp -r "$3" "$1" && mount -o remount,ro "$1" && exec "$2" "$4" read_only "$1/old"'


def recorded(folder: Path) -> Path:
    """A folder with a cassette."""
    folder.mkdir()
    passes(folder.parent, sys.executable, str(CHILD), "old", str(folder))
    return folder


def test_a_disk_that_is_read_only_is_told_on_entry(tmp_path: Path) -> None:
    """Recording fails before anything is executed, and a replay works."""
    old = recorded(tmp_path / "old")
    disk = str(tmp_path / "disk")
    on_a_disk(tmp_path, 64, "sh", "-c", SHOW, "sh", disk, sys.executable, str(old), str(CHILD))


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="permissions do not bind root")
def test_a_folder_that_is_read_only_is_told_on_entry(tmp_path: Path) -> None:
    """The same holds where the permissions of the folder forbid it."""
    old = recorded(tmp_path / "old")
    old.chmod(0o500)
    try:
        passes(tmp_path, sys.executable, str(CHILD), "read_only", str(old))
    finally:
        old.chmod(0o700)
