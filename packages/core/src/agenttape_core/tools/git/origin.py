"""The origin of the installed packages of AgentTape, from which a workflow can also install them (PEP 610)."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator, Mapping
from importlib.metadata import distributions
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

Origin = Mapping[str, Any]
"""The content of `direct_url.json`; empty for a distribution from a registry."""


def advice(origins: Mapping[str, Origin]) -> str:
    """Return how a workflow gets packages that are on this machine alone; empty if it needs no help.

    Args:
        origins: The origins of AgentTape's distributions by their names.
    """
    if not are_local(origins.values()):
        return ""
    folders = [url2pathname(urlsplit(str(one["url"])).path) for one in origins.values() if "dir_info" in one]
    how = f":\n  pip wheel --no-deps -w wheels {shlex.join(folders)}" if folders else ""
    return (
        "AgentTape is installed here from local files, and is on no registry: put its wheels into the folder `wheels` "
        f"of the project, and commit them{how}"
    )


def installed_origins() -> dict[str, Origin]:
    """Return the origins of AgentTape's installed distributions, by their names."""
    found = {}
    for each in distributions():
        name = (each.metadata["Name"] or "").lower().replace("_", "-")
        if name.startswith("agenttape-"):
            text = each.read_text("direct_url.json")
            found[name] = json.loads(text) if text else {}
    return dict(sorted(found.items()))


def steps_from(origins: Mapping[str, Origin]) -> Iterator[str]:
    """Yield the lines of a workflow's step that installs the packages that came from a repository here, if any.

    Args:
        origins: The origins of distributions by their names.
    """
    wanted = [_requirement(name, origin) for name, origin in origins.items() if "vcs_info" in origin]
    if wanted:
        yield "# AgentTape, from where it is installed here."
        yield f"- run: pip install {' '.join(json.dumps(each) for each in wanted)}"


def are_local(origins: Iterable[Origin]) -> bool:
    """Return whether a distribution came from files of this machine."""
    return any("dir_info" in origin or ("archive_info" in origin and _is_file(origin)) for origin in origins)


def _is_file(origin: Origin) -> bool:
    return str(origin.get("url", "")).startswith("file:")


def _requirement(name: str, origin: Origin) -> str:
    told = origin["vcs_info"]
    extra = "[cli]" if name == "agenttape-core" else ""
    place = f"#subdirectory={origin['subdirectory']}" if origin.get("subdirectory") else ""
    return f"{name}{extra} @ {told['vcs']}+{origin['url']}@{told['commit_id']}{place}"
