"""Cassettes as other tools read them: JSON, JSON lines, OpenTelemetry spans in a file or at a collector."""

from __future__ import annotations

import gzip
import importlib
import io
import json
import pkgutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import opentelemetry.semconv._incubating.attributes
import opentelemetry.semconv.attributes
import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from tests.kit.collector import Receiver

from agenttape_core.schema import Header, Interaction, Outcome, RecordedError, Step, StepTiming, Timing, Usage, Volatile
from agenttape_core.storage import open_cassette, write_cassette
from agenttape_core.tools.export import sdk_spans, spans_of

from ...kit.records import call, step

pytestmark = pytest.mark.process

CANARY = "c4n4ry"
WEATHER = "cassettes/weather.yaml"
ANSWER = {
    "$chat_result": {
        "message": {
            "content": CANARY,
            "usage_metadata": {
                "input_token_details": {"cache_read": 1, "cache_creation": 1},
                "output_token_details": {"reasoning": 1},
            },
            "response_metadata": {"model_name": "gpt-5-2025", "finish_reason": "stop", "id": "r-1"},
        }
    }
}
"""An answer of which all is known that a span can say."""


@pytest.fixture
def collector() -> Iterator[Receiver]:
    """A collector that takes spans over OTLP/HTTP."""
    with Receiver() as receiver:
        yield receiver


@pytest.fixture(autouse=True)
def _no_telemetry_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no setting of the machine in, and give up at the first failure."""
    for name in ("ENDPOINT", "TRACES_ENDPOINT", "HEADERS"):
        monkeypatch.delenv(f"OTEL_EXPORTER_OTLP_{name}", raising=False)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.5")


def written(path: Path) -> Path:
    """Write a cassette with all sorts of records, whose content is the canary."""
    secret = {"said": CANARY}
    error = RecordedError(type="openai:RateLimitError", message=CANARY)
    model = {"model": "gpt-5", "temperature": 0, "max_tokens": 2**70, "stop": "END", "n": 2, "top_k": 4, "seed": 7}
    records: list[Interaction | Step] = [
        step(
            1, "Team", kind="agent", name="Team", metadata={"thread_id": "t-1", **secret}, input=secret, tags=[CANARY]
        ),
        _call(1, "chat", "Team/chat", {**model, "messages": [{"role": "user", "content": CANARY}]}, ANSWER),
        _call(2, "completion", "Team/completion", {"prompts": [CANARY]}, {"$completion_response": {"text": CANARY}}),
        _call(3, "embeddings", "Team/embeddings", {"input": CANARY, "dimensions": 3}, [0.1]),
        _call(4, "retrieval", "Team/retrieval", {"query": CANARY}, [{"$document": {"page_content": CANARY}}]),
        _call(5, "http", "Team/http", {"method": "GET", "url": {"host": "api.test", "path": f"/{CANARY}"}}, secret),
        _call(6, "memory", "Team/memory", {"method": "get", "arguments": secret}, secret),
        _call(7, "tool", "Team/tool", {"name": "find", "arguments": secret}, None, error=error, metadata=secret),
        step(2, "Team", kind="event", name="progress", data=secret),
        step(3, "Team/unseen", kind="retriever", fidelity="missing", fidelity_note=CANARY, output=secret),
        step(4, "nowhere", kind="interrupt", data=secret),
    ]
    timings = {number: Timing(start_ms=10.0 * number, duration_ms=5.0) for number in range(1, 8)}
    steps = {1: StepTiming(start_ms=1.0, duration_ms=90.0), 2: StepTiming(start_ms=50.0, duration_ms=0.0)}
    volatile = Volatile(created="2026-11-21T12:00:00Z", timings=timings, steps=steps)
    write_cassette(path, Header(name="all-sorts", volatile=volatile), records)
    return path


def _call(number: int, kind: str, address: str, request: dict[str, Any], value: Any, **fields: Any) -> Interaction:
    error = fields.pop("error", None)
    status = "returned" if error is None else "raised"
    outcome = Outcome(status=status, value=value, error=error, usage=Usage(input_tokens=3, output_tokens=2))
    return call(number, address, kind=kind, name="Model", request=request, outcome=outcome, **fields)


def spans_in(text: str) -> list[dict[str, Any]]:
    """Return the spans of OTLP/JSON lines, their attributes as a dict."""
    spans = []
    for line in text.splitlines():
        for resource in json.loads(line)["resourceSpans"]:
            for scope in resource["scopeSpans"]:
                spans += [{**span, "attributes": flat(span["attributes"])} for span in scope["spans"]]
    return spans


def flat(attributes: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the attributes of OTLP/JSON as a dict."""
    return {each["key"]: next(iter(each["value"].values())) for each in attributes}


def test_json(command: Any, recorded: Path) -> None:
    """A document, or lines, hold every record with its whole request and what came back, below what it happened in."""
    (exported,) = command("export", recorded).json["cassettes"]
    lines = [json.loads(line) for line in command("export", recorded, "--format", "jsonl").out.splitlines()]
    assert lines == [{"cassette": str(recorded), **row} for row in exported["records"]]
    header, *rows = exported["records"]
    assert (exported["cassette"], header["export"], header["name"]) == (str(recorded), 1, recorded.stem)
    assert "key" not in header.get("redaction", {})
    cassette = open_cassette(recorded)
    assert len(rows) == len(list(cassette.records()))
    calls = [row for row in rows if row["record"] == "interaction"]
    for row, item in zip(calls, cassette.interactions(), strict=True):
        assert row["request"] == item.request
        assert row["outcome"] == item.outcome.model_dump(mode="json", exclude_defaults=True)
        assert row["duration_ms"] == cassette.header.volatile.timings[item.number].duration_ms
    seen = {None}
    for row in rows:
        assert row["parent"] in seen
        seen.add(row["id"])


def test_json_is_written_as_a_document_is_indented(command: Any, tmp_path: Path) -> None:
    """The document, which is never in memory as a whole, is the text that Python makes of all of it."""
    for name in ("a.yaml", "b.jsonl"):
        written(tmp_path / name)
    for options in ((), ("--redact-prompts",)):
        text = command("export", tmp_path, *options).out
        assert text == f"{json.dumps(json.loads(text), indent=2)}\n"


def test_json_says_the_answer_in_one_way(command: Any, kinds: Mapping[str, Path]) -> None:
    """What a model answered has one shape, whichever framework recorded it, and also when it was streamed."""
    answers = []
    for kind in ("langchain", "llamaindex"):
        (exported,) = command("export", kinds[kind]).json["cassettes"]
        answers.append([row["answer"] for row in exported["records"] if "answer" in row])
    for asked, text in answers:
        (part,) = asked[0]["parts"]
        assert (part["type"], part["name"], part["arguments"]) == ("tool_call", "temperature", {"city": "Paris"})
        assert text[0]["role"] == "assistant"
        assert "18 degrees in Paris" in text[0]["parts"][0]["content"]


@pytest.mark.parametrize("form", ["json", "jsonl", "otel"])
def test_folder_standard_input_and_packed(
    command: Any, folder: Path, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    """A folder, a packed file and standard input are exported as a file is."""
    plain = command("export", WEATHER, "--format", form).out
    assert command("export", "cassettes", "--format", form).out == plain
    packed = folder / "packed" / "weather.yaml.gz"
    packed.parent.mkdir()
    packed.write_bytes(gzip.compress(Path(WEATHER).read_bytes()))
    assert command("export", "packed", "--format", form).out == plain.replace(WEATHER, "packed/weather.yaml.gz")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(packed.read_bytes())))
    assert command("export", "-", "--format", form).out == plain.replace(WEATHER, "standard input")


def test_a_file_is_written_whole_or_not_at_all(command: Any, folder: Path) -> None:
    """A file holds what would be printed; a cassette that cannot be read leaves the old one."""
    told = command("export", WEATHER, "-o", "out.json", "--json").json
    assert told == {"to": "out.json", "cassettes": 1}
    before = Path("out.json").read_text()
    assert before == command("export", WEATHER).out
    (folder / "cassettes" / "broken.yaml").write_bytes(Path(WEATHER).read_bytes()[:-4])
    assert "1 cassette, 4 lines exported to lines" in command("export", WEATHER, "-o", "lines", "--format", "jsonl").out
    ended = command("export", "cassettes", "-o", "out.json", "--format", "jsonl")
    assert ended.code == 3
    assert "broken.yaml" in ended.err
    assert Path("out.json").read_text() == before
    assert [path.name for path in folder.iterdir() if path.name.startswith(".")] == []


def test_never_in_the_place_of_a_cassette(command: Any) -> None:
    """An export does not replace a cassette."""
    before = Path(WEATHER).read_bytes()
    ended = command("export", WEATHER, "-o", WEATHER)
    assert (ended.code, Path(WEATHER).read_bytes()) == (2, before)
    assert command("export", WEATHER, "-o", "gone/out.json").code == 3


@pytest.mark.parametrize(
    "words",
    [["--content"], ["--endpoint", "http://127.0.0.1:1"], ["--format", "xml"]]
    + [["--format", "otel", "--endpoint", url] for url in ("nope", "ftp://127.0.0.1", "env")]
    + [["--format", "otel", "--endpoint", "http://127.0.0.1:1", "-o", "x.json"]],
)
def test_wrong_usage(command: Any, words: list[str]) -> None:
    """Options that make no sense together, and endpoints that are none, end with 2."""
    assert command("export", WEATHER, *words).code == 2


def test_the_spans_are_a_tree(command: Any, recorded: Path) -> None:
    """All calls and steps are spans of one trace below the run, and a second export is the same."""
    ended = command("export", recorded, "--format", "otel")
    assert ended.out == command("export", recorded, "--format", "otel").out
    assert "service.instance.id" not in ended.out  # the SDK draws one for each process
    root, *spans = spans_in(ended.out)
    assert len(spans) == len(list(open_cassette(recorded).records()))
    assert "parentSpanId" not in root
    seen = {root["spanId"]: root}
    for span in spans:
        above = seen[span["parentSpanId"]]
        assert span["traceId"] == root["traceId"]
        assert int(above["startTimeUnixNano"]) <= int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"])
        assert len(bytes.fromhex(span["spanId"])) == 8
        seen[span["spanId"]] = span
    assert len(seen) == len(spans) + 1


@pytest.mark.parametrize("kind", ["langchain", "llamaindex"])
def test_the_spans_of_an_agent(command: Any, kinds: Mapping[str, Path], kind: str) -> None:
    """An agent's calls lie in its nodes, named and described as the conventions say."""
    spans = spans_in(command("export", kinds[kind], "--format", "otel").out)
    by_id = {span["spanId"]: span for span in spans}
    names = [span["name"] for span in spans if not span["name"].startswith("node ")]
    model = {"langchain": "gpt-5-mini", "llamaindex": "scripted-1"}[kind]
    agent = {"langchain": "LangGraph", "llamaindex": "FunctionAgent.run"}[kind]
    chat, tool = f"chat {model}", "execute_tool temperature"
    assert names == [f"invoke_workflow {kind}", f"invoke_agent {agent}", chat, tool, chat]
    first, called, _ = (span for span in spans if span["name"] in {chat, tool})
    assert by_id[first["parentSpanId"]]["name"].startswith("node ")
    assert (first["kind"], called["kind"]) == (3, 1)
    said = first["attributes"]
    assert said["gen_ai.request.model"] == model
    assert said["gen_ai.request.stream"] is True
    assert said["gen_ai.response.time_to_first_chunk"] < 10
    assert called["attributes"]["gen_ai.tool.call.id"] in {"call_1_0", "call-1-0"}
    usage = [span["attributes"].get("gen_ai.usage.output_tokens") for span in spans if span["name"] == chat]
    assert usage == {"langchain": [None, "2"], "llamaindex": ["2", None]}[kind]


def test_what_raised(command: Any, kinds: Mapping[str, Path]) -> None:
    """A call that raised is an error with its type, and its words only where content is asked for."""
    *_, raised = spans_in(command("export", kinds["functions"], "--format", "otel").out)
    assert raised["status"] == {"code": 2, "message": "KeyError"}
    assert raised["attributes"]["error.type"] == "KeyError"
    (event,) = raised["events"]
    assert (event["name"], flat(event["attributes"])) == ("exception", {"exception.type": "KeyError"})
    *_, raised = spans_in(command("export", kinds["functions"], "--format", "otel", "--content").out)
    assert flat(raised["events"][0]["attributes"])["exception.message"] == "'Atlantis'"


def test_every_name_is_of_the_conventions(command: Any, kinds: Mapping[str, Path], folder: Path) -> None:
    """An attribute is one of the conventions, or ours by its name."""

    def conventional_names() -> set[str]:
        """Return every name of an attribute that the installed semantic conventions have."""
        names = set()
        for package in (opentelemetry.semconv.attributes, opentelemetry.semconv._incubating.attributes):
            for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
                found = vars(importlib.import_module(module.name))
                names |= {value for key, value in found.items() if key.isupper() and isinstance(value, str)}
        return names

    paths = [*kinds.values(), written(folder / "all.yaml")]
    spans = spans_in(command("export", *paths, "--format", "otel", "--content").out)
    used = {name for span in spans for name in span["attributes"]}
    used |= {name for span in spans for event in span.get("events", ()) for name in flat(event["attributes"])}
    foreign = {name for name in used if not name.startswith("agenttape.")}
    assert foreign <= conventional_names()
    assert len([name for name in foreign if name.startswith("gen_ai.")]) > 25


def test_no_content_unless_asked(command: Any, folder: Path, collector: Receiver) -> None:
    """Spans hold nothing of what was said, given, found or raised; with --content all of it, but redacted prompts."""
    path = written(folder / "all.yaml")
    plain = command("export", path, "--format", "otel").out
    assert CANARY not in plain
    for options in ([], ["--content", "--redact-prompts"]):
        assert command("export", path, "--format", "otel", "--endpoint", collector.url, *options).code == 0
    assert collector.spans
    assert CANARY not in str(collector.requests)
    told = spans_in(command("export", path, "--format", "otel", "--content").out)
    team = told[1]["attributes"]
    assert json.loads(team["agenttape.tags"]) == [CANARY]
    assert json.loads(team["agenttape.metadata"]) == {"thread_id": "t-1", "said": CANARY}
    moments = [flat(event["attributes"]) for span in told for event in span.get("events", ())]
    for said in [*(span["attributes"] for span in told[1:]), *moments]:
        assert CANARY in str(said)


def test_the_run_holds_what_happened_in_it(command: Any, folder: Path) -> None:
    """A moment is an event of what is around it, or of the run; the thread of an agent is that of its calls."""
    root, team, *calls = spans_in(command("export", written(folder / "all.yaml"), "--format", "otel").out)
    assert [event["name"] for event in root["events"]] == ["agenttape.interrupt"]
    assert [event["name"] for event in team["events"]] == ["agenttape.event"]
    assert {call["parentSpanId"] for call in calls} == {team["spanId"]}
    assert {call["attributes"]["gen_ai.conversation.id"] for call in calls} == {"t-1"}
    assert int(root["endTimeUnixNano"]) - int(root["startTimeUnixNano"]) == 90_000_000
    chat = calls[0]["attributes"]
    assert (chat["gen_ai.request.temperature"], chat["gen_ai.request.seed"]) == (0, "7")
    assert chat["gen_ai.request.max_tokens"] == str(2**70)  # more than OTLP can hold as a number
    assert chat["gen_ai.response.finish_reasons"] == {"values": [{"stringValue": "stop"}]}
    assert (chat["gen_ai.response.model"], chat["gen_ai.response.id"]) == ("gpt-5-2025", "r-1")
    assert chat["gen_ai.usage.reasoning.output_tokens"] == "1"
    assert calls[4]["name"] == "GET"
    assert calls[-1]["attributes"]["agenttape.fidelity"] == "missing"


@pytest.mark.parametrize("kind", ["langchain", "llamaindex"])
def test_content_in_the_shape_of_the_conventions(command: Any, kinds: Mapping[str, Path], kind: str) -> None:
    """Messages, tools, arguments and results have the conventions' shape, for either framework."""
    spans = spans_in(command("export", kinds[kind], "--format", "otel", "--content").out)
    *_, last = (span["attributes"] for span in spans if span["name"].startswith("chat "))
    system, user, assistant, tool = json.loads(last["gen_ai.input.messages"])
    assert system == {"role": "system", "parts": [{"type": "text", "content": "Be brief."}]}
    assert user == {"role": "user", "parts": [{"type": "text", "content": "How warm is it in Paris?"}]}
    (call,) = assistant["parts"]
    assert call == {"type": "tool_call", "id": call["id"], "name": "temperature", "arguments": {"city": "Paris"}}
    assert tool["parts"] == [{"type": "tool_call_response", "id": call["id"], "response": "18 degrees in Paris"}]
    (answer,) = json.loads(last["gen_ai.output.messages"])
    assert answer["role"] == "assistant"
    assert "18 degrees" in answer["parts"][0]["content"]
    assert json.loads(last["gen_ai.tool.definitions"])[0]["name"] == "temperature"
    (called,) = (span["attributes"] for span in spans if span["name"].startswith("execute_tool "))
    assert called["gen_ai.tool.call.id"] == call["id"]
    assert json.loads(called["gen_ai.tool.call.arguments"]) == {"city": "Paris"}
    assert called["gen_ai.tool.call.result"] == "18 degrees in Paris"


def test_a_collector_gets_the_same_spans(command: Any, recorded: Path, collector: Receiver) -> None:
    """What the SDK's exporter sends is what the file holds, with the same ids."""
    ended = command("export", recorded, "--format", "otel", "--endpoint", collector.url, "--json")
    assert ended.code == 0, ended.err
    in_file = spans_in(command("export", recorded, "--format", "otel").out)
    url = f"{collector.url}/v1/traces"
    assert ended.json == {"to": url, "cassettes": 1, "spans": len(in_file)}
    assert {path for path, _, _ in collector.requests} == {"/v1/traces"}
    sent = [(span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex(), span.name) for span in collector.spans]
    assert sent == [(s["traceId"], s["spanId"], s.get("parentSpanId", ""), s["name"]) for s in in_file]


def test_a_long_trace_is_one_line_and_sent_whole(command: Any, tmp_path: Path, collector: Receiver) -> None:
    """The line of a long trace, which is never in memory as a whole, is the JSON that the SDK makes of all of it."""
    calls = [call(n, f"x#{n}", name='"spans": []', value='"spans": []') for n in range(1, 1301)]
    write_cassette(tmp_path / "long.yaml", Header(name="long"), calls)
    (line,) = command("export", tmp_path / "long.yaml", "--format", "otel", "--content").out.splitlines()
    assert line == json.dumps(json.loads(line))
    spans = spans_in(line)
    made = encode_spans([*sdk_spans(spans_of(open_cassette(tmp_path / "long.yaml"), content=True))])
    (scope,) = made.resource_spans[0].scope_spans
    assert [span["spanId"] for span in spans] == [span.span_id.hex() for span in scope.spans]
    assert {span.get("parentSpanId") for span in spans[1:]} == {spans[0]["spanId"]}
    assert len(spans) == 1301
    ended = command("export", tmp_path / "long.yaml", "--format", "otel", "--endpoint", collector.url, "--json")
    assert ended.json["spans"] == len(collector.spans) == 1301


def test_a_folder_goes_to_a_collector_as_a_trace_for_each(
    command: Any, kinds: Mapping[str, Path], collector: Receiver
) -> None:
    """Each cassette is a trace of its own."""
    ended = command("export", *kinds.values(), "--format", "otel", "--endpoint", f"{collector.url}/custom")
    assert "4 cassettes" in ended.out
    assert {path for path, _, _ in collector.requests} == {"/custom"}
    assert len({span.trace_id for span in collector.spans}) == 4


def test_the_environment_counts_when_it_is_asked(
    command: Any, collector: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is sent because of the environment alone; `env` sends where it says, with its headers and its service."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-team=weather")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "forecast")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "service.instance.id=box-7")
    for form in ("json", "jsonl", "otel"):
        assert command("export", WEATHER, "--format", form).code == 0
    assert collector.requests == []
    assert command("export", WEATHER, "--format", "otel", "--endpoint", "env").code == 0
    ((path, headers, request),) = collector.requests
    assert (path, headers["x-team"]) == ("/v1/traces", "weather")
    attributes = {each.key: each.value.string_value for each in request.resource_spans[0].resource.attributes}
    assert (attributes["service.name"], attributes["service.instance.id"]) == ("forecast", "box-7")


@pytest.mark.parametrize("status", [400, 500, 503])
def test_a_collector_that_refuses(command: Any, collector: Receiver, status: int) -> None:
    """A collector that does not take the spans is an error that says so."""
    collector.status = status
    ended = command("export", WEATHER, "--format", "otel", "--endpoint", collector.url)
    assert (ended.code, ended.out) == (1, "")
    assert f"{collector.url}/v1/traces did not take" in ended.err
    assert {400: "Bad Request", 500: "Internal Server Error", 503: "timeout"}[status] in ended.err


def test_no_collector(command: Any, collector: Receiver) -> None:
    """An endpoint at which nobody listens is an error that names it, and no password in it."""
    collector.server.server_close()
    address = collector.url.removeprefix("http://")
    ended = command("export", WEATHER, "--format", "otel", "--endpoint", f"http://user:{CANARY}@{address}")
    assert ended.code == 1
    assert f"http://{address}/v1/traces did not take" in ended.err
    assert CANARY not in ended.err


def test_without_the_extra(command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the SDK the command says what to install and ends with 2; JSON needs nothing."""
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    for words in ([], ["--endpoint", "http://127.0.0.1:1"]):
        ended = command("export", WEATHER, "--format", "otel", *words)
        assert ended.code == 2
        assert "agenttape-core[otel]" in ended.err
    assert command("export", WEATHER).code == 0


def test_an_sdk_that_is_switched_off(command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """An SDK that makes no spans is an error, and not an empty export."""
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    ended = command("export", WEATHER, "--format", "otel")
    assert ended.code == 2
    assert "OTEL_SDK_DISABLED" in ended.err


def test_limits_of_the_sdk_cut_nothing(command: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limits that the environment sets for tracing do not shorten an export."""
    for name in ("ATTRIBUTE_COUNT_LIMIT", "ATTRIBUTE_VALUE_LENGTH_LIMIT", "EVENT_COUNT_LIMIT"):
        monkeypatch.setenv(f"OTEL_SPAN_{name}", "1")
    path = written(folder / "all.yaml")
    cut = command("export", path, "--format", "otel").out
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    assert cut == command("export", path, "--format", "otel").out


def test_times_that_cannot_be(command: Any, folder: Path) -> None:
    """A cassette that says impossible times is exported all the same."""
    timings = {1: Timing(start_ms=9e14, duration_ms=9e14), 2: Timing(start_ms=-9e14, duration_ms=1.0)}
    volatile = Volatile(created="0001-01-01T00:00:00", timings=timings)
    calls = [_call(number, "call", f"call#{number}", {}, None) for number in (1, 2)]
    write_cassette(folder / "odd.yaml", Header(name="odd", volatile=volatile), calls)
    spans = spans_in(command("export", "odd.yaml", "--format", "otel").out)
    assert len(spans) == 3
    write_cassette(folder / "odd.yaml", Header(name="odd", volatile=Volatile(created="yesterday")), calls)
    assert len(spans_in(command("export", "odd.yaml", "--format", "otel").out)) == 3
