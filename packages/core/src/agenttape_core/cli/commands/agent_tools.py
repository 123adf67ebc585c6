"""The tools that `agenttape mcp` offers to coding agents: the command of each call, and its answer."""

from __future__ import annotations

import asyncio
import inspect
import io
import json
import os
import re
import shlex
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import click
from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from agenttape_core.cli.app import EXPERIMENTS, FINDINGS, OK, USAGE, run
from agenttape_core.cli.cassettes import found_in
from agenttape_core.cli.hash_seed import command_line
from agenttape_core.cli.output import printable
from agenttape_core.cli.running import NO_TESTS
from agenttape_core.errors import AgentTapeError, ConfigurationError
from agenttape_core.locks import Lock, cached_property
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.storage import pending_path
from agenttape_core.tools.hash_seeds import seed_of_tests, with_seed
from agenttape_core.tools.review import pending_in
from agenttape_core.tools.update import Plan, summary_of

_LONGEST = 20_000  # the most characters of an answer's text
_MOST_DATA = 60_000  # the most characters of its data, as JSON
_PATIENCE_S = 10.0  # the time that an interrupted command gets to end its recording, in seconds
_MISSES = Path(".pytest_cache/v/agenttape/misses")  # where the plugin keeps the misses of the last run
_OPTION = re.compile(r"[a-z][a-z-]*")
_USAGE = re.compile(r"^Usage: .*?^Error: ", re.DOTALL | re.MULTILINE)  # the lines of help before an error
_NOT_OPTIONS = frozenset(
    {"app", "asgi", "cassette", "help", "json", "max-usd", "oracle", "output", "report", "resume", "run"}
)
_PATH_OPTIONS = frozenset({"checks", "source"})
_CALLING = frozenset({"flaky", "model"})  # the experiments that call tools or models for real without another option
_NEXT = "\n\nTo record only what changed, with these tools: plan_update, then update"
_MARKED = "-m cassette"  # what makes pytest run only tests with the marker
_UNMARKED = "no test here has the marker cassette; with unmarked=true, others run too, and what isn't recorded is real"
_PRINTING = Lock()  # held while standard output is caught


class Command(NamedTuple):
    """The command that is the same as a tool call."""

    words: tuple[str, ...]
    # The source of the answer's data: none, `--json`, `--json` alone because it must run once, or a report file.
    data: Literal["", "too", "only", "report"] = ""
    executes: bool = False  # it runs programs of the project, so it gets its own process
    fails_from: int = USAGE  # the first exit code that is an error
    only_marked: bool = False  # of the tests, only those with the marker `cassette` run

    def __str__(self) -> str:
        line = shlex.join(self.words if self.words[0] == "pytest" else ("agenttape", *self.words))
        return f"PYTEST_ADDOPTS='{_MARKED}' {line}" if self.only_marked else line

    @property
    def environment(self) -> dict[str, str]:
        """The environment of its process."""
        given = os.environ.get("PYTEST_ADDOPTS", "")
        return {**os.environ, "PYTEST_ADDOPTS": f"{given} {_MARKED}".strip()} if self.only_marked else {**os.environ}


class Answer(NamedTuple):
    """The answer to a tool call."""

    text: str
    data: dict[str, Any] | None = None
    is_error: bool = False


class _Ended(NamedTuple):
    """The end of a command."""

    code: int
    out: str
    err: str


class Project:
    """The project that the tools work in: its folder, out of which no path may lead."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()

    def path(self, given: str) -> str:
        """Return a path inside the project. Raises `ConfigurationError` if it leads elsewhere, or isn't a path."""
        if not given or given.startswith("-") or "://" in given or "\0" in given:
            raise ConfigurationError(f"{given!r} isn't a path in this project")
        try:
            is_inside = (self.folder / given).resolve().is_relative_to(self.folder)
        except (OSError, RuntimeError) as error:  # a name that is too long, or links in a circle
            raise ConfigurationError(f"{given!r} can't be resolved: {error}") from None
        if not is_inside:
            raise ConfigurationError(
                f"{given} leads out of the project\n  to work there, start another server: agenttape mcp FOLDER"
            )
        return given

    def cassettes(self, paths: Sequence[str]) -> tuple[str, ...]:
        """Return paths of cassettes and folders. Raises as `path` does, even for a file that one of them holds."""
        for found in found_in([self.path(path) for path in paths]):
            if found.path is not None:
                assets = found.path.with_name(f"{found.path.name}.assets")
                for each in (found.path, assets, *(assets.iterdir() if assets.is_dir() else ())):
                    self.path(str(each))
        return tuple(paths)

    def waiting(self, keys: Sequence[str]) -> tuple[str, ...]:
        """Return keys of calls that wait for review, or paths that hold some. Raises as `path` does."""
        paths = [self.path(key.partition("::")[0]) for key in keys]
        for cassette in pending_in([path for path in paths if Path(path).exists()]):
            for each in (cassette, pending_path(cassette)):
                self.path(str(each))
        return tuple(keys)

    def tests(self, given: Sequence[str]) -> tuple[str, ...]:
        """Return files, folders or ids of tests. Raises `ConfigurationError` for anything else that could run."""
        for test in given:
            self._file(test, test.partition("::")[0])
        return tuple(given)

    def target(self, given: str) -> str:
        """Return a test, or a function of a file. Raises `ConfigurationError` for anything else that could run."""
        self._file(given, given.partition(":")[0])
        return given

    def _file(self, given: str, file: str) -> None:
        if not (self.folder / self.path(file)).exists():
            raise ConfigurationError(f"{given}: there is no file or folder {file} in this project")

    def misses(self) -> dict[str, Any]:
        """Return the misses of the last test run by their tests. Raises `ConfigurationError` without a run."""
        try:
            found: Any = json.loads((self.folder / self.path(str(_MISSES))).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            raise ConfigurationError(
                "no test run with cassettes is remembered here\n  name a test to replay it: explain(test=...)"
            ) from None
        return found if isinstance(found, dict) else {}


Paths = Annotated[list[str], Field(description="Cassettes, their names, or folders; by default the whole project.")]
Tests = Annotated[list[str], Field(min_length=1, description="Files, folders or ids of tests.")]
Unmarked = Annotated[
    bool, Field(description="Run tests without the marker `cassette` too: what they don't record or replay is real.")
]
Keys = Annotated[
    list[str], Field(min_length=1, description="Keys from `review`; a cassette or a folder means all that waits there.")
]


def ls(project: Project, paths: Paths = []) -> Command:  # noqa: B006 - it becomes a schema
    """List recorded runs with their age, calls, tokens and cost.

    The same as `agenttape ls`.
    """
    return Command(("ls", *project.cassettes(paths)), "too")


def show(
    project: Project,
    recording: Annotated[str, Field(description="A cassette, or its name.")],
    call: Annotated[int | None, Field(description="Show only this call, in full.")] = None,
) -> Command:
    """Show a recorded run as a tree of its calls, or one call in full. Secrets are pseudonyms, as recorded.

    The same as `agenttape show`.
    """
    one = () if call is None else ("--call", str(call))
    return Command(("show", *project.cassettes([recording]), *one))


def diff(
    project: Project,
    paths: Paths = [],  # noqa: B006 - likewise
    base: Annotated[str | None, Field(pattern="^[^-]", description="A git revision to compare with.")] = None,
) -> Command:
    """Compare two recordings or folders, or the recordings here and in a git revision, by default HEAD.

    The same as `agenttape diff`.
    """
    for path in paths:  # one of them may be gone since
        project.cassettes([path]) if Path(path).exists() else project.path(path)
    revision = () if base is None else ("--base", base)
    return Command(("diff", *revision, *paths), "too")


def explain(
    project: Project,
    test: Annotated[str | None, Field(description="A test to replay offline first.")] = None,
    unmarked: Unmarked = False,
) -> Command:
    """Explain why calls had no recording: the nearest recording, the words that differ, and the remedies.

    Without `test`, explains the misses of the last test run, and executes no test. With it, replays a test with the
    marker `cassette`, which makes no connection. The same as `pytest TEST --cassette-mode=replay`.
    """
    if test is None:
        return Command(("pytest", "--cassette-mode=replay"), fails_from=FINDINGS)
    words = ("pytest", *project.tests([test]), "--cassette-mode=replay")
    return Command(words, executes=True, only_marked=not unmarked)


def plan_update(project: Project, tests: Tests, unmarked: Unmarked = False) -> Command:
    """Replay tests offline after an edit, and show which calls would be recorded again and their cost.

    Runs tests with the marker `cassette`, which make no connection. The same as `agenttape update --dry-run`.
    """
    words = ("update", "--dry-run", *project.tests(tests))
    return Command(words, "only", executes=True, only_marked=not unmarked)


def update(
    project: Project,
    tests: Tests,
    max_usd: Annotated[
        float, Field(ge=0, allow_inf_nan=False, description="The most that calls of models may cost, in US dollars.")
    ],
    review: Annotated[bool, Field(description="Let the new recordings wait for `review`.")] = True,
) -> Command:
    """Record only calls that changed or are new, and what depends on them. Executes their models and tools for real.

    Executes no call if it may cost more than `max_usd`. The same as `agenttape update --yes --max-usd`.
    """
    waits = ("--review",) if review else ()
    words = ("update", "--yes", _limit(max_usd), *waits, *project.tests(tests))
    return Command(words, "only", executes=True, fails_from=FINDINGS)


def _limit(max_usd: float) -> str:
    return f"--max-usd={max_usd:.12g}"  # not fewer digits, which could round it up


def review(project: Project, paths: Paths = []) -> Command:  # noqa: B006 - likewise
    """List new recordings that wait for review: each changed call with its key, before and after.

    The same as `agenttape review list`.
    """
    return Command(("review", "list", *project.waiting(paths)), "too")


def accept(project: Project, keys: Keys) -> Command:
    """Let calls of a new recording replace the recorded ones, together with those that depend on them.

    The same as `agenttape review accept`.
    """
    return Command(("review", "accept", *project.waiting(keys)))


def reject(project: Project, keys: Keys) -> Command:
    """Drop calls of a new recording, and keep the recorded ones.

    The same as `agenttape review reject`.
    """
    return Command(("review", "reject", *project.waiting(keys)))


def lab(  # noqa: PLR0917 - the tool's arguments, which come by name
    project: Project,
    experiment: Annotated[
        Literal[tuple(EXPERIMENTS)],  # type: ignore[valid-type] # mypy wants them spelled out
        Field(description=" ".join(f"{name}: {summary}" for name, summary in EXPERIMENTS.items())),
    ],
    target: Annotated[str, Field(description="A test, a file of tests, or path/to/file.py:function.")],
    cassette: Annotated[str | None, Field(description="The recording of a function.")] = None,
    model: Annotated[
        str | None, Field(pattern="^[^-,][^,]*$", description="The model to try, such as openai:gpt-5-mini.")
    ] = None,
    options: Annotated[
        dict[str, str | int | float | bool],
        Field(description="More options of the command without their dashes, such as kinds or runs."),
    ] = {},  # noqa: B006 - likewise
    max_usd: Annotated[
        float | None,
        Field(ge=0, allow_inf_nan=False, description="Execute calls of tools and models, which may cost so much."),
    ] = None,
    run: Annotated[bool, Field(description="Run it; without this, only the command is shown.")] = False,
) -> Command:
    """Replay a program again and again with something varied: faults, orders, mutants, other models and more.

    Runs only with `run`, and calls models and tools only with `max_usd`. The same as `agenttape lab`.
    """
    without = {*_NOT_OPTIONS, "live"} if experiment == "mutants" else _NOT_OPTIONS  # it has no limit
    if wrong := [name for name in options if not _OPTION.fullmatch(name) or name in without]:
        raise ConfigurationError(f"{wrong[0]!r} isn't an option for this tool; see: agenttape lab {experiment} --help")
    for name in _PATH_OPTIONS & options.keys():
        project.path(str(options[name]))
    if "=" in str(options.get("live", "")):
        raise ConfigurationError(f"live: {options['live']} isn't the kind, name or node of a call")
    if (model is None) is (experiment == "model"):
        raise ConfigurationError("the experiment model tries a model, and no other one does: lab(model=...)")
    calls = "live" in options or (experiment in _CALLING and options.get("dry-run") is not True)
    if run and calls and max_usd is None:
        raise ConfigurationError(
            f"agenttape lab {experiment} would call tools or models for real\n"
            "  allow that with a limit, such as max_usd=0.5; with 0, models aren't called"
        )
    words = [] if model is None else [model]
    words.append(project.target(target))
    words += [
        f"--{name}" if value is True else f"--{name}={value}" for name, value in options.items() if value is not False
    ]
    words += [] if max_usd is None else [_limit(max_usd)]
    words += [] if cassette is None else [f"--{'run' if model else 'cassette'}={project.path(cassette)}"]
    return Command(("lab", experiment, *words), "report", executes=run)


@dataclass(frozen=True)
class Tool:
    """A tool: a function that makes a command of its arguments, and facts that a client may rely on."""

    make: Callable[..., Command]
    reads: bool = False  # it changes nothing, and runs no program
    destroys: bool = False  # it may replace a recording, or execute a tool that destroys something
    reaches_out: bool = False  # it may run code for real that reaches beyond the project

    @property
    def name(self) -> str:
        """Its name."""
        return self.make.__name__

    @cached_property
    def parameters(self) -> type[BaseModel]:
        """The model of its arguments."""
        hints = get_type_hints(self.make, include_extras=True)
        given = list(inspect.signature(self.make).parameters.values())[1:]
        fields: dict[str, Any] = {
            one.name: (hints[one.name], ... if one.default is one.empty else one.default) for one in given
        }
        return create_model(self.name, __config__=ConfigDict(extra="forbid"), **fields)

    def plain(self) -> dict[str, Any]:
        """Return it as the protocol describes it."""
        return {
            "name": self.name,
            "description": inspect.cleandoc(self.make.__doc__ or ""),
            "inputSchema": self.parameters.model_json_schema(),
            "annotations": {
                "readOnlyHint": self.reads,
                "destructiveHint": self.destroys,
                "openWorldHint": self.reaches_out,
            },
        }

    def command(self, project: Project, arguments: Mapping[str, Any]) -> Command:
        """Return the command of a call. Raises `ConfigurationError` for wrong arguments, as the checks of paths do."""
        try:
            given = self.parameters.model_validate(arguments)
        except ValidationError as error:
            wrong = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()]
            takes = ", ".join(self.parameters.model_fields)
            raise ConfigurationError("\n  ".join([f"{self.name} takes {takes}", *wrong])) from None
        return self.make(project, **{name: getattr(given, name) for name in self.parameters.model_fields})


_ALL = (
    Tool(ls, reads=True),
    Tool(show, reads=True),
    Tool(diff, reads=True),
    # With `unmarked`. A guard around whole tests would fail those that pass in the project: with a local database, for
    # example. And it couldn't hold files and commands back.
    Tool(explain, reaches_out=True),
    Tool(plan_update, reaches_out=True),
    Tool(update, destroys=True, reaches_out=True),
    Tool(review, reads=True),
    Tool(accept, destroys=True),
    Tool(reject, destroys=True),
    Tool(lab, destroys=True, reaches_out=True),
)
TOOLS: Mapping[str, Tool] = {tool.name: tool for tool in _ALL}


class Running:
    """The tool calls of a client, and the programs that they run."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._endings: set[asyncio.Task[None]] = set()

    async def answer(self, name: str, arguments: Mapping[str, Any]) -> Answer:
        """Answer a call, even if it or a cassette is wrong: then the answer is the error."""
        tool = TOOLS.get(name)
        if tool is None:
            return Answer(f"there is no tool {name!r}; tools are {', '.join(TOOLS)}", is_error=True)
        try:
            command = await asyncio.to_thread(tool.command, self._project, arguments)
            return await self._answered(name, command)
        except AgentTapeError as error:
            return Answer(printable(str(error)).plain, is_error=True)
        except click.ClickException as error:
            return Answer(printable(error.format_message()).plain, is_error=True)

    async def close(self) -> None:
        """Wait for the programs that were interrupted."""
        if self._endings:
            await asyncio.wait(self._endings)

    async def _answered(self, name: str, command: Command) -> Answer:
        if name == "explain":
            return await self._explained(command)
        if name == "lab" and not command.executes:
            return _bounded(command, "not run: it replays the program many times; call again with run=true", OK, None)
        with tempfile.TemporaryDirectory(prefix="agenttape-") as folder:
            file = Path(folder) / "report.json"
            hidden = {"only": ["--json"], "report": [f"--report={file}"]}.get(command.data, [])
            ended = await self._ended(command, hidden)
            plain = _loaded(file.read_text(encoding="utf-8") if file.exists() else ended.out)
        if command.data == "too" and ended.code == OK:
            plain = _loaded((await self._ended(command, ["--json"])).out)
        text = _of_update(plain) if command.data == "only" and isinstance(plain, dict) else ended.out
        said = "\n".join(filter(None, (text.rstrip(), _USAGE.sub("", ended.err).rstrip())))
        if command.only_marked and "pytest found no tests" in said:
            said = _UNMARKED
        return _bounded(command, said, ended.code, plain if command.data else None)

    async def _explained(self, command: Command) -> Answer:
        code, out, file = FINDINGS, "", self._project.folder / self._project.path(str(_MISSES))
        if command.executes:
            file.unlink(missing_ok=True)  # tests without a cassette would leave those of an earlier run
            cache = f"cache_dir={self._project.folder / _MISSES.parts[0]}"
            ended = await self._ended(command, ["-q", "-o", cache])
            code, out = ended.code, ended.out
            if code not in {OK, FINDINGS}:
                is_none_marked = code == NO_TESTS and command.only_marked
                said = _UNMARKED if is_none_marked else f"{ended.out}\n{ended.err}".strip()
                return _bounded(command, said, code, None)
        misses = self._project.misses() if not command.executes or file.exists() else {}
        if not misses:
            why = (
                f"it fails, and pytest has kept no miss of a recording:\n\n{out}"
                if code
                else "no call missed its recording"
            )
            return _bounded(command, why if command.executes else "the last test run had no miss", OK, {"misses": {}})
        text = "\n\n".join(f"{test}\n{miss['message']}" for test, miss in misses.items()) + _NEXT
        return _bounded(command, text, OK, {"misses": misses})

    async def _ended(self, command: Command, hidden: Sequence[str]) -> _Ended:
        words = [*command.words, *hidden]
        if not command.executes:
            return await asyncio.to_thread(_printed, words)
        environment, line = command.environment, command_line(words)
        if words[0] == "pytest":
            line = [sys.executable, "-m", *words]
            tests = [word for word in words[1:] if not word.startswith("-")]
            environment |= with_seed(seed_of_tests(tests))
        return await self._executed(line, environment)

    async def _executed(self, line: Sequence[str], environment: Mapping[str, str]) -> _Ended:
        """Run a command in its own process group, which is interrupted if the client cancels the call or leaves."""
        pipe, none = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
        process = await asyncio.create_subprocess_exec(
            *line,
            stdin=none,
            stdout=pipe,
            stderr=pipe,
            env=environment,
            process_group=0 if os.name == "posix" else None,
        )
        try:
            out, err = await process.communicate()
        except asyncio.CancelledError:
            # In a separate task: the one that was cancelled can't wait for anything.
            ending = asyncio.get_running_loop().create_task(_interrupted(process))
            self._endings.add(ending)
            ending.add_done_callback(self._endings.discard)
            raise
        return _Ended(process.returncode or OK, out.decode(errors="replace"), err.decode(errors="replace"))


async def _interrupted(process: asyncio.subprocess.Process) -> None:
    """Interrupt a command as Ctrl-C does, so that it leaves its recordings whole, and kill it if it doesn't end."""
    with suppress(ProcessLookupError):
        _send(process, signal.SIGINT)
        try:
            await asyncio.wait_for(process.wait(), _PATIENCE_S)
        except TimeoutError:
            _send(process, getattr(signal, "SIGKILL", signal.SIGTERM))
            await process.wait()


def _send(process: asyncio.subprocess.Process, number: int) -> None:
    if os.name == "posix":
        os.killpg(process.pid, number)
    else:
        process.terminate()


def _printed(words: Sequence[str]) -> _Ended:
    """Run a command of ours in this process, and catch its output."""
    out, err = io.StringIO(), io.StringIO()
    with _PRINTING, redirect_stdout(out), redirect_stderr(err):
        code = run(words)
    return _Ended(code, out.getvalue(), err.getvalue())


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _of_update(plain: Mapping[str, Any]) -> str:
    """Return the plans of an update as the command shows them, and whether it was carried out."""
    plans = [Plan.from_dict(one) for one in plain["plans"].values()]
    lines = [line for plan in plans if not plan.is_clean for line in plan.lines()]
    waits = any(pending_path(Path(plan.path)).exists() for plan in plans)
    done = ["updated; the new recording waits: review" if waits else "updated"] if plain["updated"] else []
    return "\n".join([*lines, summary_of(plans), *done])


def _bounded(command: Command, text: str, code: int, plain: Any) -> Answer:
    """Return an answer that isn't longer than a model wants to read."""
    if len(text) > _LONGEST:
        text = f"{text[:_LONGEST]}\n… and {len(text) - _LONGEST:,} more characters: ask for less, or run the command"
    ended = f"\nexit code {code}" if code else ""
    data: dict[str, Any] = {"command": str(command), "exit_code": code}
    if plain is not None and len(json.dumps(plain)) <= _MOST_DATA:
        data["result"] = plain
    return Answer(f"command: {command}\n{text}{ended}", data, is_error=code >= command.fails_from)
