"""Record, replay, edit and update an agent of each framework, and write the table of the page: `make frameworks`.

Each agent has one tool, and asks twice, under different instructions. It's recorded with `--http` alone, replayed in
new processes while the service is down, and updated after an edit of the second instructions. Names of agents, given as
arguments, choose among them; the others keep their rows.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.metadata import distributions
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(__file__).parent
RESULTS = FOLDER / "results.json"
PAGE = ROOT / "docs" / "other-frameworks.md"
BEGIN, END = "<!-- written by make frameworks -->\n", "\n<!-- end -->"
LIMIT = 600
"""Seconds for one process: a framework is imported in it."""
EDIT = ("in French", "in German")
TOOL = "def get_weather"


class Framework(NamedTuple):
    """A framework, and how its agent reaches the model."""

    title: str
    package: str  # its distribution
    through: str  # the client and the form of its requests
    environment: str = "frameworks"  # its virtual environment, as other frameworks may need other versions


FRAMEWORKS = {
    "ag2": Framework("AG2", "ag2", "openai, chat completions"),
    "crewai": Framework("CrewAI", "crewai", "openai, chat completions", "crewai"),
    "dspy": Framework("DSPy", "dspy", "LiteLLM, chat completions"),
    "google_adk": Framework("Google ADK", "google-adk", "google-genai, `generateContent`"),
    "haystack": Framework("Haystack", "haystack-ai", "openai, chat completions"),
    "openai_agents": Framework("OpenAI Agents SDK", "openai-agents", "openai, responses"),
    "pydantic_ai": Framework("PydanticAI", "pydantic-ai-slim", "openai, chat completions"),
    "smolagents": Framework("smolagents", "smolagents", "openai, chat completions"),
}


def main(chosen: list[str]) -> bool:
    """Try the frameworks, and write the results and the table; return whether any of them broke."""
    found = {}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        names = chosen or list(FRAMEWORKS)
        for name, result in zip(names, pool.map(tried, names), strict=True):
            print(name, json.dumps(result), flush=True)
            found[name] = result
    written(found)
    return any(result["broken"] for result in found.values())


def written(found: Mapping[str, Mapping[str, Any]]) -> None:
    """Write new results into the file of results, and the table of the page."""
    results = {**(json.loads(RESULTS.read_text()) if RESULTS.exists() else {}), **found}
    RESULTS.write_text(json.dumps(dict(sorted(results.items())), indent=2) + "\n")
    head, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text(f"{head}{BEGIN}{table(results)}{END}{rest.partition(END)[2]}")


def table(results: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the table of the page."""
    lines = [
        "| framework | its calls | with `http = true` | tools | model, tokens, cost, answer |",
        "|---|---|---|---|---|",
    ]
    for name, result in sorted(results.items()):
        framework, broken = FRAMEWORKS[name], result["broken"]
        problems = [f"{step}: {why}" for step, why in broken.items() if step not in {"boundary", "facts"}]
        order = "works; a replay reports the order of its threads" if result["order"] else "works"
        cells = [
            f"{framework.title} {result['version']}",
            framework.through,
            "; ".join(problems) or order,
            broken.get("boundary", "run again, or replayed with `@boundary`"),
            broken.get("facts", "all shown"),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def tried(name: str) -> dict[str, Any]:
    """Record, replay, edit and update the agent of a framework; return its version, and what broke, by the step."""
    framework = FRAMEWORKS[name]
    environment = ROOT / f".venv-{framework.environment}"
    found = distributions(path=[str(next(environment.glob("lib/python*/site-packages")))])
    version = next(each.version for each in found if each.name == framework.package)
    with tempfile.TemporaryDirectory(prefix="agenttape-") as folder:
        steps = _Steps(environment, Path(folder), (FOLDER / "agents" / f"{name}.py").read_text())
        for step in (steps.http, steps.facts, steps.edit, steps.update, steps.boundary):
            try:
                step()
            except _BrokenError as error:
                steps.broken[step.__name__] = str(error)
                if step == steps.http:
                    break
    return {"version": version, "broken": steps.broken, "order": steps.order}


class _BrokenError(Exception):
    """A step didn't do what it must."""


class _Steps:
    def __init__(self, environment: Path, folder: Path, source: str) -> None:
        self.environment, self.folder, self.source, self.port = environment, folder, source, 0
        self.program = folder / "agent.py"
        self.broken: dict[str, str] = {}
        self.calls = 0  # of both questions
        self.order = ""  # what a replay reports of an order that it couldn't impose

    def http(self) -> None:
        """The agent is recorded and, in a new process without the service, replayed."""
        self.program.write_text(self.source)
        _, _, self.order = self.recorded("run", "--http").stderr.partition("the recorded order could not be imposed: ")

    def facts(self) -> None:
        """The cassette's calls have a model, tokens, a price and an answer."""
        from agenttape_core import open_cassette
        from agenttape_core.checks import at_most, check, run_of

        cassette = open_cassette(self.folder / "cassettes" / "run.yaml")
        run = run_of(cassette)
        expect("Sunny in Paris" in f"{run.answer} {run.asked}", f"the answer is {run.answer!r}")
        expect(bool(run.model and run.tokens and run.prompt), f"{run.model}, {run.tokens} tokens, {run.prompt!r}")
        check(cassette, at_most(tokens=100_000, dollars=1))

    def edit(self) -> None:
        """After an edit of the second instructions, the replay misses the third call, and names the edited word."""
        self.program.write_text(self.source.replace(*EDIT))
        done = self.run("replay", "--cassette", "run", code=1)
        shown = any(line.strip().startswith("+") and EDIT[1] in line for line in done.stderr.splitlines())
        expect(shown, f"the edit isn't shown: {done.stderr[-300:]}")

    def update(self) -> None:
        """An update records the calls below the edited instructions, and replays the others."""
        before = self.answers(self.run("replay", "--cassette", "run", code=1))
        with self.service():
            done = self.run("update", "--yes", "--cassette", "run")
        half = self.calls // 2
        expect(
            f": {half} replayed, {half} recorded\n" in done.stderr,
            f"other calls were recorded too: {done.stderr[-300:]}",
        )
        after = self.answers(self.run("replay", "--cassette", "run"))
        expect(before == after[:1] and len(after) == 2, f"{before} became {after}")

    def boundary(self) -> None:
        """With `@boundary`, the tool is recorded, too, and doesn't run in a replay."""
        head = "from agenttape_core import boundary\n"
        self.program.write_text(head + self.source.replace(TOOL, f'@boundary("tool")\n{TOOL}'))
        replayed = self.recorded("tools", "--http")
        expect("looking up" not in replayed.stdout, "its tool ran again")

    def recorded(self, cassette: str, *options: str) -> subprocess.CompletedProcess[str]:
        """Record the program, and replay it without the service; return the replay."""
        with self.service():
            first = self.run("record", *options, "--cassette", cassette)
        again = self.run("replay", "--cassette", cassette)
        (calls,) = re.findall(r"0 replayed, (\d+) recorded", first.stderr)
        self.calls = int(calls)
        expect(f": {calls} replayed, 0 recorded\n" in again.stderr, f"{calls} recorded: {again.stderr[-300:]}")
        expect(self.answers(first) == self.answers(again) != [], f"{self.answers(first)} became {self.answers(again)}")
        return again

    def answers(self, done: subprocess.CompletedProcess[str]) -> list[str]:
        """Return the answers that the program has printed."""
        return [line for line in done.stdout.splitlines() if line.startswith("Sunny in Paris")]

    @contextmanager
    def service(self) -> Iterator[None]:
        """Run the service, each time at the same port."""
        from tests.frameworks.service import ModelService

        with ModelService(self.port) as service:
            self.port = service.server_port
            yield

    def run(self, command: str, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        """Run a command on the program, which must end with a code."""
        url = f"http://127.0.0.1:{self.port}"
        variables = {
            **os.environ,
            "HOME": str(self.folder),
            "PATH": f"{self.environment / 'bin'}:{os.environ['PATH']}",
            "OPENAI_BASE_URL": f"{url}/v1",
            "OPENAI_API_KEY": "any-text",
            "GOOGLE_GEMINI_BASE_URL": url,
            "GOOGLE_API_KEY": "any-text",
            "LITELLM_LOCAL_MODEL_COST_MAP": "true",
            "CREWAI_DISABLE_TELEMETRY": "true",
            "HAYSTACK_TELEMETRY_ENABLED": "False",  # this isn't use of them
            "OPENAI_AGENTS_DISABLE_TRACING": "1",
        }
        words = (str(self.environment / "bin" / "agenttape"), command, *words, "agent.py:main")
        try:
            done = subprocess.run(
                words, cwd=self.folder, env=variables, capture_output=True, text=True, check=False, timeout=LIMIT
            )
        except subprocess.TimeoutExpired:
            raise _BrokenError(f"{command} didn't end") from None
        expect(done.returncode == code, f"{command} ended with {done.returncode}: {done.stderr[-600:]}")
        return done


def expect(is_so: bool, problem: str) -> None:
    """Raise an error unless something is so."""
    if not is_so:
        raise _BrokenError(" ".join(problem.split()))


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main(sys.argv[1:]))
