"""`agenttape init`: the settings of git, and of a project's automation, for cassettes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from agenttape_core.cli.app import FINDINGS, OK
from agenttape_core.cli.output import cli_command, print_json, print_text
from agenttape_core.errors import shown_path
from agenttape_core.settings import load_settings
from agenttape_core.tools.git.settings import advice, installed_origins, root_of
from agenttape_core.tools.git.setup import (
    Change,
    files_to_change,
    folder_name,
    set_clone_settings,
    with_section,
    write_files,
)

_NO_REPOSITORY = (
    "this folder is in no git repository, so git cannot compare and merge its cassettes\n"
    "  run `git init`, then `agenttape init` again"
)


_EXAMPLE = Path(__file__).parents[1] / "example"
_AGENTS = Path(__file__).parents[1] / "agents"
_SKILL = ".claude/skills/agenttape/SKILL.md"
_STEPS = """\
  cd {folder}
  pytest                        red: there is no recording
  pytest --cassette-mode=once   records, with a model on this machine
  pytest                        green, offline
edit PROMPT in support.py, and:
  pytest                        red: a request changed
  pytest --rerecord=changed     records only what changed"""


@cli_command("agenttape init --ci")
@click.option("--ci", "automated", is_flag=True, help="Also write a GitHub Actions workflow and pre-commit hooks.")
@click.option(
    "--shards",
    type=click.IntRange(1, 256),
    metavar="N",
    help="With --ci, also write a workflow that works on many recordings, in N jobs.",
)
@click.option(
    "--generated", is_flag=True, help="Also mark cassettes as generated, so that GitHub folds them in a review."
)
@click.option("--agents", is_flag=True, help="Also write a skill and a section of AGENTS.md for coding agents.")
@click.option(
    "--example",
    metavar="FOLDER",
    is_flag=False,
    flag_value="agenttape-example",
    help="Only write a small project with a model that needs no key, by default to agenttape-example.",
)
def init(
    *, automated: bool, shards: int | None, generated: bool, agents: bool, example: str | None, as_json: bool
) -> int:
    """Set up git for cassettes, and CI, hooks and agents if you wish.

    Git then compares and merges the cassettes of this project by record, and ignores the working files next to them.
    Adds lines to .gitattributes and .gitignore in this folder, and settings to this clone of the repository: run it
    once in each clone. Exits with 1 if you have to edit a file by hand.
    """
    if example is not None:
        return _write_example(Path(example), as_json=as_json)
    if shards and not automated:
        raise click.UsageError("--shards is the number of jobs of a workflow: add --ci")
    project = Path()
    root = root_of(project)
    folder = folder_name(shown_path(load_settings().cassette_dir))
    changes = files_to_change(
        project, _near(root), folder, automated=automated, generated=generated, shards=shards or 0
    )
    changes += _for_agents(project) if agents else []
    write_files(changes)
    changes += set_clone_settings(root) if root is not None else []
    if as_json:
        print_json({"repository": str(root) if root else None, "changes": [change._asdict() for change in changes]})
    else:
        _report(changes)
        if root is None:
            print_text(_NO_REPOSITORY)
        if automated and (told := advice(installed_origins())):
            print_text(told)
    return FINDINGS if any(change.state == "left" for change in changes) else OK


def _for_agents(project: Path) -> list[Change]:
    skill, section = (_AGENTS.joinpath(name).read_text(encoding="utf-8") for name in ("SKILL.md", "AGENTS.md"))
    start = skill.index("\n#") + 1  # behind the front matter
    return [
        with_section(project / _SKILL, skill[start:], skill[:start]),
        with_section(project / "AGENTS.md", section),
    ]


def _write_example(folder: Path, *, as_json: bool) -> int:
    texts = {path.stem: path.read_text(encoding="utf-8") for path in sorted(_EXAMPLE.glob("*.txt"))}
    if folder.is_dir() and any(folder.iterdir()):
        raise click.UsageError(f"{folder} isn't empty; name another folder: agenttape init --example FOLDER")
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8", newline="\n")
    if as_json:
        print_json({"written": [str(folder / name) for name in texts]})
    else:
        print_text("\n".join(f"{folder / name}: written" for name in texts))
        print_text(_STEPS.format(folder=folder))
    return OK


def _near(root: Path | None) -> Path:
    """Return the folder of a repository as seen from here, or this folder."""
    return Path() if root is None or root == Path.cwd().resolve() else root


def _report(changes: Sequence[Change]) -> None:
    for change in changes:
        if change.state == "left":
            print_text(f"{change.what}: kept as it is; add these lines, or replace it by them:", "yellow")
            print_text("".join(f"  {line}\n" for line in change.text.splitlines()).rstrip("\n"))
        else:
            print_text(f"{change.what}: {change.state}")
