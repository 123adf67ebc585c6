"""A Postgres server for tests, from the packages of the system."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ...kit.shared_folder import shared_folder

PACKAGES = Path("/usr/lib/postgresql")
"""Debian's folder of the programs of each version."""


class NoPostgresError(Exception):
    """There is no server here, and why."""


@contextmanager
def postgres_server() -> Iterator[str]:
    """Start a server that only this process can reach, and yield how to connect to it.

    Raises:
        NoPostgresError: It is not installed, or does not start.
    """
    programs = _programs()
    folder = Path(tempfile.mkdtemp(prefix="agenttape-pg-", dir=shared_folder()))
    try:
        user = _user(folder)
        data, options = folder / "data", f"-k {folder} -c listen_addresses='' -c fsync=off"
        _call([programs / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "--no-sync"], user)
        control = [programs / "pg_ctl", "-D", data, "-w"]
        _call([*control, "-l", folder / "log", "-o", options, "start"], user)
        try:
            yield f"host={folder} user=postgres dbname=postgres"
        finally:
            _call([*control, "-m", "immediate", "stop"], user)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _programs() -> Path:
    found = shutil.which("initdb")
    folders = sorted(PACKAGES.glob("*/bin"), key=lambda folder: float(folder.parent.name), reverse=True)
    folders = [Path(found).parent] * (found is not None) + [path for path in folders if (path / "initdb").exists()]
    if not folders:
        raise NoPostgresError("Postgres is not installed: apt-get install postgresql")
    return folders[0]


def _user(folder: Path) -> dict[str, Any]:
    """Postgres refuses to run as root, so root lets another user run it."""
    if os.geteuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        os.chown(folder, entry.pw_uid, entry.pw_gid)
        return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
    raise NoPostgresError("Postgres does not run as root, and there is no other user for it")


def _call(command: list[Any], user: dict[str, Any]) -> None:
    try:
        done = subprocess.run(
            list(map(str, command)), cwd="/", check=False, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, **user
        )
    except OSError as error:
        raise NoPostgresError(f"{command[0]}: {error}") from error
    if done.returncode:
        raise NoPostgresError(f"{command[0]}: {done.stderr.decode(errors='replace')}")
