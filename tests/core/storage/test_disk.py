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
MOUNT = """
for name in $3; do
    mkdir -p "$1/$name/disk" && mount -t tmpfs -o "size=$2k" tmpfs "$1/$name/disk" || exit
done
shift 3
exec "$@"
"""
"""Give each scenario a file system of so many KiB, and run a command."""

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(sys.platform == "win32", reason="disks are limited as POSIX does it"),
]


@cache
def can_mount(folder: Path) -> bool:
    """Whether this user may have a file system of their own, in a namespace of their own."""
    command = [UNSHARE or "false", "-rm", "sh", "-c", MOUNT, "sh", str(folder), "64", "probe", "true"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def on_disks(folder: Path, size: int, scenarios: str, *command: str) -> None:
    """Run scenarios on file systems of so many KiB, or a command that does."""
    if not can_mount(folder):
        pytest.skip("a small file system cannot be mounted here: no unshare, or no right to use it")
    command = command or (sys.executable, str(CHILD), str(folder), *scenarios.split())
    passes(folder, UNSHARE or "", "-rm", "sh", "-c", MOUNT, "sh", str(folder), str(size), scenarios, *command)


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


def test_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    """Whatever has no room, the journal, the cassette or an asset: see the scenarios."""
    on_disks(tmp_path, 64, "journal swallowed room_again commit asset")


def test_where_no_file_may_grow_memory_keeps_the_rest(tmp_path: Path) -> None:
    """Files are limited for the process, wherever they are: see the scenarios."""
    passes(tmp_path, sys.executable, str(CHILD), str(tmp_path), "limited", "hopeless")


def test_a_server_whose_disk_is_full_answers(tmp_path: Path) -> None:
    """It's told once, and its recordings go on when there's room: see the scenario."""
    on_disks(tmp_path, 512, "requests")


SHOW = """
cd "$1"
cp old/disk/tape.yaml read_only/disk && mount -o remount,ro read_only/disk && exec "$2" "$3" "$1" read_only
"""


@pytest.fixture
def recorded(tmp_path: Path) -> Path:
    """A folder with a cassette."""
    passes(tmp_path, sys.executable, str(CHILD), str(tmp_path), "old")
    return tmp_path


def test_a_disk_that_is_read_only_is_told_on_entry(recorded: Path) -> None:
    """Recording fails before anything is executed, and a replay works."""
    on_disks(recorded, 64, "read_only", "sh", "-c", SHOW, "sh", str(recorded), sys.executable, str(CHILD))


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="permissions do not bind root")
def test_a_folder_that_is_read_only_is_told_on_entry(recorded: Path) -> None:
    """The same holds where the permissions of the folder forbid it."""
    folder = (recorded / "old").rename(recorded / "read_only") / "disk"
    folder.chmod(0o500)
    try:
        passes(recorded, sys.executable, str(CHILD), str(recorded), "read_only")
    finally:
        folder.chmod(0o700)
