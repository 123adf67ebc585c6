"""`init`, and what git then does with cassettes: real repositories, differences, merges and checkouts."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path, PurePath
from typing import Any

import pytest
import yaml

from agenttape_core import convert, open_cassette, use_cassette
from agenttape_core.cli.app import run
from agenttape_core.errors import CassetteFormatError
from agenttape_core.schema import Header, Volatile
from agenttape_core.storage import write_cassette
from agenttape_core.tools.git.driver import diffable
from agenttape_core.tools.git.settings import are_local, steps_from
from agenttape_core.tools.git.setup import fleet_workflow, hooks, install_steps, steps_for, with_hooks, workflow

from ...kit import forks
from .conftest import answer, look_up

pytestmark = pytest.mark.process

ROOT = Path(__file__).resolve().parents[3]
RUN = "cassettes/run.yaml"


class Repository:
    """A folder in git."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def git(self, *words: object, fails: bool = False) -> str:
        """Run git, and return what it printed."""
        done = subprocess.run(["git", *map(str, words)], cwd=self.folder, capture_output=True, text=True, check=False)
        assert (done.returncode != 0) is fails, done.stdout + done.stderr
        return done.stdout + done.stderr

    def commit(self, message: str = "Change") -> None:
        """Commit everything."""
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)


@pytest.fixture(autouse=True)
def _no_git_settings_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let git know nobody but the author of these commits."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    for name in ("GLOBAL", "SYSTEM"):
        monkeypatch.setenv(f"GIT_CONFIG_{name}", os.devnull)
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "a")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "a@example.test")


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """A repository that was set up, in which tests work."""
    monkeypatch.chdir(tmp_path)
    made = Repository(tmp_path)
    made.git("init", "-q", "-b", "main")
    assert run(["init"]) == 0
    return made


def record(*cities: str, question: str = "Rain?", mode: str = "all", path: str = RUN) -> None:
    """Record a question and what is looked up."""
    with use_cassette(path, mode=mode, on_unused="ignore"):  # type: ignore[arg-type] # one of the modes
        answer("gpt-5", question)
        for city in cities:
            look_up(city)


def requests() -> list[Any]:
    """Return what the cassette holds, asked for."""
    return [item.request.get("arguments", item.request.get("messages")) for item in open_cassette(RUN).interactions()]


def asked(city: str) -> dict[str, str]:
    """Return the arguments of a call of the tool."""
    return {"city": city}


def forked(repository: Repository, ours: Any, theirs: Any) -> None:
    """Commit, then let two branches change what there is, and stay on ours."""
    repository.commit()
    repository.git("checkout", "-q", "-b", "theirs")
    theirs()
    repository.commit()
    repository.git("checkout", "-q", "main")
    ours()
    repository.commit()


def test_a_second_run_changes_nothing(repository: Repository, command: Any) -> None:
    """What `init` wrote it leaves as it is, also where a workflow of ours now installs in another way."""
    assert run(["init", "--ci"]) == 0
    workflow = Path(".github/workflows/agenttape.yml")
    workflow.write_text(workflow.read_text().replace("pip install", "uv pip install --system"))
    files = [workflow, *repository.folder.glob(".*")]
    before = {path: path.read_bytes() for path in files if path.is_file()}
    settings = repository.git("config", "--local", "--list")
    ended = command("init", "--ci", "--json")
    assert ended.code == 0
    assert {change["state"] for change in ended.json["changes"]} == {"unchanged"}
    assert {path: path.read_bytes() for path in before} == before
    assert repository.git("config", "--local", "--list") == settings


def test_marked_as_generated(command: Any, folder: Path) -> None:
    """Cassettes are marked as generated if that is wanted, for forges that fold such files, and then stay so."""
    assert command("init").code == 0
    assert "linguist" not in (folder / ".gitattributes").read_text()
    for options in (("--generated",), ()):
        assert command("init", *options).code == 0
        assert (folder / ".gitattributes").read_text().count("**/cassettes/** linguist-generated\n") == 1


def test_what_is_there_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Any) -> None:
    """Files that a project has already are extended behind what they hold, and never twice."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".gitattributes").write_text("*.png binary\n**/*.assets/** binary")
    (tmp_path / ".gitignore").write_text("build/\n")
    told = {Path(change["what"]).name: change["state"] for change in command("init", "--json").json["changes"]}
    assert told == {".gitattributes": "extended", ".gitignore": "extended"}
    lines = (tmp_path / ".gitattributes").read_text().splitlines()
    assert lines[:2] == ["*.png binary", "**/*.assets/** binary"]
    assert lines.count("**/*.assets/** binary") == 1
    assert (tmp_path / ".gitignore").read_text().startswith("build/\n\n#")


def test_coding_agents(folder: Path, command: Any) -> None:
    """`--agents` writes a skill and a section of AGENTS.md; a second run updates these alone, byte for byte.

    If the second marker is gone, the file stays as it is, and the lines are printed.
    """
    skill, agents = folder / ".claude/skills/agenttape/SKILL.md", folder / "AGENTS.md"
    agents.write_bytes(b"# Ours\r\n\r\nUse tabs.  \r\n\r\n\r\n")
    states = {Path(one["what"]).name: one["state"] for one in command("init", "--agents", "--json").json["changes"]}
    assert (states["SKILL.md"], states["AGENTS.md"]) == ("written", "extended")
    front = yaml.safe_load(skill.read_text().split("---")[1])
    assert front["name"] == "agenttape"
    assert len(front["description"]) <= 1024
    assert len(skill.read_text().splitlines()) <= 60
    written = agents.read_bytes()
    assert written.startswith(b"# Ours\r\n\r\nUse tabs.")
    assert written.count(b"\n") == written.count(b"\r\n")

    own = b"\xef\xbb\xbf# Ours\r\n" + written.replace(b"Never edit", b"Always edit") + b"\r\nThe end"
    agents.write_bytes(own)
    assert {Path(one["what"]).name: one["state"] for one in command("init", "--agents", "--json").json["changes"]} == {
        **dict.fromkeys(states, "unchanged"),
        "AGENTS.md": "extended",
    }
    assert agents.read_bytes() == own.replace(b"Always edit", b"Never edit")
    before = agents.read_bytes()
    assert command("init", "--agents").code == 0
    assert agents.read_bytes() == before

    agents.write_text(cut := "# Ours\n<!-- agenttape: begin -->\nmine\n")
    ended = command("init", "--agents")
    assert (ended.code, "AGENTS.md: kept as it is; add these lines" in ended.out) == (1, True)
    assert agents.read_text() == cut


def test_files_stay_links_and_whole(folder: Path, command: Any) -> None:
    """A link stays one, and a file that can't be replaced keeps its text."""
    (folder / "CLAUDE.md").write_text("# Ours\n")
    (folder / "AGENTS.md").symlink_to("CLAUDE.md")
    assert command("init", "--agents").code == 0
    assert (folder / "AGENTS.md").is_symlink()
    assert "agenttape update --dry-run" in (folder / "CLAUDE.md").read_text()
    assert not list(folder.glob(".*.tmp"))
    (folder / ".claude").rename(folder / "moved")
    (folder / ".claude").write_text("a file")
    ended = command("init", "--agents")
    assert (ended.code, ".claude" in ended.err) == (2, True)


def test_outside_of_a_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Any) -> None:
    """Without a repository, or without git, the files are written and the command says what is missing."""
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    for path in (os.environ["PATH"], str(tmp_path)):
        monkeypatch.setenv("PATH", path)
        ended = command("init")
        assert ended.code == 0
        assert "git init" in ended.out
    assert (tmp_path / ".gitattributes").exists()


def test_the_folder_of_the_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Any) -> None:
    """The name of the folder is that of the settings; one that git's patterns cannot name is an error."""
    monkeypatch.setenv("AGENTTAPE_CASSETTE_DIR", "tests/tapes")
    assert command("init").code == 0
    assert "**/tapes/**/*.yaml " in (tmp_path / ".gitattributes").read_text()
    for odd in ("ta pes", "s3://bucket/tapes", "[tapes]"):
        monkeypatch.setenv("AGENTTAPE_CASSETTE_DIR", odd)
        assert command("init").code == 2


def test_a_file_that_cannot_be_read(tmp_path: Path, command: Any) -> None:
    """A file that is no text is an error that names it, and nothing is written."""
    Path("requirements").write_text("no folder")
    for name in (".gitignore", "requirements.txt", "setup.py"):
        Path(name).write_bytes(b"\xff\xfe")
        ended = command("init", "--ci")
        assert (ended.code, name in ended.err) == (2, True)
        Path(name).unlink()
    assert not (tmp_path / ".github").exists()


def test_what_a_recording_leaves_is_ignored(repository: Repository) -> None:
    """Locks, journals, and derived, recovered and unfinished cassettes are not committed; cassettes and assets are."""
    kept = ["cassettes/a.yaml", "tests/cassettes/x/a.jsonl.gz", "cassettes/a.yaml.assets/0a.png", "uv.lock", ".a.lock"]
    gone = ["cassettes/.a.yaml.lock", "tests/cassettes/x/.a.yaml.12-0a.journal"]
    gone += [f"cassettes/a.{word}.yaml" for word in ("derived", "recovered", "recovered-2", "part-main-0a1b2c3d")]
    for path in [*kept, *gone]:
        file = repository.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("x")
    repository.commit()
    committed = repository.git("ls-files").splitlines()
    assert set(kept) <= set(committed)
    assert not set(gone) & set(committed)
    attributes = repository.git("check-attr", "text", "diff", "merge", "--", *kept[:3])
    assert "a.yaml: diff: agenttape" in attributes
    assert "a.jsonl.gz: text: unset" in attributes
    assert "0a.png: merge: unset" in attributes


def test_a_difference_is_readable(repository: Repository) -> None:
    """`git diff` shows what was asked and answered, below where it was, and nothing of a run that only was repeated."""
    record("Paris", "Rome")
    repository.commit()
    record("Paris", "Rome")
    assert Path(RUN).name in repository.git("status", "--short")
    assert "@@" not in repository.git("diff")
    record("Lima", "Paris", "Rome", question="Snow?")
    diff = repository.git("diff")
    assert re.search(r"^@@ .* @@ .*look_up", diff, re.MULTILINE)
    assert "\n-  - role: user\n-    content: Rain?" in diff or "\n-    content: Rain?\n+    content: Snow?" in diff
    assert "Lima: sunny" in diff
    for word in ("fingerprint", "interaction:", "created", "timings"):
        assert word not in diff


def test_a_packed_cassette_differs_as_a_plain_one(repository: Repository) -> None:
    """Layout and packing make no difference to a difference, other files differ as ever, and no module here is run."""
    packed, notes = "cassettes/packed.jsonl.gz", Path("cassettes/notes.yaml")
    Path("json.py").write_text("raise SystemExit('a module of the repository was run')\n")
    record("Paris")
    convert(RUN, packed)
    notes.write_text("a: 1\n")
    repository.commit()
    record("Rome")
    convert(RUN, packed, overwrite=True)
    notes.write_text("a: 2\n")
    assert diffable(Path(packed)) == diffable(Path(RUN))
    assert "\n+  value: Rome: sunny" in repository.git("diff", packed).replace('"', "")
    assert "\n-a: 1\n+a: 2\n" in repository.git("diff")


def test_the_text_of_each_kind(recorded: Path) -> None:
    """The words of a cassette of any kind stand in its text, also those that were streamed, and below every record."""
    text = diffable(recorded).decode()
    said = r"answer \d to left" if recorded.stem == "langgraph" else "18 degrees in Paris"  # of two threads at once
    assert re.search(said, text)
    cassette = open_cassette(recorded)
    headings = [f"--- {record.kind} {record.name} {record.address}" for record in cassette.records()]
    assert [line.replace('"', "") for line in text.splitlines() if line.startswith("--- ")] == headings
    assert "timings" not in text


def test_one_side_adds_and_the_other_records_again(repository: Repository) -> None:
    """Records that one side added are kept where the other recorded the rest anew, and the result is replayed."""

    def answer_to(question: str) -> None:
        """Add a question to the cassette."""
        with use_cassette(RUN, mode="new_episodes", on_unused="ignore"):
            answer("gpt-5", "Rain?")
            answer("gpt-5", question)

    record("Paris", "Rome")
    forked(repository, lambda: answer_to("Snow?"), lambda: record("Paris", "Lima"))
    repository.git("merge", "-q", "theirs")
    assert [item for item in requests() if isinstance(item, dict)] == [asked("Paris"), asked("Lima")]
    with use_cassette(RUN):
        answer("gpt-5", "Rain?")
        answer("gpt-5", "Snow?")
        look_up("Paris")
        look_up("Lima")
    numbers = [entry.number for entry in open_cassette(RUN).entries]
    assert numbers == [1, 2, 3, 4]
    assert set(open_cassette(RUN).header.volatile.timings) == set(numbers)


def test_a_merge_of_another_layout(repository: Repository) -> None:
    """Cassettes are merged into the same layout and packing; a packed file with both sides in it is refused."""
    path = "cassettes/run.jsonl.gz"
    record("Paris", path=path)
    forked(repository, lambda: record("Rome", path=path), lambda: record("Paris", question="Snow?", path=path))
    repository.git("merge", "-q", "theirs")
    first, second = open_cassette(path).interactions()
    assert (first.request["messages"][0]["content"], second.request["arguments"]) == ("Snow?", asked("Rome"))
    repository.git("checkout", "-q", "-B", "other", "theirs")
    record("Lima", path=path)
    repository.commit()
    assert "unpacked" in repository.git("merge", "main", fails=True)
    assert b"<<<<<<< ours" in Path(path).read_bytes()
    with pytest.raises(CassetteFormatError):
        open_cassette(path)
    repository.git("checkout", "--theirs", path)
    assert len(open_cassette(path).entries) == 2


def test_both_sides_change_the_same(repository: Repository, capfd: pytest.CaptureFixture[str]) -> None:
    """A true conflict stands in the file with both sides; it is refused until somebody chose, and then it is whole."""
    record("Paris", "Oslo")
    forked(repository, lambda: record("Rome", "Oslo"), lambda: record("Lima", "Oslo"))
    said = repository.git("merge", "theirs", fails=True)
    assert "CONFLICT" in said
    assert "1 of 3 records in conflict" in said
    assert "AGENTTAPE_MODE=record" in said
    text = Path(RUN).read_text()
    with pytest.raises(CassetteFormatError, match="unresolved merge conflict"):
        open_cassette(RUN)
    assert run(["check", "--only", "files", RUN]) == 3
    for city, sides in (("Rome", r"\1"), ("Lima", r"\2")):
        chosen = re.sub(r"<<<<<<< ours\n(.*?)=======\n(.*?)>>>>>>> theirs\n", sides, text, flags=re.DOTALL)
        Path(RUN).write_text(chosen)
        assert requests()[1:] == [asked(city), asked("Oslo")]


def test_a_side_that_cannot_be_read(repository: Repository) -> None:
    """What is no cassette is merged as text, as without the driver."""
    record("Paris")
    notes = repository.folder / "cassettes" / "notes.yaml"
    notes.write_text("".join(f"{number}\n" for number in range(9)))

    def change(old: str, new: str) -> None:
        notes.write_text(notes.read_text().replace(old, new))

    forked(repository, lambda: change("0\n", "ours\n"), lambda: change("8\n", "theirs\n"))
    assert "not merged by record" in repository.git("merge", "theirs")
    assert notes.read_text().split() == ["ours", *"1234567", "theirs"]


def test_without_the_python_that_set_it_up(repository: Repository) -> None:
    """In a clone whose environment is gone, and in one that was not set up, git works as without AgentTape."""
    record("Paris", "Rome")
    forked(repository, lambda: record("Paris", "Rome", question="Snow?"), lambda: record("Paris", "Rome", "Lima"))
    for name in ("diff.agenttape.textconv", "merge.agenttape.driver"):
        value = repository.git("config", name).rstrip("\n")
        assert sys.executable in value
        repository.git("config", name, value.replace(sys.executable, "/nowhere/python"))
    assert "\n+    content: Snow?" in repository.git("diff", "HEAD~1")
    repository.git("merge", "theirs", fails=True)
    assert "<<<<<<<" in Path(RUN).read_text()
    clone = Repository(repository.folder / "clone")
    repository.git("clone", "-q", ".", "clone")
    assert "\n+    content: Snow?" in clone.git("diff", "HEAD~1")


def test_a_checkout_with_other_ends_of_lines(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cassettes and assets are byte for byte the same in a clone that is told to change the ends of lines."""
    record("Paris")
    asset = repository.folder / "cassettes" / "run.yaml.assets" / "0a"
    asset.parent.mkdir()
    asset.write_bytes(b"a\nb\r\nc\n")
    before = Path(RUN).read_bytes()
    repository.commit()
    repository.git("-c", "core.autocrlf=true", "clone", "-q", "-c", "core.autocrlf=true", ".", "clone")
    clone = repository.folder / "clone"
    assert (clone / RUN).read_bytes() == before
    assert (clone / "cassettes" / "run.yaml.assets" / "0a").read_bytes() == b"a\nb\r\nc\n"
    assert b"\r\n" in (clone / ".gitignore").read_bytes()
    monkeypatch.chdir(clone)
    with use_cassette(RUN):
        answer("gpt-5", "Rain?")
        look_up("Paris")


LOCAL = {"agenttape-core": {"url": "file:///src/core", "dir_info": {}}}


def test_ci_writes_what_the_docs_show(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    """The workflow and the hooks are valid, are shown in the docs, and name no registry."""
    monkeypatch.setattr("agenttape_core.tools.git.setup.installed_origins", lambda: LOCAL)
    Path("pyproject.toml").write_text(
        '[project]\nname = "a"\nversion = "1"\ndependencies = ["langchain[openai]"]\n'
        '[dependency-groups]\ndev = ["pytest"]\n'
    )
    assert run(["init", "--ci"]) == 0
    workflow = (repository.folder / ".github/workflows/agenttape.yml").read_text()
    configured = (repository.folder / ".pre-commit-config.yaml").read_text()
    page = (ROOT / "docs" / "git.md").read_text(encoding="utf-8")
    assert f"```yaml\n{workflow}```" in page
    assert f"```yaml\n{configured}```" in page
    steps = yaml.safe_load(workflow)["jobs"]["replay"]["steps"]
    assert [step["run"].split()[:2] for step in steps[2:]] == [
        ["pip", "install"],
        ["pip", "install"],
        ["echo", '"OPENAI_API_KEY=no-key"'],
        ["agenttape", "check"],
        ["pytest", "--cassette-mode=replay"],
        ["agenttape", "diff"],
    ]
    assert steps[0]["with"] == {"persist-credentials": False, "fetch-depth": 0}
    assert steps[-1]["if"] == "${{ !cancelled() && github.event_name == 'pull_request' }}"
    assert "://" not in workflow + configured


def test_a_workflow_in_shards(repository: Repository, command: Any, tmp_path: Path) -> None:
    """With `--shards`, a workflow works on a plan in so many jobs, and another job merges what they have stored."""
    assert command("init", "--ci", "--shards", "3").code == 0
    path = repository.folder / ".github/workflows/agenttape-fleet.yml"
    written = yaml.safe_load(path.read_text())
    work, merge = written["jobs"]["work"], written["jobs"]["merge"]
    assert work["strategy"] == {"fail-fast": False, "matrix": {"shard": [1, 2, 3]}}
    assert (merge["needs"], merge["if"]) == ("work", "${{ !cancelled() }}")
    up, down = (next(s for s in job["steps"] if "artifact" in s.get("uses", "")) for job in (work, merge))
    assert up["with"] == {"name": "results-${{ matrix.shard }}", "path": "results"}
    assert down["with"] == {"pattern": "results-*", "path": "results", "merge-multiple": True}
    assert all(re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40}", s["uses"]) for s in work["steps"] if "uses" in s)
    if (linter := shutil.which("actionlint")) is not None:
        assert subprocess.run([linter, path], check=False).returncode == 0
    assert {each["state"] for each in command("init", "--ci", "--shards", "3", "--json").json["changes"]} == {
        "unchanged"
    }
    assert command("init", "--ci", "--shards", "4").code == 1
    assert command("init", "--shards", "4").code == 2


@pytest.mark.night
def test_the_lines_of_a_workflow_in_shards_run(repository: Repository, tmp_path: Path) -> None:
    """The commands of each job run, and the merged report is about all recordings."""
    for number in range(5):
        record("Paris", path=f"cassettes/{number}.yaml")
    Path("rules.yaml").write_text("checks: 1\nevery:\n- at_most: {calls: 6}\n")
    repository.commit()
    jobs = yaml.safe_load(fleet_workflow([], "cassettes", PurePath(), 2))["jobs"]
    environment = os.environ | {"RUNNER_TEMP": str(tmp_path), "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md")}

    def steps(job: str, shard: int = 0) -> None:
        for line in (step["run"] for step in jobs[job]["steps"] if "run" in step):
            words = line.replace("${{ matrix.shard }}", str(shard))
            assert subprocess.run(words, shell=True, check=False, env=environment).returncode == 0, words

    loaded = (*forks.SESSION, "agenttape_core.cli.app")
    with forks.commands(tmp_path / "commands", loaded, "agenttape") as commands:
        environment["PATH"] = f"{commands}{os.pathsep}{environment['PATH']}"
        for shard in (1, 2):
            steps("work", shard)
        assert len(list(Path("results/results").rglob("*.json"))) == 5
        steps("merge")
    assert "5" in (tmp_path / "summary.md").read_text()


def test_a_workflow_installs_what_is_installed_here() -> None:
    """What came from a repository is installed from there; what came from a folder is on no other machine."""
    git = {"url": "https://example.com/tape.git", "vcs_info": {"vcs": "git", "commit_id": "0a1b"}}
    origins = {
        "agenttape-core": {**git, "subdirectory": "packages/core"},
        "agenttape-langchain": {**git, "subdirectory": "packages/langchain"},
        "agenttape-langgraph": {},
    }
    _, step = steps_from(origins)
    assert step == (
        '- run: pip install "agenttape-core[cli] @ git+https://example.com/tape.git@0a1b#subdirectory=packages/core" '
        '"agenttape-langchain @ git+https://example.com/tape.git@0a1b#subdirectory=packages/langchain"'
    )
    assert list(steps_from({"agenttape-core": {}})) == []
    assert not are_local(origins.values())
    assert are_local([{"url": "file:///x", "dir_info": {}}])
    assert are_local([{"url": "file:///x.whl", "archive_info": {}}])


def test_the_hooks_of_our_repository_are_those_that_init_writes() -> None:
    """`.pre-commit-hooks.yaml` looks at the same files with the same command, but lets pre-commit install it."""
    ours = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    (written,) = yaml.safe_load(hooks("cassettes"))
    same = ("id", "name", "entry", "files", "exclude")
    assert [[hook[key] for key in same] for hook in ours] == [[hook[key] for key in same] for hook in written["hooks"]]
    assert {hook["language"] for hook in ours} == {"python"}


def test_the_hooks_find_what_is_wrong(repository: Repository, capfd: pytest.CaptureFixture[str]) -> None:
    """The hooks, given the files that pre-commit would give them, pass what is good and stop what is not."""
    record("Paris")
    Path("cassettes/a.snapshot.yaml").write_text("value: 1\n")
    Path("docker.yaml").write_text("a: 1\n")
    files = ["docker.yaml", "cassettes/a.snapshot.yaml", RUN]
    (entry,) = yaml.safe_load(hooks("cassettes"))

    def ended() -> list[int]:
        codes = []
        for hook in entry["hooks"]:
            chosen = [f for f in files if re.search(hook["files"], f) and not re.search(hook["exclude"], f)]
            command, *words = hook["entry"].split()
            assert command == "agenttape"
            codes.append(run([*words, *chosen]))
        return codes

    assert ended() == [0]
    assert "1 run, 2 checks: all passed" in capfd.readouterr().out
    key = "sk-proj-" + "a1B2" * 9
    Path(RUN).write_text(Path(RUN).read_text().replace("Rain?", key))
    assert ended() == [1]
    out = capfd.readouterr().out
    assert "edited: " in out
    assert "secret: " in out
    Path(RUN).write_bytes(Path(RUN).read_bytes()[:-4])
    assert ended()[0] == 3


@pytest.mark.parametrize(
    "before",
    [
        "repos: []\n",
        "repos:\n- repo: local\n  hooks: []\n",
        "default_stages: [push]\nrepos:\n  # ours\n  - repo: local\n    hooks:\n      - id: x\n",
        "repos:\n- repo: local\n  hooks: []\nci:\n  skip: [x]\n",
        "- no\n",
        "a: [",
        "repos: 1\n",
        "",
    ],
)
def test_hooks_are_added_where_that_is_safe(before: str) -> None:
    """A configuration gets our hooks behind its own, once; one that we cannot extend so is not touched."""
    entry = hooks("cassettes")
    after = with_hooks(before, entry)
    extendable = before == "" or before.endswith(("hooks: []\n", "- id: x\n"))
    assert (after is not None) is extendable
    if after is not None:
        assert after.startswith(before)
        repos = yaml.safe_load(after)["repos"]
        assert repos[-1] == yaml.safe_load(entry)[0]
        assert with_hooks(after, entry) == after


def test_a_workflow_of_the_projects_own(repository: Repository, command: Any) -> None:
    """Files that cannot be extended are left, and the command says what belongs into them and ends with 1."""
    path = repository.folder / ".github" / "workflows" / "agenttape.yml"
    path.parent.mkdir(parents=True)
    path.write_text("on: push\n")
    (repository.folder / ".pre-commit-config.yaml").write_text("repos: []\n")
    ended = command("init", "--ci")
    assert ended.code == 1
    assert path.read_text() == "on: push\n"
    assert (repository.folder / ".pre-commit-config.yaml").read_text() == "repos: []\n"
    wanted = workflow(install_steps(repository.folder), "cassettes", PurePath())
    for line in [*wanted.splitlines(), *hooks("cassettes").splitlines()]:
        assert line in ended.out


def needs(*dependencies: Any, **more: Any) -> dict[str, Any]:
    """Return the configuration of a project with these dependencies."""
    return {"project": {"name": "a", "version": "1", "dependencies": [*dependencies], **more}}


GROUPS = {
    "dev": ["pytest", {"include-group": "agent"}, {"include-group": "dev"}],
    "agent": ["langgraph", {"include-group": "gone"}],
    "docs": ["llama-index"],
}
OPTIONAL = {"gpu": ["langgraph"], "test": ["pytest<9", "langchain"]}
REQUIREMENTS = {
    "requirements.txt": "# ours\n-r base.txt\nlangchain-openai==1\n",
    "requirements-dev.txt": "agenttape_langchain",
}
POETRY = {"build-system": {}, "tool": {"poetry": {"dependencies": {"langchain": "^1"}}}}
MALFORMED = {"project": {"dependencies": 1, "optional-dependencies": []}, "dependency-groups": {"dev": 1}}
OURS = 'pytest "agenttape-core[cli]"'


@pytest.mark.parametrize(
    ("declared", "files", "installed"),
    [
        ({}, {}, OURS),
        ({}, {"setup.py": ""}, f"-e . {OURS}"),
        ({}, REQUIREMENTS, f"-r requirements.txt -r requirements-dev.txt {OURS}"),
        ({}, {"requirements.txt": "LangChain"}, f"-r requirements.txt agenttape-langchain {OURS}"),
        (needs("LangGraph>=1", "llama_index.core"), {}, f"-e . agenttape-langgraph agenttape-llamaindex {OURS}"),
        (needs("langchainer", "langgraph-sdk"), {}, f"-e . agenttape-langgraph {OURS}"),
        (needs(**{"optional-dependencies": OPTIONAL}), {}, '-e ".[test]" agenttape-langchain "agenttape-core[cli]"'),
        (
            {**needs(), "dependency-groups": GROUPS},
            {},
            '-e . --group dev agenttape-langgraph "agenttape-core[cli]"',
        ),
        (POETRY, {}, f"-e . agenttape-langchain {OURS}"),
        (MALFORMED, {}, f"-e . --group dev {OURS}"),
    ],
)
def test_a_workflow_installs_what_the_project_needs(declared: Any, files: Any, installed: str) -> None:
    """It installs the project, what is for its tests, and the integration of each framework that these name."""
    *before, last = steps_for(declared, files)
    assert last == f"- run: pip install {installed}"
    is_told = any(word in installed for word in ("[test]", "--group", "-dev"))
    assert any("Add what your tests import" in line for line in before) is not is_told
    assert any("upgrade pip" in line for line in before) is ("--group" in installed)
    yaml.safe_load(workflow([*before, last], "cassettes", PurePath()))


@pytest.mark.parametrize(
    ("declared", "recorded", "keys"),
    [
        (["langchain-openai"], [], ["OPENAI_API_KEY"]),
        (["langchain[anthropic, groq]>=1"], [], ["ANTHROPIC_API_KEY", "GROQ_API_KEY"]),
        (["llama-index-llms-google-genai"], [], ["GOOGLE_API_KEY"]),
        ([], ["openai", "mistralai"], ["OPENAI_API_KEY", "MISTRAL_API_KEY"]),
        (["openai"], ["openai"], ["OPENAI_API_KEY"]),
        (["langchain"], ["langchain-core"], []),
    ],
)
def test_a_workflow_gives_clients_keys_of_no_use(
    declared: list[str], recorded: list[str], keys: list[str], repository: Repository
) -> None:
    """Each provider that the requirements or the recordings name has a key of no use, so that its client is made."""
    Path("pyproject.toml").write_text(f'[project]\nname = "a"\nversion = "1"\ndependencies = {json.dumps(declared)}\n')
    packages = dict.fromkeys(recorded, "1")
    write_cassette(Path("cassettes/seen.yaml"), Header(name="seen", volatile=Volatile(packages=packages)), [])
    Path("cassettes/broken.yaml").write_text("agenttape: 1\nname: [\n")
    assert run(["init", "--ci"]) == 0
    text = (repository.folder / ".github" / "workflows" / "agenttape.yml").read_text()
    steps = yaml.safe_load(text)["jobs"]["replay"]["steps"]
    echoed = [line for step in steps for line in step.get("run", "").splitlines() if "GITHUB_ENV" in line]
    assert echoed == [f'echo "{key}=no-key" >> "$GITHUB_ENV"' for key in keys]
    assert [step.get("run") for step in steps][-2] == "pytest --cassette-mode=replay"


def test_what_a_workflow_installs_is_the_projects_own(repository: Repository, command: Any) -> None:
    """A step that installs something else, also because the project has changed, is left; anything else is told of."""
    assert run(["init", "--ci"]) == 0
    path = repository.folder / ".github" / "workflows" / "agenttape.yml"
    path.write_text(path.read_text().replace("pip install", "uv pip install --system"))
    before = path.read_bytes()
    Path("pyproject.toml").write_text('[project]\nname = "a"\nversion = "1"\n')
    assert {change["state"] for change in command("init", "--ci", "--json").json["changes"]} == {"unchanged"}
    assert path.read_bytes() == before
    for ours, theirs in (("agenttape check", "true"), ("branches: [main]", "branches: [trunk]")):
        path.write_bytes(before.replace(ours.encode(), theirs.encode()))
        assert command("init", "--ci").code == 1


def test_a_file_that_cannot_be_written(repository: Repository, command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names the file and the problem, and calls no file of the project a cassette."""

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    ended = command("init", "--agents")
    assert (ended.code, "the cassette" in ended.err) == (2, False)
    assert "SKILL.md: it could not be written: No space left on device" in ended.err


def test_steps_wait_for_a_recording(repository: Repository) -> None:
    """Where nothing is recorded yet, nothing is looked at; the condition looks at the folders of the settings."""
    made = yaml.safe_load(workflow([], "tapes", PurePath("packages/it's")))["jobs"]["replay"]
    conditions = {step["run"]: step["if"] for step in made["steps"] if "if" in step}
    expected = "${{ hashFiles('packages/it''s/**/tapes/**') != '' }}"
    assert conditions == {
        "agenttape check": expected,
        "agenttape diff --github": "${{ !cancelled() && github.event_name == 'pull_request' }}",
    }


def test_a_project_in_a_folder_of_its_repository(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, command: Any
) -> None:
    """Attributes belong to the project, automation to the repository around it."""
    project = repository.folder / "packages" / "agent"
    project.mkdir(parents=True)
    monkeypatch.chdir(project)
    assert command("init", "--ci").code == 0
    assert (project / ".gitattributes").exists()
    assert not (project / ".github").exists()
    written = yaml.safe_load((repository.folder / ".github" / "workflows" / "agenttape.yml").read_text())
    assert written["jobs"]["replay"]["defaults"] == {"run": {"working-directory": "packages/agent"}}


@pytest.mark.process
def test_an_example_project(folder: Path, command: Any, python_of_tests: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The example is red without a recording, green with one, red after an edit, and green once updated."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # the other plugins take longer than the runs
    monkeypatch.setenv("PYTEST_PLUGINS", "agenttape_core.pytest_plugin")
    assert command("init", "--example", "shop").code == 0
    shop = folder / "shop"

    def ended(*options: str) -> int:
        words = [python_of_tests, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
        return subprocess.run(words, cwd=shop, check=False, capture_output=True).returncode

    assert (ended(), ended("--cassette-mode=once"), ended()) == (1, 0, 0)
    agent = shop / "support.py"
    agent.write_text(agent.read_text("utf-8").replace("one sentence", "two sentences"), encoding="utf-8")
    assert (ended(), ended("--rerecord=changed"), ended()) == (1, 0, 0)
    assert command("init", "--example", "shop").code == 2
