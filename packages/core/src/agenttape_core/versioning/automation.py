"""What a project's automation does with cassettes, as files: a workflow of GitHub Actions, and hooks of pre-commit.

docs/git.md shows the same text, and a test compares the two.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

import yaml

WORKFLOW_PATH = ".github/workflows/agenttape.yml"
HOOKS_PATH = ".pre-commit-config.yaml"

_HEAD = """\
name: agenttape

on:
  push:
    branches: [main]
  pull_request:

permissions:
  contents: read

jobs:
  replay:
    runs-on: ubuntu-latest
"""
_SET_UP = """\
    steps:
      - uses: actions/checkout@v4
        with:
          persist-credentials: false
      - uses: actions/setup-python@v5
        with:
          python-version: "3.12"
"""


def workflow(install: Sequence[str], folder: str, where: PurePath) -> str:
    """Return a workflow of GitHub Actions: cassettes can be read, hold no secret, and answer all that the tests ask.

    Args:
        install: The lines of the steps that install the project.
        folder: What folders with cassettes are called.
        where: The folder of the project in its repository.
    """
    head, tail = _frame(folder, where)
    return head + "".join(f"      {line}\n" for line in install) + tail


def is_workflow(text: str, folder: str, where: PurePath) -> bool:
    """Whether a text is such a workflow, whatever it installs: that step belongs to the project once it is written."""
    head, tail = _frame(folder, where)
    return text.startswith(head) and text.endswith(tail)


def _frame(folder: str, where: PurePath) -> tuple[str, str]:
    """Return what stands before and behind the steps that install."""
    place = where.as_posix()
    inner = place != "."
    head = f"    defaults:\n      run:\n        working-directory: {json.dumps(place)}\n" if inner else ""
    cassettes = f"{place}/**/{folder}/**" if inner else f"**/{folder}/**"
    recorded = json.dumps("${{ hashFiles('" + cassettes.replace("'", "''") + "') != '' }}")
    tail = f"""\
      # Before something is recorded there is nothing to look at.
      - run: agenttape validate
        if: {recorded}
      - run: agenttape scan
        if: {recorded}
      - run: pytest --cassette-mode=none
"""
    return f"{_HEAD}{head}{_SET_UP}", tail


def hooks(folder: str) -> str:
    """Return the entry of pre-commit's `repos` whose hooks look at the cassettes of a commit.

    Args:
        folder: What folders with cassettes are called.
    """
    files = rf"(^|/){folder}/.*\.(yaml|yml|jsonl)(\.gz|\.zst)?$"
    return f"""\
- repo: local
  hooks:
  - id: agenttape-validate
    name: cassettes can be read
    entry: agenttape validate
    language: system
    files: '{files}'
    exclude: '\\.golden\\.yaml$'
  - id: agenttape-scan
    name: cassettes hold no secret
    entry: agenttape scan
    language: system
    files: '{files}'
    exclude: '\\.golden\\.yaml$'
"""


def with_hooks(text: str, entry: str) -> str | None:
    """Return the text of a pre-commit configuration with our entry in it.

    Args:
        text: The configuration; empty if there is none.
        entry: Our entry of its `repos`.

    Returns:
        The text, as it was if it has our hooks already; nothing if it is not plain to see where the entry belongs.
    """
    if not text.strip():
        return f"repos:\n{entry}"
    before = _loaded(text)
    if before is None:
        return None
    (ours,) = yaml.safe_load(entry)
    if {hook["id"] for hook in ours["hooks"]} <= _ids(before):
        return text
    for indent in ("", "  "):
        lines = "".join(f"{indent}{line}" for line in entry.splitlines(keepends=True))
        extended = f"{text.rstrip()}\n{lines}"
        if _loaded(extended) == {**before, "repos": [*before["repos"], ours]}:
            return extended
    return None


def _loaded(text: str) -> dict[str, Any] | None:
    """Return a configuration that is one: a mapping with a list of repositories."""
    try:
        loaded = yaml.safe_load(text)
    except yaml.YAMLError:
        return None
    return loaded if isinstance(loaded, dict) and isinstance(loaded.get("repos"), list) else None


def _ids(configuration: dict[str, Any]) -> set[Any]:
    repos = [repo for repo in configuration["repos"] if isinstance(repo, dict)]
    hooks = [hook for repo in repos if isinstance(repo.get("hooks"), list) for hook in repo["hooks"]]
    return {hook.get("id") for hook in hooks if isinstance(hook, dict)}
