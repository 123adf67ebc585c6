"""The changes that `agenttape init` makes to a project: decided first, then made."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath
from typing import Literal, NamedTuple

from agenttape_core.errors import ConfigurationError
from agenttape_core.tools.git import automation, settings
from agenttape_core.tools.git.automation import install_steps

State = Literal["written", "extended", "unchanged", "left"]

_HEADING = "# Cassettes of AgentTape"
_FOLDER = re.compile(r"[A-Za-z0-9._-]+")


class Change(NamedTuple):
    """The change of one file or setting.

    Args:
        what: The path of the file, or the name of the setting.
        state: `written` if it was not there, `extended` if something was added, `unchanged` if nothing is missing,
            `left` if a person has to add something.
        text: Its new content; for one that is left, the text to add.
    """

    what: str
    state: State
    text: str


def files_to_change(
    project: Path, root: Path, folder: str, *, automated: bool, generated: bool = False
) -> list[Change]:
    """Decide on the changes of a project's files. Existing content is never changed.

    Args:
        project: Its folder.
        root: That of the repository, where automation belongs.
        folder: The name of folders with cassettes.
        automated: Whether it gets a workflow and hooks.
        generated: Whether forges are to fold cassettes in a review.

    Raises:
        ConfigurationError: If a file is there and cannot be read.
    """
    changes = [
        _lines(
            project / ".gitattributes",
            [*settings.attribute_lines(folder), *(settings.generated_lines(folder) if generated else ())],
        ),
        _lines(project / ".gitignore", settings.ignore_lines(folder)),
    ]
    return [*changes, *_automation(project, root, folder)] if automated else changes


def write_files(changes: Sequence[Change]) -> None:
    """Write the files that change.

    Raises:
        ConfigurationError: If one cannot be written.
    """
    for change in changes:
        if change.state in {"written", "extended"}:
            path = Path(change.what)
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(change.text, encoding="utf-8", newline="\n")
            except OSError as error:
                raise ConfigurationError(f"{path}: it cannot be written: {error.strerror or error}") from None


def set_clone_settings(root: Path) -> list[Change]:
    """Set what this clone of a repository needs, and return what became of each setting.

    Args:
        root: The folder of the repository.

    Raises:
        ConfigurationError: If git does not take it.
    """
    changes = []
    for name, value in settings.clone_settings().items():
        before = settings.setting(root, name)
        if before != value and not settings.put_setting(root, name, value):
            raise ConfigurationError(f"git does not set {name}\n  check that you may write to {root / '.git'}")
        changes.append(Change(f"git config {name}", "unchanged" if before == value else "written", value))
    return changes


def folder_name(cassette_dir: str) -> str:
    """Return what folders with cassettes are called: the last part of the setting.

    Raises:
        ConfigurationError: If git's patterns could not name it.
    """
    name = PurePath(cassette_dir).name
    if "://" in cassette_dir or not _FOLDER.fullmatch(name):
        raise ConfigurationError(
            f"cassette_dir = {cassette_dir!r}: git can look after cassettes in a folder whose name is made of letters, "
            "digits, `.`, `-` and `_`\n  name such a folder in [tool.agenttape]"
        )
    return name


def _automation(project: Path, root: Path, folder: str) -> Iterator[Change]:
    where = project.resolve().relative_to(root.resolve())
    workflow, hooks = root / automation.WORKFLOW_PATH, root / automation.HOOKS_PATH
    there, text = _read(workflow), automation.workflow(install_steps(project), folder, where)
    state: State = "unchanged" if automation.is_ours(there, folder, where) else "left" if there else "written"
    yield Change(str(workflow), state, text)
    before, entry = _read(hooks), automation.hooks(folder)
    after = automation.with_hooks(before, entry)
    yield Change(str(hooks), "left", entry) if after is None else Change(str(hooks), _state(before, after), after)


def _lines(path: Path, lines: Sequence[str]) -> Change:
    """Add the lines that a file does not have behind those that it has."""
    before = _read(path)
    there = {line.strip() for line in before.splitlines()}
    missing = [line for line in lines if line not in there]
    if not missing:
        return Change(str(path), "unchanged", before)
    kept = f"{before.rstrip()}\n\n" if before.strip() else ""
    heading = [] if _HEADING in there else [_HEADING]
    after = kept + "".join(f"{line}\n" for line in [*heading, *missing])
    return Change(str(path), _state(before, after), after)


def _state(before: str, after: str) -> State:
    return "unchanged" if before == after else "extended" if before.strip() else "written"


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path}: it cannot be read: {error}") from None
