"""The changes that `agenttape init` makes to a project: decided first, then made."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePath
from typing import Any, Literal

import yaml

from agenttape_core.errors import CassetteError, CassetteWriteError, ConfigurationError
from agenttape_core.lifecycle.remedy import NO_KEY
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.storage import files_below, is_cassette, may_be_cassette, open_cassette
from agenttape_core.storage.atomic import real_path, replace_file
from agenttape_core.tools.git import settings
from agenttape_core.tools.git.settings import are_local, installed_origins, steps_from

# -- The files of a project's automation: a workflow of GitHub Actions, and hooks of pre-commit.


WORKFLOW_PATH = ".github/workflows/agenttape.yml"
FLEET_PATH = ".github/workflows/agenttape-fleet.yml"
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
_CHECKOUT = """\
    steps:
      - uses: actions/checkout@3d3c42e5aac5ba805825da76410c181273ba90b1 # v7.0.1
        with:
          persist-credentials: false
"""
_WITH_BASE = "          fetch-depth: 0 # with the base of a pull request\n"
_DIFF = """\
      # The summary of the job lists the recordings that took another path.
      - run: agenttape diff --github
        if: "${{ !cancelled() && github.event_name == 'pull_request' }}"
"""
_PYTHON = """\
      - uses: actions/setup-python@5fda3b95a4ea91299a34e894583c3862153e4b97 # v7.0.0
        with:
          python-version: "3.12"
"""


def workflow(install: Sequence[str], folder: str, where: PurePath) -> str:
    """Return a workflow of GitHub Actions: cassettes can be read, hold no secret, and answer all that the tests ask.

    `install` has the lines of the steps that install the project; `where` is its folder in the repository.
    """
    head, tail = _frame(folder, where)
    return head + "".join(f"      {line}\n" for line in install) + tail


def is_ours(text: str, folder: str, where: PurePath) -> bool:
    """Return whether a workflow is such a one, whatever it installs: that step belongs to the project once written."""
    head, tail = _frame(folder, where)
    return text.startswith(head) and text.endswith(tail)


_FLEET = """\
name: agenttape fleet

on:
  schedule:
    - cron: "17 3 * * *"
  workflow_dispatch:

permissions:
  contents: read

jobs:
  work:
    runs-on: ubuntu-latest
    strategy:
      fail-fast: false
      matrix:
        shard: [{numbers}]
{steps}\
      # Or, for replays of runs in a store: s3://bucket/runs --experiment replay --program agent.py:main
      - run: agenttape fleet plan "**/{folder}/**" --experiment check --checks rules.yaml > "$RUNNER_TEMP/items.jsonl"
      # With the URL of a store as --output, the steps with artifacts aren't needed, and shards share a --max-usd.
      - run: agenttape fleet work "$RUNNER_TEMP/items.jsonl" --shard ${{{{ matrix.shard }}}}/{shards} --output results
      - uses: actions/upload-artifact@043fb46d1a93c77aae656e7c1c64a875d1fc6a0a # v7.0.1
        if: "${{{{ !cancelled() }}}}"
        with:
          name: results-${{{{ matrix.shard }}}}
          path: {results}
  merge:
    needs: work
    if: "${{{{ !cancelled() }}}}"
    runs-on: ubuntu-latest
{steps}\
      - uses: actions/download-artifact@3e5f45b2cfb9172054b4087a40e8e0b5a5461e7c # v8.0.1
        with:
          pattern: results-*
          path: {results}
          merge-multiple: true
      - run: agenttape fleet merge results --report report.md
      - run: cat report.md >> "$GITHUB_STEP_SUMMARY"
        if: "${{{{ !cancelled() }}}}"
"""


def fleet_workflow(install: Sequence[str], folder: str, where: PurePath, shards: int) -> str:
    """Return a workflow of GitHub Actions that works on many recordings in shards each night, and merges the outcomes.

    `install` and `where` are as for `workflow`. Each job makes the same plan, so none has to wait for it.
    """
    inside, lines = _inside(where), "".join(f"      {line}\n" for line in install)
    return _FLEET.format(
        folder=folder,
        numbers=", ".join(map(str, range(1, shards + 1))),
        shards=shards,
        steps=f"{inside}{_CHECKOUT}{_PYTHON}{lines}",
        results=json.dumps((where / "results").as_posix()),
    )


def _inside(where: PurePath) -> str:
    """Return the lines by which the steps of a job run in the folder of a project."""
    place = where.as_posix()
    inner = f"    defaults:\n      run:\n        working-directory: {json.dumps(place)}\n"
    return inner if place != "." else ""


def _frame(folder: str, where: PurePath) -> tuple[str, str]:
    """Return what stands before and behind the steps that install."""
    place = where.as_posix()
    cassettes = f"**/{folder}/**" if place == "." else f"{place}/**/{folder}/**"
    recorded = json.dumps("${{ hashFiles('" + cassettes.replace("'", "''") + "') != '' }}")
    tail = f"""\
      # Before something is recorded there is nothing to look at.
      - run: agenttape check
        if: {recorded}
      - run: pytest --cassette-mode=replay
{_DIFF}"""
    return f"{_HEAD}{_inside(where)}{_CHECKOUT}{_WITH_BASE}{_PYTHON}", tail


def hooks(folder: str) -> str:
    """Return the entry of pre-commit's `repos` whose hooks look at the cassettes of a commit."""
    files = rf"(^|/){folder}/.*\.(yaml|yml|jsonl)(\.gz|\.zst)?$"
    return f"""\
- repo: local
  hooks:
  - id: agenttape-check
    name: cassettes can be read, and hold no secret
    entry: agenttape check
    language: system
    files: '{files}'
    exclude: '\\.snapshot\\.yaml$'
"""


def with_hooks(text: str, entry: str) -> str | None:
    """Return the text of a pre-commit configuration with our entry in it.

    Returns it unchanged if it has our hooks already, and `None` if there is no obvious place for the entry.
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


_FOR_TESTS = ("dev", "test", "testing", "tests")
"""The names of extras and dependency groups with the tools of tests; others may not be meant for everybody."""
_BASE = "requirements.txt"
_REQUIREMENTS = (
    _BASE,
    *(f"{form}.txt" for name in ("dev", "test") for form in (f"requirements-{name}", f"requirements_{name}")),
    *(f"{name}-requirements.txt" for name in ("dev", "test")),
    *(f"requirements/{name}.txt" for name in ("base", "dev", "test")),
)
_FILES = ("pyproject.toml", "setup.py", *_REQUIREMENTS)
_INTEGRATIONS = {"langchain": "langchain", "langgraph": "langgraph", "llama-index": "llamaindex"}
"""The prefix of a framework's distributions, and the name of its integration."""
_KEYS: Mapping[str, frozenset[str]] = {
    f"{provider}_API_KEY": frozenset(
        form for name in names for form in (name, f"langchain-{name}", f"llama-index-llms-{name}")
    )
    for provider, names in {
        "OPENAI": ("openai", "llama-index", "llama-index-embeddings-openai"),
        "AZURE_OPENAI": ("azure-openai", "llama-index-embeddings-azure-openai"),
        "ANTHROPIC": ("anthropic",),
        "GOOGLE": ("google-genai", "llama-index-embeddings-google-genai"),
        "MISTRAL": ("mistralai", "llama-index-embeddings-mistralai"),
        "COHERE": ("cohere", "llama-index-embeddings-cohere"),
        "GROQ": ("groq",),
        "FIREWORKS": ("fireworks", "fireworks-ai"),
        "TOGETHER": ("together",),
        "DEEPSEEK": ("deepseek",),
        "XAI": ("xai", "xai-sdk"),
        "PPLX": ("perplexity",),
        "NVIDIA": ("nvidia-ai-endpoints", "nvidia"),
        "VOYAGE": ("voyageai",),
        "TAVILY": ("tavily", "tavily-python"),
    }.items()
}
"""The variable of the key that the clients of each provider ask for, and the distributions that have such clients."""
_EXTRAS = re.compile(r"\s*[A-Za-z0-9._-]+\s*\[([^\]]*)\]")
WHEELS = "wheels"  # the folder of a project with wheels that are on no registry
_NAME = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)")
_UNKNOWN = "Add what your tests import besides: the files of the project do not say it in a way that pip knows."


def install_steps(project: Path) -> list[str]:
    """Return the lines of a project's install steps. Raises `ConfigurationError` if a file can't be read."""
    files = {}
    for name in _FILES:
        try:
            files[name] = (project / name).read_text(encoding="utf-8")
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(f"{project / name}: it cannot be read: {error}") from None
    try:
        declared = tomllib.loads(files.get("pyproject.toml", ""))
    except ValueError as error:
        raise ConfigurationError(f"{project / 'pyproject.toml'}: not valid TOML: {error}") from None
    origins = installed_origins()
    used = {*_with_extras(_requirements(declared, files)), *_recorded_with(project)}
    steps = steps_for(declared, files, with_wheels=are_local(origins.values()))
    return [*steps_from(origins), *steps, *key_steps(used)]


def key_steps(used: Collection[str]) -> Iterator[str]:
    """Yield the lines of the step that gives a key of no use to clients which refuse to be made without one."""
    variables = [name for name, packages in _KEYS.items() if not packages.isdisjoint(used)]
    if variables:
        yield "# Clients of providers aren't made without a key. In a replay any text will do: no call is sent."
        yield "- run: |"
        yield from (f'    echo "{name}={NO_KEY}" >> "$GITHUB_ENV"' for name in variables)


def _with_extras(requirements: Iterable[str]) -> Iterator[str]:
    """Yield the names of requirements; `langchain[openai]` also needs `langchain-openai`."""
    for text in requirements:
        name = _canonical(text)
        yield name
        extras = _EXTRAS.match(text)
        yield from (f"{name}-{_canonical(each)}" for each in (extras[1].split(",") if extras is not None else ()))


def _recorded_with(project: Path) -> Iterator[str]:
    """Yield the distributions that cassettes below a project were recorded with."""
    for path in files_below(project):
        if may_be_cassette(path.name) and path.is_file() and is_cassette(path):
            with suppress(CassetteError):  # validate says what is wrong with it
                yield from open_cassette(path).preface.volatile.packages


def steps_for(declared: Mapping[str, Any], files: Mapping[str, str], *, with_wheels: bool = False) -> Iterator[str]:
    """Yield the lines of the steps.

    `declared` is the content of `pyproject.toml`. With `with_wheels`, AgentTape is on no registry, so its wheels are in
    the project.
    """
    extras = _chosen(_table(declared, "project", "optional-dependencies"))
    groups = _chosen(_table(declared, "dependency-groups"))
    listed = [name for name in _REQUIREMENTS if name in files]
    words = [f'-e ".[{",".join(extras)}]"' if extras else "-e ."] if _is_package(declared, files) else []
    words += [*(f"--group {name}" for name in groups), *(f"-r {name}" for name in listed)]
    needed = {_canonical(text) for text in _requirements(declared, files)}
    words += [f"agenttape-{name}" for name in _missing(needed)]
    if "pytest" not in needed:
        words.append("pytest")
    if with_wheels:
        yield f"# AgentTape's packages are on no registry: put their wheels into the folder `{WHEELS}`."
        words.insert(0, f"--find-links {WHEELS}")
    yield "# Your project with its tests."
    if not (extras or groups or set(listed) - {_BASE}):
        yield f"# {_UNKNOWN}"
    if groups:
        yield "- run: pip install --upgrade pip # to 25.1 or later, which knows dependency groups"
    yield f'- run: pip install {" ".join(words)} "agenttape-core[cli]"'


def _is_package(declared: Mapping[str, Any], files: Mapping[str, str]) -> bool:
    return "project" in declared or "build-system" in declared or "setup.py" in files


def _chosen(table: Mapping[str, Any]) -> list[str]:
    return [name for name in table if name in _FOR_TESTS]


def _missing(needed: set[str]) -> list[str]:
    """Return the integrations whose framework is needed, and which are not."""
    found = {
        integration
        for name in needed
        for start, integration in _INTEGRATIONS.items()
        if name == start or name.startswith(f"{start}-")
    }
    return sorted(name for name in found if f"agenttape-{name}" not in needed)


def _requirements(declared: Mapping[str, Any], files: Mapping[str, str]) -> Iterator[str]:
    """Yield the needed lines, in their written form."""
    project, groups = _table(declared, "project"), _table(declared, "dependency-groups")
    extras = _table(project, "optional-dependencies")
    yield from _texts(project.get("dependencies"))
    yield from _table(declared, "tool", "poetry", "dependencies")
    yield from (text for name in _chosen(extras) for text in _texts(extras[name]))
    yield from (text for name in _with_included(groups) for text in _texts(groups[name]))
    yield from (line for name in _REQUIREMENTS for line in files.get(name, "").splitlines())


def _with_included(groups: Mapping[str, Any]) -> list[str]:
    """Return the groups that are chosen, and those that they include."""
    found = _chosen(groups)
    for name in found:  # which grows meanwhile
        items = groups[name] if isinstance(groups[name], list) else []
        included = {item.get("include-group") for item in items if isinstance(item, Mapping)}
        found += [each for each in groups if each in included and each not in found]
    return found


def _canonical(requirement: str) -> str:
    match = _NAME.match(requirement)
    return re.sub(r"[-_.]+", "-", match[1]).lower() if match is not None else ""


def _texts(value: Any) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _table(value: Any, *path: str) -> Mapping[str, Any]:
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


State = Literal["written", "extended", "unchanged", "left"]

_HEADING = "# Cassettes of AgentTape"
_BEGIN, _END = "<!-- agenttape: begin -->", "<!-- agenttape: end -->"  # around the section for coding agents
_FOLDER = re.compile(r"[A-Za-z0-9._-]+")


class Change(NamedTuple):
    """The change of one file or setting."""

    what: str  # the path of the file, or the name of the setting
    # `written` if it's new, `extended` if lines were added, `unchanged` if it's complete, `left` if you have to add
    # lines yourself.
    state: State
    text: str  # its new content; for one that is left, the text to add


def files_to_change(
    project: Path, root: Path, folder: str, *, automated: bool, generated: bool = False, shards: int = 0
) -> list[Change]:
    """Decide on the changes of a project's files. Existing content is never changed.

    `root` is the repository's folder, where automation belongs; with `generated`, forges fold cassettes in a review;
    with `shards`, a workflow also works on many recordings. Raises `ConfigurationError` if a file is there and cannot
    be read.
    """
    changes = [
        _lines(
            project / ".gitattributes",
            [*settings.attribute_lines(folder), *(settings.generated_lines(folder) if generated else ())],
        ),
        _lines(project / ".gitignore", settings.ignore_lines(folder)),
    ]
    return [*changes, *_automation(project, root, folder, shards)] if automated else changes


def with_section(path: Path, section: str, head: str = "") -> Change:
    """Put a section between markers into a file for coding agents. All else in it stays unchanged.

    `head` comes before the section if the file is new.
    """
    before = _read(path)
    end = "\r\n" if "\r\n" in before else "\n"
    ours = f"{_BEGIN}\n{section.strip()}\n{_END}".replace("\n", end)
    first, begin, rest = before.partition(_BEGIN)
    _, closed, last = rest.partition(_END)
    if begin and not closed:
        return Change(str(path), "left", ours)
    if begin:
        after = first + ours + last
    else:
        after = f"{before.rstrip()}{end}{end}{ours}{end}" if before.strip() else f"{head}{ours}{end}"
    return Change(str(path), _state(before, after), after)


def write_files(changes: Sequence[Change]) -> None:
    """Write the files that change, each whole or not at all. Raises `ConfigurationError` if one cannot be written."""
    for change in changes:
        if change.state in {"written", "extended"}:
            path = Path(change.what)
            try:
                replace_file(real_path(path), change.text.encode())
            except CassetteWriteError as error:
                raise ConfigurationError(f"{path}: {error.problem}") from None


def set_clone_settings(root: Path) -> list[Change]:
    """Set what a clone needs; return what became of each setting. Raises `ConfigurationError` if git refuses."""
    changes = []
    for name, value in settings.clone_settings().items():
        before = settings.setting(root, name)
        if before != value and not settings.put_setting(root, name, value):
            raise ConfigurationError(f"git does not set {name}\n  check that you may write to {root / '.git'}")
        changes.append(Change(f"git config {name}", "unchanged" if before == value else "written", value))
    return changes


def folder_name(cassette_dir: str) -> str:
    """Return the name of folders with cassettes. Raises `ConfigurationError` if git's patterns could not name it."""
    name = PurePath(cassette_dir).name
    if "://" in cassette_dir or not _FOLDER.fullmatch(name):
        raise ConfigurationError(
            f"cassette_dir = {cassette_dir!r}: git can look after cassettes in a folder whose name is made of letters, "
            "digits, `.`, `-` and `_`\n  name such a folder in [tool.agenttape]"
        )
    return name


def _automation(project: Path, root: Path, folder: str, shards: int) -> Iterator[Change]:
    where, install = project.resolve().relative_to(root.resolve()), install_steps(project)
    github, checks = root / WORKFLOW_PATH, root / HOOKS_PATH
    there, text = _read(github), workflow(install, folder, where)
    state: State = "unchanged" if is_ours(there, folder, where) else "left" if there else "written"
    yield Change(str(github), state, text)
    if shards:
        fleet, text = root / FLEET_PATH, fleet_workflow(install, folder, where, shards)
        before = _read(fleet)
        yield Change(str(fleet), "left" if before not in {"", text} else _state(before, text), text)
    before, entry = _read(checks), hooks(folder)
    after = with_hooks(before, entry)
    yield Change(str(checks), "left", entry) if after is None else Change(str(checks), _state(before, after), after)


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
        return path.read_bytes().decode()  # with its line ends
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path}: it cannot be read: {error}") from None
