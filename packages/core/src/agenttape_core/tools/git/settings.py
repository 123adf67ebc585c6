"""The configuration of git for cassettes, and the origin of AgentTape that a workflow installs it from."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import distributions
from pathlib import Path, PurePath
from shlex import quote
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from agenttape_core.storage import SUFFIXES

_DRIVERS = "diff=agenttape merge=agenttape"
_PACKED = (".gz", ".zst")
_BESIDE = (".*.lock", ".*.journal", "*.derived.*", "*.pending.*", "*.broken*", "*.recovered*", "*.part-*")


def attribute_lines(folder: str) -> list[str]:
    """Return the lines of `.gitattributes`: drivers that compare and merge cassettes, and the protection of assets."""
    sorts = {suffix: "-text" if suffix in _PACKED else "text eol=lf" for suffix in SUFFIXES}
    lines = [f"**/{folder}/**/*{suffix} {sort} {_DRIVERS}" for suffix, sort in sorts.items()]
    return [*lines, "**/*.assets/** binary"]


def generated_lines(folder: str) -> list[str]:
    """Return the lines of `.gitattributes` by which forges know cassettes for generated files, and fold them."""
    return [f"**/{folder}/** linguist-generated"]


def ignore_lines(folder: str) -> list[str]:
    """Return the lines of `.gitignore`: uncommitted files that recordings leave next to their cassettes."""
    return [*(f"**/{folder}/**/{name}" for name in _BESIDE), "**/runs/**/*.sqlite*"]  # savers keep values as they are


def clone_settings(python: str = sys.executable) -> dict[str, str]:
    """Return the settings that each clone needs, which git does not keep in the repository.

    If this Python is gone, both commands do the same as git without them, so that `git diff` always works.
    """
    ours = f"{quote(PurePath(python).as_posix())} -P -m agenttape_core.tools.git"  # -P: no module of the repository
    return {
        "diff.agenttape.textconv": f'f() {{ {ours} textconv "$1" 2>/dev/null || cat "$1"; }}; f',
        "diff.agenttape.xfuncname": "^--- (.*)$",
        "merge.agenttape.name": "cassettes, record by record",
        "merge.agenttape.driver": (
            f'f() {{ {ours} merge "$@" && return; grep -q "^<<<<<<<" "$2" && return 1; '
            'git merge-file --marker-size="$4" "$2" "$1" "$3"; }; f %O %A %B %L %P'
        ),
    }


def root_of(folder: Path) -> Path | None:
    """Return the folder of the git repository around a folder; `None` if there is none, or no git."""
    try:
        done = _git(folder, "rev-parse", "--show-toplevel")
    except FileNotFoundError:
        return None
    return Path(done.stdout.rstrip("\n")) if done.returncode == 0 else None


def setting(folder: Path, name: str) -> str:
    """Return a setting of a clone; empty if there is none."""
    return _git(folder, "config", "--local", "--get", name).stdout.rstrip("\n")


def put_setting(folder: Path, name: str, value: str) -> bool:
    """Set a setting of a clone, and return whether that worked."""
    return _git(folder, "config", "--local", name, value).returncode == 0


def _git(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=False)  # noqa: S603, S607


# The origin of the installed packages of AgentTape, from which a workflow can also install them (PEP 610).

_Origin = Mapping[str, Any]  # the content of `direct_url.json`; empty for a distribution from a registry


def advice(origins: Mapping[str, _Origin]) -> str:
    """Return how a workflow gets packages that are on this machine alone; empty if it needs no help."""
    if not are_local(origins.values()):
        return ""
    folders = [url2pathname(urlsplit(str(one["url"])).path) for one in origins.values() if "dir_info" in one]
    how = f":\n  pip wheel --no-deps -w wheels {shlex.join(folders)}" if folders else ""
    return (
        "AgentTape is installed here from local files, and is on no registry: put its wheels into the folder `wheels` "
        f"of the project, and commit them{how}"
    )


def installed_origins() -> dict[str, _Origin]:
    """Return the origins of AgentTape's installed distributions, by their names."""
    found = {}
    for each in distributions():
        name = (each.metadata["Name"] or "").lower().replace("_", "-")
        if name.startswith("agenttape-"):
            text = each.read_text("direct_url.json")
            found[name] = json.loads(text) if text else {}
    return dict(sorted(found.items()))


def steps_from(origins: Mapping[str, _Origin]) -> Iterator[str]:
    """Yield the lines of a workflow's step that installs the packages that came from a repository here, if any."""
    wanted = [_requirement(name, origin) for name, origin in origins.items() if "vcs_info" in origin]
    if wanted:
        yield "# AgentTape, from where it is installed here."
        yield f"- run: pip install {' '.join(json.dumps(each) for each in wanted)}"


def are_local(origins: Iterable[_Origin]) -> bool:
    """Return whether a distribution came from files of this machine."""
    return any(
        "dir_info" in origin or ("archive_info" in origin and str(origin.get("url", "")).startswith("file:"))
        for origin in origins
    )


def _requirement(name: str, origin: _Origin) -> str:
    told = origin["vcs_info"]
    extra = "[cli]" if name == "agenttape-core" else ""
    place = f"#subdirectory={origin['subdirectory']}" if origin.get("subdirectory") else ""
    return f"{name}{extra} @ {told['vcs']}+{origin['url']}@{told['commit_id']}{place}"
