"""Exports of LangSmith become cassettes that replay at the places of the recorded run.

The exports are made by LangChain's own tracer and LangSmith's own client, which send them to a loopback server.
"""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4

import pytest
from langchain.agents import create_agent
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.retrievers import BaseRetriever
from langchain_core.tools import tool
from langchain_core.tracers.langchain import LangChainTracer, wait_for_all_tracers
from langchain_openai import ChatOpenAI
from langsmith import Client

from agenttape_core import open_cassette, use_cassette
from agenttape_core.cli.app import run as command
from agenttape_core.errors import CassetteFormatError, CassetteMissError, CassetteNotFoundError, ReplayedError
from agenttape_langchain import ReplayChatModel
from agenttape_langchain.importers import import_langsmith

if TYPE_CHECKING:
    from pathlib import Path

    from examples.weather_agent.server import OpenAILoopback

    from .fakes import World


class LangSmith:
    """A server that keeps the runs which a tracer posts, as an export has them."""

    def __init__(self) -> None:
        self.runs: dict[str, dict[str, Any]] = {}
        runs = self.runs

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *_: object) -> None:
                pass

            def do_GET(self) -> None:
                asked = self.path.removeprefix("/runs/")
                if asked == self.path:
                    self._answer(b"{}")
                elif asked in runs:
                    self._answer(json.dumps(runs[asked]).encode())
                else:
                    self._answer(b"{}", 404)

            def do_POST(self) -> None:
                told = self._body()
                if self.path == "/runs/query":
                    below = [run for run in runs.values() if run["trace_id"] == told["trace"] != run["id"]]
                    self._answer(json.dumps({"runs": below, "cursors": {}}).encode())
                    return
                told.pop("attachments", None)  # an answer has its own
                runs[told["id"]] = {"session_id": str(uuid4()), **told}
                self._answer(b"{}")

            def do_PATCH(self) -> None:
                changes = {key: value for key, value in self._body().items() if value is not None}
                runs[self.path.rpartition("/")[2]].update(changes)
                self._answer(b"{}")

            def _body(self) -> dict[str, Any]:
                body: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                return body

            def _answer(self, body: bytes, status: int = 200) -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self.url = url = f"http://127.0.0.1:{self._server.server_port}"
        self.client = Client(api_url=url, api_key="any", auto_batch_tracing=False)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def config(self) -> Any:
        """The config of a traced run."""
        return {"callbacks": [LangChainTracer(client=self.client, project_name="tests")], "tags": ["mine"]}

    def export(self, path: Path) -> Path:
        """Write what was traced so far."""
        wait_for_all_tracers()
        path.write_text(json.dumps(list(self.runs.values())), encoding="utf-8")
        return path


@tool
def get_weather(city: str) -> str:
    """Weather of a city."""
    reached.append(city)
    return f"sunny in {city}"


@tool(response_format="content_and_artifact")
def draw(city: str) -> tuple[str, Any]:
    """Draw a city."""
    return f"a map of {city}", {"pixels": (1, 2)}


reached: list[str] = []


def run(run_id: str = "r1", **fields: Any) -> dict[str, Any]:
    """A run of an export, by hand."""
    return {"id": run_id, "name": "ChatOpenAI", "run_type": "llm", "inputs": {}, "outputs": {}, **fields}


def imported(folder: Path, *runs: Any) -> tuple[Path, Any]:
    """Import runs; returns the cassette and the report."""
    (folder / "runs.json").write_text(json.dumps(list(runs)), encoding="utf-8")
    return folder / "new.yaml", import_langsmith(folder / "runs.json", folder / "new.yaml", overwrite=True)


def test_an_agent_replays_at_its_places(tmp_path: Path, loopback: OpenAILoopback) -> None:
    """A traced agent replays strictly: every call at its address, with the same messages and ids, and nothing runs."""
    model = ChatOpenAI(model="gpt-5-mini", base_url=loopback.base_url, api_key="x")
    agent = create_agent(model, [get_weather])
    question = {"messages": [HumanMessage("Weather in Paris?", id="q1")]}
    with LangSmith() as smith:
        live = agent.invoke(question, config=smith.config)["messages"]
        report = import_langsmith(smith.export(tmp_path / "runs.json"), tmp_path / "new.yaml")
    assert [item.fidelity for item in report.items] == ["exact"] * 3
    calls, done = loopback.calls, len(reached)
    with use_cassette(tmp_path / "new.yaml") as replay:
        replayed = agent.invoke(question)["messages"]
    assert [m.model_dump(exclude={"id"}) for m in replayed] == [m.model_dump(exclude={"id"}) for m in live]
    assert [m.id for m in replayed if isinstance(m, AIMessage)] == [m.id for m in live if isinstance(m, AIMessage)]
    assert {call_record.match_rule for call_record in replay.report.replayed} == {"exact"}
    assert (loopback.calls, len(reached)) == (calls, done)
    assert open_cassette(tmp_path / "new.yaml").interaction(1).tags == []
    assert all(
        timing.duration_ms > 0 for timing in open_cassette(tmp_path / "new.yaml").header.volatile.timings.values()
    )


def test_by_its_id(
    tmp_path: Path, loopback: OpenAILoopback, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The id of a run is enough: LangSmith's client reads it with all below it, also for the command."""
    model = ChatOpenAI(model="gpt-5-mini", base_url=loopback.base_url, api_key="x")
    agent = create_agent(model, [get_weather])
    question = {"messages": [HumanMessage("Weather in Paris?", id="q1")]}
    with LangSmith() as smith:
        answer = agent.invoke(question, config=smith.config)["messages"][-1].text
        wait_for_all_tracers()
        root = next(run["id"] for run in smith.runs.values() if not run.get("parent_run_id"))
        report = import_langsmith(root, tmp_path / "new.yaml", client=smith.client)
        monkeypatch.setenv("LANGSMITH_ENDPOINT", smith.url)
        monkeypatch.setenv("LANGSMITH_API_KEY", "any")
        monkeypatch.chdir(tmp_path)
        code = command(["import", root, "-o", "same.yaml"])
        unknown = str(uuid4())
        with pytest.raises(CassetteNotFoundError, match="no such run"):
            import_langsmith(unknown, tmp_path / "none.yaml", client=smith.client)
    assert [item.fidelity for item in report.items] == ["exact"] * 3
    assert (code, capsys.readouterr().out) == (0, f"{root} -> same.yaml: 3 exact, 0 lossy, 0 missing\n")
    for name in ("new", "same"):
        with use_cassette(tmp_path / f"{name}.yaml"):
            assert agent.invoke(question)["messages"][-1].text == answer
    assert not (tmp_path / "none.yaml").exists()


def test_streams_errors_artifacts_and_documents(tmp_path: Path, loopback: OpenAILoopback) -> None:
    """Documents are exact; streams, errors and artifacts are lossy with their reasons, and replay on request."""

    @tool
    def fail(city: str) -> str:
        """Fail."""
        raise KeyError(city)

    class Pages(BaseRetriever):
        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
            reached.append(query)
            return [Document(f"about {query}", metadata={"page": 1}, id="d1")]

    model = ChatOpenAI(model="gpt-5-mini", base_url=loopback.base_url, api_key="x", max_retries=0)
    call = {"type": "tool_call", "name": "draw", "args": {"city": "Rome"}, "id": "call_1"}
    with LangSmith() as smith:
        text = "".join(chunk.text for chunk in model.stream("Hello", config=smith.config))
        documents = Pages().invoke("cities", config=smith.config)
        picture = draw.invoke(call, config=smith.config)
        with pytest.raises(KeyError):
            fail.invoke({"city": "Oslo"}, config=smith.config)
        loopback.fail_next(429, message="slow down")
        with pytest.raises(Exception, match="slow down") as failed:
            model.invoke("Too fast", config=smith.config)
        report = import_langsmith(smith.export(tmp_path / "runs.json"), tmp_path / "new.yaml")
    assert [item.fidelity for item in report.items] == ["lossy", "exact", "lossy", "lossy", "lossy"]
    reasons = [item.reason for item in report.items]
    assert [
        word in reason
        for word, reason in zip(("chunks", "", "artifact", "attributes", "attributes"), reasons, strict=True)
    ] == [True] * 5
    with use_cassette(tmp_path / "new.yaml", accept={"lossy"}) as replay:
        assert "".join(chunk.text for chunk in model.stream("Hello")) == text
        assert Pages().invoke("cities") == documents
        assert draw.invoke(call).content == picture.content
        with pytest.raises(KeyError):
            fail.invoke({"city": "Oslo"})
        with pytest.raises(Exception, match="slow down") as raised:
            model.invoke("Too fast")
    assert type(raised.value) is type(failed.value)
    assert {call_record.match_rule for call_record in replay.report.replayed} == {"exact"}


def test_a_strict_replay_refuses_what_is_lossy(tmp_path: Path) -> None:
    """By default a replay does not serve a stream whose chunks are lost."""
    told = run(
        inputs={"messages": [[["user", "Hi"]]]},
        outputs={"generations": [[{"message": {"type": "ai", "content": "Hello."}}]]},
        extra={"invocation_params": {"model": "gpt-5-mini"}},
        events=[{"name": "new_token"}],
    )
    cassette, _ = imported(tmp_path, told)
    with pytest.raises(CassetteMissError, match="does not keep the chunks"), use_cassette(cassette, on_unused="ignore"):
        ChatOpenAI(model="gpt-5-mini", api_key="x").invoke("Hi")


def test_observed_structured_output_replays_by_a_stand_in(tmp_path: Path, loopback: OpenAILoopback) -> None:
    """A model made of the cassette answers as the traced one did, without the provider's package."""
    schema = {"title": "Answer", "type": "object", "properties": {"a": {"type": "string"}}}
    model = ChatOpenAI(model="gpt-5-mini", base_url=loopback.base_url, api_key="x")
    with LangSmith() as smith:
        live = model.with_structured_output(schema).invoke("Say it", config=smith.config)
        import_langsmith(smith.export(tmp_path / "runs.json"), tmp_path / "new.yaml")
    assert ReplayChatModel(tmp_path / "new.yaml").with_structured_output(schema).invoke("Say it") == live


AI = {
    "lc": 1,
    "type": "constructor",
    "id": ["langchain", "schema", "messages", "AIMessage"],
    "kwargs": {"content": "Hello."},
}
SAID = {"generations": [[{"message": AI}]]}
ASKED = {"messages": [[{"lc": 1, "type": "constructor", "id": ["x", "HumanMessage"], "kwargs": {"content": "Hi"}}]]}
PARAMS = {"invocation_params": {"model": "gpt-5-mini", "_type": "openai-chat"}}


@pytest.mark.parametrize(
    "messages",
    [
        ASKED["messages"],
        ASKED["messages"][0],
        [[{"type": "human", "data": {"content": "Hi"}}]],
        [{"type": "human", "content": "Hi"}],
        [{"role": "user", "content": "Hi"}],
        [["user", "Hi"]],
    ],
    ids=["batch", "one conversation", "data", "dump", "OpenAI", "pairs"],
)
def test_messages_in_all_forms(tmp_path: Path, messages: Any) -> None:
    """However an export writes a message, the program's question finds its answer."""
    told = run(inputs={"messages": messages}, outputs=SAID, extra=PARAMS)
    cassette, report = imported(tmp_path, told)
    assert [item.fidelity for item in report.items] == ["exact"]
    with use_cassette(cassette):
        assert ChatOpenAI(model="gpt-5-mini", api_key="x").invoke("Hi").text == "Hello."


def test_what_was_recorded_below_langchain_is_lossy(tmp_path: Path) -> None:
    """Runs of LangSmith's wrapper of OpenAI's client give the message, without what LangChain makes of it."""
    told = run(
        inputs={"messages": [{"role": "user", "content": "Hi"}], "model": "gpt-5-mini", "stream": False},
        outputs={"choices": [{"message": {"role": "assistant", "content": "Hello."}}]},
    )
    cassette, report = imported(tmp_path, told)
    assert "below LangChain" in report.lossy[0].reason
    assert "guessed" in report.lossy[0].reason
    with use_cassette(cassette, accept={"lossy"}):
        assert ChatOpenAI(model="gpt-5-mini", api_key="x").invoke("Hi").text == "Hello."


def test_text_models_are_completions(tmp_path: Path) -> None:
    """A run with prompts is a completion."""
    outputs = {"generations": [[{"text": "you", "generation_info": {"finish_reason": "stop"}}]], "llm_output": {}}
    told = run(
        name="OpenAI", inputs={"prompts": ["Hello "]}, outputs=outputs, extra={"invocation_params": {"model": "m"}}
    )
    cassette, report = imported(tmp_path, told)
    assert [item.fidelity for item in report.items] == ["exact"]
    recorded = open_cassette(cassette).interaction(1)
    assert (recorded.kind, recorded.name, recorded.request) == (
        "completion",
        "OpenAI",
        {"model": "m", "prompts": ["Hello "]},
    )


def test_calls_below_a_tool_are_its_children(tmp_path: Path) -> None:
    """A model that a tool calls belongs to the tool: serving the tool uses both."""
    runs = [
        run(
            "t",
            name="ask",
            run_type="tool",
            inputs={"input": "{'city': 'Rome'}"},
            outputs={"output": "ok"},
            dotted_order="1",
        ),
        run("c", run_type="chain", name="inner", parent_run_id="t", dotted_order="1.2"),
        run("m", inputs=ASKED, outputs=SAID, extra=PARAMS, parent_run_id="c", dotted_order="1.2.3"),
    ]
    cassette, _ = imported(tmp_path, *reversed(runs))
    rows = open_cassette(cassette).entries
    assert [(row.address, row.parent) for row in rows] == [("ask", None), ("ask/inner/ChatOpenAI", 1)]

    @tool
    def ask(city: str) -> str:
        """Ask."""
        raise AssertionError(city)

    with use_cassette(cassette):
        assert ask.invoke({"city": "Rome"}) == "ok"


def test_nested_runs_json_lines_and_times(tmp_path: Path) -> None:
    """Runs inside others, JSON lines and a mapping with runs are the same; times without a zone are UTC."""
    child = run(
        "m",
        inputs=ASKED,
        outputs=SAID,
        extra=PARAMS,
        start_time="2026-01-01T00:00:00",
        end_time="2026-01-01T00:00:00.250Z",
    )
    parent = run("p", name="chain", run_type="chain", child_runs=[child], start_time="2026-01-01T00:00:00")
    other = run("o", name="chain", run_type="chain", start_time="nonsense")
    for text in (json.dumps([parent]), json.dumps({"runs": [parent]}), f"{json.dumps(parent)}\n{json.dumps(other)}\n"):
        (tmp_path / "runs.json").write_text(text, encoding="utf-8")
        import_langsmith(tmp_path / "runs.json", tmp_path / "new.yaml", overwrite=True)
        cassette = open_cassette(tmp_path / "new.yaml")
        assert [row.address for row in cassette.entries] == ["chain/ChatOpenAI"]
        assert cassette.header.volatile.timings[1].duration_ms == 250.0


UNWRITTEN = {"lc": 1, "type": "not_implemented", "id": ["x"], "repr": "<X>"}
LOST: dict[str, tuple[dict[str, Any], str]] = {
    "an end": (run(inputs=ASKED, outputs={}), "had not ended"),
    "messages": (run(inputs={}, outputs=SAID, extra=PARAMS), "messages are not in the export"),
    "a known class": (
        run(inputs={"messages": [[{**AI, "id": ["os", "system"]}]]}, outputs=SAID, extra=PARAMS),
        "the unknown class 'system'",
    ),
    "a known type": (run(inputs={"messages": [[{"type": "alien"}]]}, outputs=SAID), "unknown type 'alien'"),
    "a form": (run(inputs={"messages": [[7]]}, outputs=SAID), "neither a mapping nor a pair"),
    "valid fields": (
        run(inputs={"messages": [[{**AI, "kwargs": {"content": 7}}]]}, outputs=SAID),
        "a message is malformed",
    ),
    "an answer": (run(inputs=ASKED, outputs={"generations": [[{"text": "x"}]]}), "no message"),
    "a message": (run(inputs=ASKED, outputs={"role": "user", "content": "x"}), "a message of a model"),
    "prompts": (run(inputs={"prompts": [7]}, outputs=SAID), "not texts"),
    "text": (run(inputs={"prompts": ["x"]}, outputs={"generations": []}), "no text"),
    "text of it": (run(inputs={"prompts": ["x"]}, outputs={"generations": [[{}]]}), "no text"),
    "a query": (run(run_type="retriever", outputs={"documents": []}), "its query is not in the export"),
    "documents": (run(run_type="retriever", inputs={"query": "x"}, outputs={"x": 1}), "documents are not"),
    "a document": (run(run_type="retriever", inputs={"query": "x"}, outputs={"documents": [7]}), "no content"),
    "embeddings": (run(run_type="embedding"), "embeddings"),
}


@pytest.mark.parametrize("what", LOST)
def test_an_unclear_run_is_missing(tmp_path: Path, what: str) -> None:
    """A run of which no call can be made is missing, with its reason."""
    told, reason = LOST[what]
    _, report = imported(tmp_path, told)
    assert [item.fidelity for item in report.items] == ["missing"]
    assert reason in report.items[0].reason


def test_values_that_were_not_written_are_lossy(tmp_path: Path) -> None:
    """A value that the tracer could only describe makes a run lossy; so does JSON that was something else."""
    _, report = imported(
        tmp_path,
        run("1", name="t", run_type="tool", inputs={"x": UNWRITTEN}, outputs={"output": "ok"}),
        run("2", name="t", run_type="tool", inputs={"input": "just text"}, outputs={"output": [1]}),
        run("3", name="t", run_type="tool", inputs={"input": "{1: 2}"}, outputs={"a": 1}),
    )
    assert [item.fidelity for item in report.items] == ["lossy"] * 3
    assert "only as text" in report.items[0].reason


def test_a_class_as_response_format_is_lossy(tmp_path: Path) -> None:
    """An export has only the name of a class that was passed as response format, and no program sends that."""
    params = {"invocation_params": {"model": "m", "response_format": "<class 'app.Answer'>"}}
    _, report = imported(tmp_path, run(inputs=ASKED, outputs=SAID, extra=params))
    assert "only the name" in report.lossy[0].reason


def test_errors_have_the_type_of_their_traceback(tmp_path: Path) -> None:
    """The type on the last line of a traceback is the type of the error; a repr alone gives its name."""
    traceback = "Busy('wait')Traceback (most recent call last):\n  File\n\n\nlibrary.errors.Busy: wait"
    cassette, _ = imported(
        tmp_path,
        run("1", inputs=ASKED, error=traceback, extra=PARAMS),
        run("2", inputs=ASKED, error="ValueError('no')", extra=PARAMS),
        run("3", inputs=ASKED, error="it went wrong", extra=PARAMS),
    )
    errors = [open_cassette(cassette).interaction(number).outcome.error for number in (1, 2, 3)]
    assert [error and error.type for error in errors] == [
        "library.errors:Busy",
        "builtins:ValueError",
        "builtins:Exception",
    ]
    model = ChatOpenAI(model="gpt-5-mini", api_key="x")
    with use_cassette(cassette, accept={"lossy"}):
        for expected in (ReplayedError, ValueError, Exception):
            with pytest.raises(expected):
                model.invoke("Hi")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[", "not JSON"),
        ("7", "at the top: expected a list"),
        ("[7]", r"at \[0\]: expected a mapping"),
        ('[{"id": "r"}]', "a run with an id and a run_type"),
        ('{"id": "r", "run_type": "llm"}\n{', "not JSON"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_malformed_files_are_refused(tmp_path: Path, text: str, problem: str) -> None:
    """A file that is no export is an error with its place, and no cassette is written."""
    (tmp_path / "runs.json").write_text(text, encoding="utf-8")
    with pytest.raises(CassetteFormatError, match=problem):
        import_langsmith(tmp_path / "runs.json", tmp_path / "new.yaml")
    assert not (tmp_path / "new.yaml").exists()


def test_secrets_of_an_export_are_redacted(tmp_path: Path, world: World) -> None:
    """A key in a message or in a tag is in no byte of the cassette."""
    key = "sk-proj-abcdefghijklmnopqrstuvwxyz123456"
    said = {"generations": [[{"message": {"type": "ai", "content": f"Keep {key}"}}]]}
    told = run(inputs={"messages": [["user", key]]}, outputs=said, extra=PARAMS, tags=[key])
    cassette, report = imported(tmp_path, told)
    assert report.exact
    assert key not in cassette.read_text("utf-8")
