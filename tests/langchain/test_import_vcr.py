"""Cassettes of vcrpy become cassettes that replay exactly what the program got."""

from __future__ import annotations

import gzip
import json
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import openai
import pytest
import yaml
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import AzureChatOpenAI, ChatOpenAI, OpenAIEmbeddings

from agenttape_core import open_cassette, use_cassette
from agenttape_core.errors import CassetteFormatError, CassetteMissError, ConfigurationError
from agenttape_langchain.importers import import_vcr

from .conftest import SHARED, RealExchanges
from .foreign import (
    ANTHROPIC,
    KEY,
    OPENAI,
    asked_of_claude,
    asked_of_gpt,
    claude,
    claude_stream,
    completion,
    interaction,
    of_exchanges,
    vcr_file,
)
from .real_calls import CALLS, Foo
from .shapes import seen
from .test_real_calls import NOT_A_CHAT_MODEL

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from examples.weather_agent.server import OpenAILoopback

pytestmark = pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")  # langchain-openai, of a parsed object

GPT = partial(ChatOpenAI, model="gpt-5-mini", api_key="x")


def claude_model(**options: Any) -> Any:
    """The real client of Anthropic, if it is installed."""
    package = pytest.importorskip("langchain_anthropic", reason="langchain-anthropic is not installed")
    return package.ChatAnthropic(**{"model": "claude-recorded", "max_tokens": 256, "api_key": "x", **options})


def imported(folder: Path, *interactions: dict[str, Any], **options: Any) -> tuple[Path, Any]:
    """Import interactions; returns the cassette and the report."""
    target = folder / "imported.yaml"
    return target, import_vcr(vcr_file(folder / "vcr.yaml", list(interactions)), target, **options)


def grades(report: Any) -> list[str]:
    """The grade of each interaction."""
    return [item.fidelity for item in report.items]


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
def test_real_exchanges_replay_as_the_client_gave_them(
    name: str, real_exchanges: Callable[[str], RealExchanges], tmp_path: Path
) -> None:
    """Every real exchange, plain and streamed, replays to the same messages and chunks as from the service."""
    # The arguments of the models of the real calls; all others have `output_version="responses/v1"`.
    constructed = {
        "agent_loop_streaming": {"output_version": "v1"},
        "function_calling": {},
        "incomplete_response": {},
        "chat_completions_long_stream": {},
    }

    def _without_run_ids(results: list[list[Any]]) -> list[list[Any]]:
        """Take away the ids that LangChain makes of its own run."""
        made = [dump for result in results for _, dump in result if str(dump["id"]).startswith("lc_run-")]
        for dump in made:
            dump["id"] = "lc_run"
        return results

    service = real_exchanges(name)
    live = CALLS[name](partial(ChatOpenAI, base_url=service.base_url, api_key="x"))
    service.stop()
    options = constructed.get(name, {"output_version": "responses/v1"})
    cassette, report = imported(tmp_path, *of_exchanges(service.exchanges), model_options=options, schemas=[Foo])
    assert grades(report) == ["exact"] * len(service.exchanges)
    with use_cassette(cassette, live={"tool"}) as replay:
        replayed = CALLS[name](partial(ChatOpenAI, api_key="x"))
    assert _without_run_ids(seen(replayed)) == _without_run_ids(seen(live))
    assert len([call_record for call_record in replay.report.replayed if call_record.kind == "chat"]) == len(
        service.exchanges
    )


def test_embeddings_of_texts(tmp_path: Path) -> None:
    """Base64 vectors come back as the client reads them: one text as a query, several as documents."""
    data_file = SHARED / "data" / "openai" / "langchain_openai_embeddings_equivalent_to_raw.jsonl"
    if not data_file.exists():
        pytest.skip("the real exchanges are not here: ../shared/data/openai")
    exchange = json.loads(data_file.read_text("utf-8").splitlines()[0])
    assert {data_file.stem} == NOT_A_CHAT_MODEL
    two = json.loads(exchange["body"])
    two["data"] = [two["data"][0], {**two["data"][0], "index": 1}]
    both = [exchange, {**exchange, "request": {**exchange["request"], "input": ["a", "b"]}, "body": json.dumps(two)}]
    cassette, report = imported(tmp_path, *of_exchanges(both))
    assert grades(report) == ["exact", "exact"], str(report)
    model = OpenAIEmbeddings(model="text-embedding-ada-002", api_key="x", check_embedding_ctx_length=False)
    with use_cassette(cassette):
        vector = model.embed_query(exchange["request"]["input"][0])
        vectors = model.embed_documents(["a", "b"])
    assert len(vector) == 1536
    assert vectors == [vector, vector]


def test_embeddings_of_tokens_need_their_text(tmp_path: Path) -> None:
    """Tokens are missing with the way to import them; with a decoder they are texts."""
    body = {"object": "list", "model": "m", "data": [{"object": "embedding", "index": 0, "embedding": [0.5, 0.25]}]}
    told = interaction({"input": [[1, 2]], "model": "m"}, body, url=f"{OPENAI}/v1/embeddings")
    _, report = imported(tmp_path, told)
    assert "detokenize=" in report.missing[0].reason
    decode = {1: "hello ", 2: "you"}
    cassette, report = imported(
        tmp_path, told, overwrite=True, detokenize=lambda _, tokens: "".join(decode[token] for token in tokens)
    )
    assert grades(report) == ["exact"]
    with use_cassette(cassette):
        vector = OpenAIEmbeddings(model="m", api_key="x", check_embedding_ctx_length=False).embed_query("hello you")
    assert vector == [0.5, 0.25]


def test_an_agent_of_chat_completions(tmp_path: Path) -> None:
    """Tool results match although their names do not go over the wire; sampling and tools count."""
    weather = {
        "type": "function",
        "function": {"name": "weather", "description": "W.", "parameters": {"type": "object", "properties": {}}},
    }

    asked = asked_of_gpt("Weather?", tools=[weather], seed=7, max_completion_tokens=99)
    call = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Paris"}'}}
    history = [
        *asked["messages"],
        {"content": None, "role": "assistant", "tool_calls": [call]},
        {"content": "sunny", "role": "tool", "tool_call_id": "call_1"},
    ]
    cassette, report = imported(
        tmp_path,
        interaction(asked, completion(None, calls=(("call_1", "weather", '{"city":"Paris"}'),))),
        interaction({**asked, "messages": history}, completion("It is sunny.", number=2)),
    )
    assert grades(report) == ["exact", "exact"], str(report)
    for name in ("weather", None):
        with use_cassette(cassette):
            model = GPT(seed=7, max_tokens=99).bind_tools([weather])
            question = HumanMessage("Weather?")
            answer = model.invoke([question])
            result = ToolMessage("sunny", tool_call_id="call_1", name=name, status="error" if name else "success")
            final = model.invoke([question, answer, result])
        assert answer.tool_calls == [
            {"name": "weather", "args": {"city": "Paris"}, "id": "call_1", "type": "tool_call"}
        ]
        assert (final.text, final.usage_metadata["output_tokens"]) == ("It is sunny.", 2)
        assert final.response_metadata["id"] == "chatcmpl-2"


def test_roles_and_names_come_back(tmp_path: Path) -> None:
    """System and developer messages, names and content blocks come back as the program has them."""
    messages = [
        {"content": "Be brief.", "role": "system"},
        {"content": "Be kind.", "role": "developer"},
        {"content": [{"type": "text", "text": "Hi"}], "role": "user", "name": "ann"},
        {"content": "Hello.", "role": "assistant"},
        {"content": "Bye", "role": "user"},
    ]
    cassette, report = imported(tmp_path, interaction(asked_of_gpt("", messages=messages), completion("Bye.")))
    assert grades(report) == ["exact"]
    program = [
        SystemMessage("Be brief."),
        SystemMessage("Be kind.", additional_kwargs={"__openai_role__": "developer"}),
        HumanMessage([{"type": "text", "text": "Hi"}], name="ann"),
        AIMessage("Hello."),
        HumanMessage("Bye"),
    ]
    with use_cassette(cassette):
        assert GPT().invoke(program).text == "Bye."


THINKING = {"type": "thinking", "thinking": "A tool will know.", "signature": "c2lnbmVk"}
USE = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Paris"}}
CLAUDE_TOOL = {"name": "weather", "description": "W.", "input_schema": {"type": "object", "properties": {}}}


@pytest.mark.parametrize("streamed", [False, True], ids=["plain", "streamed"])
def test_an_agent_of_anthropic(tmp_path: Path, streamed: bool) -> None:
    """Thinking and tool use, whole and in events, replay block by block; the history is the program's own."""
    pytest.importorskip("langchain_anthropic", reason="langchain-anthropic is not installed")
    question = {"role": "user", "content": "Weather?"}
    more: dict[str, Any] = {
        "system": "Be brief.",
        "tools": [CLAUDE_TOOL],
        "thinking": {"type": "enabled", "budget_tokens": 1024},
        "max_tokens": 2048,
        **({"stream": True} if streamed else {}),
    }
    result = {"type": "tool_result", "content": "sunny", "tool_use_id": "toolu_1", "is_error": False}
    answer = claude_stream if streamed else claude
    cassette, report = imported(
        tmp_path,
        interaction(asked_of_claude(question, **more), answer([THINKING, USE], stop="tool_use"), url=ANTHROPIC),
        interaction(
            asked_of_claude(
                question,
                {"role": "assistant", "content": [THINKING, USE]},
                {"role": "user", "content": [result, {"type": "text", "text": "Go on."}]},
                **more,
            ),
            answer([{"type": "text", "text": "It is sunny."}], number=2),
            url=ANTHROPIC,
        ),
    )
    assert grades(report) == ["exact", "exact"], str(report)
    model = claude_model(max_tokens=2048, thinking=more["thinking"], streaming=streamed).bind_tools([CLAUDE_TOOL])
    asked = [SystemMessage("Be brief."), HumanMessage("Weather?")]
    with use_cassette(cassette):
        thought = model.invoke(asked)
        told = ToolMessage("sunny", tool_call_id="toolu_1", name="weather")
        final = model.invoke([*asked, thought, told, HumanMessage("Go on.")])
    assert thought.content_blocks[0]["reasoning"] == "A tool will know."
    assert thought.tool_calls[0]["args"] == {"city": "Paris"}
    assert streamed or thought.response_metadata["id"] == "msg_1"
    assert (final.text, final.usage_metadata["output_tokens"]) == ("It is sunny.", 2)
    assert final.response_metadata["model_provider"] == "anthropic"


def test_azure_by_deployment(tmp_path: Path) -> None:
    """A request to an Azure deployment is imported by its model class."""
    url = "https://acme.openai.azure.com/openai/deployments/small/chat/completions?api-version=2024-10-21"
    request = {"messages": [{"content": "Hi", "role": "user"}], "model": "gpt-4o", "stream": False}
    cassette, report = imported(tmp_path, interaction(request, completion("Hello."), url=url))
    assert grades(report) == ["exact"]
    model = AzureChatOpenAI(
        model="gpt-4o",
        azure_deployment="small",
        azure_endpoint="https://acme.openai.azure.com",
        api_version="2024-10-21",
        api_key="x",
    )
    with use_cassette(cassette):
        assert model.invoke("Hi").text == "Hello."


def test_compatible_services_side_by_side(tmp_path: Path) -> None:
    """Several hosts in one cassette: the paths say what they speak."""
    pytest.importorskip("langchain_anthropic", reason="langchain-anthropic is not installed")
    cassette, report = imported(
        tmp_path,
        interaction(asked_of_gpt("Hi"), completion("one"), url="https://llm.example.com/api/v3/chat/completions"),
        interaction(
            asked_of_claude({"role": "user", "content": "Hi"}),
            claude([{"type": "text", "text": "two"}]),
            url="https://proxy.example.com/anthropic/v1/messages",
        ),
    )
    assert grades(report) == ["exact", "exact"], str(report)
    with use_cassette(cassette):
        assert [GPT().invoke("Hi").text, claude_model().invoke("Hi").text] == ["one", "two"]


RATE_LIMIT = {"error": {"message": "slow down", "type": "requests", "param": None, "code": "rate_limit_exceeded"}}


def test_a_retry_of_the_program_is_raised_and_returned(tmp_path: Path) -> None:
    """An error that the program saw is raised again, with its type and response; then comes the answer."""
    cassette, report = imported(
        tmp_path,
        interaction(asked_of_gpt("Hi"), RATE_LIMIT, status=429, x_stainless_retry_count="0"),
        interaction(asked_of_gpt("Hi"), completion("Hello."), x_stainless_retry_count="0"),
    )
    assert grades(report) == ["exact", "exact"], str(report)
    with use_cassette(cassette):
        with pytest.raises(Exception, match="slow down") as caught:
            GPT().invoke("Hi")
        assert GPT().invoke("Hi").text == "Hello."
    assert caught.value.response.status_code == 429
    assert isinstance(caught.value, openai.RateLimitError)


def test_a_retry_of_the_client_is_no_outcome(tmp_path: Path) -> None:
    """An error after which the client itself tried again was never seen by the program, and is not raised."""
    cassette, report = imported(
        tmp_path,
        interaction(asked_of_gpt("Hi"), RATE_LIMIT, status=429, x_stainless_retry_count="0"),
        interaction(asked_of_gpt("Ho"), completion("Ho."), x_stainless_retry_count="0"),
        interaction(asked_of_gpt("Hi"), completion("Hello."), x_stainless_retry_count="1"),
    )
    assert "interaction 3 holds what the program got" in report.items[0].reason
    with use_cassette(cassette):
        assert [GPT().invoke(text).text for text in ("Ho", "Hi")] == ["Ho.", "Hello."]


def test_equal_requests_keep_their_order(tmp_path: Path) -> None:
    """The same request three times gets the three answers in their order."""
    told = [interaction(asked_of_gpt("Hi"), completion(f"answer {n}")) for n in range(3)]
    cassette, _ = imported(tmp_path, *told)
    with use_cassette(cassette):
        assert [GPT().invoke("Hi").text for _ in range(3)] == ["answer 0", "answer 1", "answer 2"]


def test_structured_output_of_a_class(tmp_path: Path) -> None:
    """A class is sent as a schema; with `schemas` it becomes the class again."""
    schema = {
        "properties": {"response": {"title": "Response", "type": "string"}},
        "required": ["response"],
        "title": "Foo",
        "type": "object",
        "additionalProperties": False,
    }
    form = {"type": "json_schema", "json_schema": {"schema": schema, "name": "Foo", "strict": True}}
    told = interaction(asked_of_gpt("Hi", response_format=form), completion('{"response":"yes"}'))
    cassette, report = imported(tmp_path, told, schemas=[Foo])
    assert grades(report) == ["exact"]
    with use_cassette(cassette):
        assert GPT().with_structured_output(Foo).invoke("Hi") == Foo(response="yes")
    cassette, report = imported(tmp_path, told, overwrite=True)
    assert grades(report) == ["exact"]
    with use_cassette(cassette):
        assert GPT().bind(response_format=form).invoke("Hi").text == '{"response":"yes"}'


def test_other_traffic_is_missing_and_said_so(tmp_path: Path) -> None:
    """Traffic of no model is graded missing; a miss names what the cassette lacks."""
    other = interaction("", {"sky": "clear"}, url="https://weather.example.com/today?key=secret")
    other["request"]["method"] = "GET"
    completions = interaction({"prompt": "Hi", "model": "m"}, {"choices": []}, url=f"{OPENAI}/v1/completions")
    nonsense = interaction("not JSON", completion("?"))
    cassette, report = imported(
        tmp_path, other, interaction(asked_of_gpt("Hi"), completion("Hello.")), completions, nonsense
    )
    assert grades(report) == ["missing", "exact", "missing", "missing"]
    assert "1 exact, 0 lossy, 3 missing" in str(report)
    assert "secret" not in str(report)
    assert report.missing[0].what == "GET https://weather.example.com/today"
    with (
        pytest.raises(CassetteMissError, match="isn't a JSON object"),
        use_cassette(cassette, on_unused="ignore"),
    ):
        GPT().invoke("What is this?")


def test_a_request_that_cannot_be_asked_again_is_lossy(tmp_path: Path) -> None:
    """A message without a form in LangChain is lossy, with the place that differs; a strict replay refuses it."""
    messages = [{"content": "Hi", "role": "user", "cache": "yes"}]
    told = interaction(asked_of_gpt("", messages=messages), completion("Hello."))
    cassette, report = imported(tmp_path, told)
    assert grades(report) == ["lossy"]
    assert "`messages[0].cache`" in report.lossy[0].reason
    with pytest.raises(CassetteMissError, match="lossy"), use_cassette(cassette, on_unused="ignore"):
        GPT().invoke("Hi")
    with use_cassette(cassette, accept={"lossy"}):
        assert GPT().invoke("Hi").text == "Hello."


def test_without_the_provider_package_calls_are_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the provider's package a call is missing, and the report names the package to install."""
    exchanges = [
        interaction(asked_of_gpt("Hi"), completion("Hello.")),
        interaction(asked_of_claude({"role": "user", "content": "Hi"}), claude([]), url=ANTHROPIC),
        interaction({"input": ["Hi"], "model": "m"}, {}, url=f"{OPENAI}/v1/embeddings"),
    ]
    with monkeypatch.context() as absent:
        for package in ("langchain_openai", "langchain_anthropic"):
            absent.setitem(sys.modules, package, None)
        cassette, report = imported(tmp_path, *exchanges)
    assert grades(report) == ["missing"] * 3
    packages = ["langchain-openai", "langchain-anthropic", "langchain-openai"]
    assert all(f"pip install {package}" in item.reason for item, package in zip(report.items, packages, strict=True))
    with pytest.raises(CassetteMissError, match="pip install langchain-openai"), use_cassette(cassette):
        GPT().invoke("Hi")


def test_all_forms_of_the_file(tmp_path: Path) -> None:
    """YAML, JSON, packed, and the form of `langchain-tests`, with bodies as text, bytes, base64, gzip and JSON."""
    plain = interaction(asked_of_gpt("Hi"), completion("Hello."))
    as_bytes = interaction(
        json.dumps(asked_of_gpt("Hi")).encode(), gzip.compress(json.dumps(completion("Hello.")).encode(), mtime=0)
    )
    as_bytes["response"]["headers"]["Content-Encoding"] = ["gzip"]
    parsed = interaction(asked_of_gpt("Hi"), "")
    parsed["request"]["body"] = asked_of_gpt("Hi")
    parsed["response"] = {"status_code": 200, "headers": {}, "content": json.dumps(completion("Hello."))}
    tests = {"requests": [plain["request"]], "responses": [plain["response"]]}
    files = {
        "plain.yaml": yaml.dump({"version": 1, "interactions": [plain]}).encode(),
        "bytes.yaml": yaml.dump({"version": 1, "interactions": [as_bytes]}).encode(),
        "parsed.yaml": yaml.dump({"version": 1, "interactions": [parsed]}).encode(),
        "plain.json": json.dumps({"version": 1, "interactions": [plain]}, indent=4).encode(),
        "tests.yaml.gz": gzip.compress(yaml.safe_dump(tests).encode(), mtime=0),
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
        target = tmp_path / f"{name.partition('.')[0]}.jsonl"
        assert grades(import_vcr(tmp_path / name, target, overwrite=True)) == ["exact"], name
        with use_cassette(target):
            assert GPT().invoke("Hi").text == "Hello.", name


FILTERED = {
    "completions": (asked_of_gpt("Hi"), completion("Hello.")),
    "completions streamed": (
        asked_of_gpt("Hi", stream=True),
        (
            'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":'
            '{"role":"assistant","content":"Hello."},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
        ),
    ),
    "messages": (asked_of_claude({"role": "user", "content": "Hi"}), claude([{"type": "text", "text": "Hello."}])),
    "messages streamed": (
        asked_of_claude({"role": "user", "content": "Hi"}, stream=True),
        claude_stream([{"type": "text", "text": "Hello."}]),
    ),
}


@pytest.mark.parametrize("what", FILTERED)
def test_filtered_addresses_are_known_by_the_bodies(tmp_path: Path, what: str) -> None:
    """If URLs and headers were filtered away, as in LangChain's own cassettes, the bodies identify the service."""
    if "messages" in what:
        pytest.importorskip("langchain_anthropic", reason="langchain-anthropic is not installed")
    told = interaction(*FILTERED[what], url="**REDACTED**", x_stainless_retry_count="**REDACTED**")
    told["response"]["headers"] = {"Content-Type": ["**REDACTED**"], "x-odd": ["\u20ac"]}
    cassette, report = imported(tmp_path, told)
    assert grades(report) == ["exact"], str(report)
    with use_cassette(cassette):
        model = claude_model() if "messages" in what else GPT()
        assert model.invoke("Hi").text == "Hello."


def test_filtered_responses_and_embeddings(tmp_path: Path) -> None:
    """The service of a request with `input` is known by its answer."""
    output = [{"type": "message", "role": "assistant", "id": "msg_1", "status": "completed"}]
    output[0]["content"] = [{"type": "output_text", "text": "Hello.", "annotations": []}]
    response = {"id": "r", "object": "response", "created_at": 1, "model": "m", "status": "completed", "output": output}
    response |= {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
    vector = {"object": "list", "model": "m", "data": [{"object": "embedding", "index": 0, "embedding": [0.5]}]}
    hi = {"input": [{"content": "Hi", "role": "user", "type": "message"}], "model": "gpt-5-mini", "stream": False}
    cassette, report = imported(
        tmp_path,
        interaction(hi, response, url=""),
        interaction({"input": ["Hi"], "model": "m"}, vector, url=""),
        interaction({"other": 1}, {}, url=""),
    )
    assert grades(report) == ["exact", "exact", "missing"], str(report)
    with use_cassette(cassette):
        assert GPT(use_responses_api=True).invoke("Hi").text == "Hello."
        model = OpenAIEmbeddings(model="m", api_key="x", check_embedding_ctx_length=False)
        assert model.embed_query("Hi") == [0.5]


MALFORMED = {
    "not YAML": ("{", "not YAML"),
    "an object": ("interactions: !!python/object/apply:os.system ['false']", "python/object/apply:os.system"),
    "a list": ("- request: 1", "before 1.0"),
    "no interactions": ("version: 1", "at interactions: expected a list"),
    "a later version": ("version: 2\ninteractions: []", "version 1"),
    "no request": ("interactions: [{response: {}}]", r"at interactions\[0\]\.request: expected a mapping"),
    "no uri": ("interactions: [{request: {}, response: {}}]", "a method and a uri"),
    "no status": (
        "interactions: [{request: {method: GET, uri: 'http://a'}, response: {}}]",
        "expected a status code, found NoneType",
    ),
    "a cycle": ("&a [*a]", "holds itself"),
    "too deep": ("[" * 200 + "]" * 200, "deeper than"),
    "too large": (
        "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
        + "".join(
            f"{n}: &{n} [*{p},*{p},*{p},*{p},*{p},*{p},*{p},*{p},*{p},*{p}]\n"
            for p, n in zip("abcdefgh", "bcdefghi", strict=True)
        ),
        "more than",
    ),
    "unequal lists": ("requests: [{}]\nresponses: []", "1 requests, but 0 responses"),
}


@pytest.mark.parametrize("what", MALFORMED)
def test_malformed_files_are_refused_with_their_place(what: str, tmp_path: Path) -> None:
    """A file that is no cassette of vcrpy is an error that names the file and the place; no cassette is written."""
    text, problem = MALFORMED[what]
    (tmp_path / "vcr.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(CassetteFormatError, match=problem) as caught:
        import_vcr(tmp_path / "vcr.yaml", tmp_path / "imported.yaml")
    assert str(caught.value).startswith(str(tmp_path / "vcr.yaml"))
    assert not (tmp_path / "imported.yaml").exists()


def test_what_is_there_is_not_overwritten(tmp_path: Path) -> None:
    """An existing cassette is replaced only on request."""
    cassette, _ = imported(tmp_path, interaction(asked_of_gpt("Hi"), completion("Hello.")))
    with pytest.raises(ConfigurationError, match="overwrite=True"):
        import_vcr(tmp_path / "vcr.yaml", cassette)
    assert import_vcr(tmp_path / "vcr.yaml", cassette, overwrite=True).exact


def test_secrets_of_the_source_are_redacted(tmp_path: Path) -> None:
    """Neither the key in a header nor one in a prompt is in the cassette; the replay still answers."""
    text = f"My key is {KEY}"
    cassette, _ = imported(tmp_path, interaction(asked_of_gpt(text), completion(f"Keep {KEY} safe.")))
    assert KEY not in cassette.read_text("utf-8")
    with use_cassette(cassette):
        assert GPT().invoke(text).text == f"Keep {KEY} safe."


def test_an_import_into_an_open_session_stays_out_of_it(tmp_path: Path) -> None:
    """An import inside a session records nothing there."""
    with use_cassette(tmp_path / "outer.yaml", mode="all") as outer:
        vector = {"object": "list", "model": "m", "data": [{"object": "embedding", "index": 0, "embedding": [0.5]}]}
        _, report = imported(
            tmp_path,
            interaction(asked_of_gpt("Hi"), completion("Hello.")),
            interaction({"input": ["Hi"], "model": "m"}, vector, url=f"{OPENAI}/v1/embeddings"),
        )
    assert grades(report) == ["exact", "exact"]
    assert outer.interactions == []


def test_the_header_names_the_cassette(tmp_path: Path) -> None:
    """The imported cassette has tags and no frozen clock, and ignores nothing where there are no results of tools."""
    cassette, _ = imported(tmp_path, interaction(asked_of_gpt("Hi"), completion("Hello.")), tags=["migrated"])
    header = open_cassette(cassette).header
    assert (header.tags, header.freeze.kinds, header.ignore) == (["migrated"], [], [])


@tool
def city_weather(city: str) -> str:
    """Weather of a city."""
    return f"sunny in {city}"


def program(base_url: str) -> list[Any]:
    """An agent with a tool, a stream, a call that is tried again, one that fails, and an embedding."""
    model = ChatOpenAI(model="gpt-5-mini", base_url=base_url, api_key="sk-any")
    told = create_agent(model, [city_weather]).invoke({"messages": [("user", "Weather in Paris?")]})["messages"]
    chunks = list(model.stream("Tell me more"))
    embeddings = OpenAIEmbeddings(
        model="text-embedding-3-small", base_url=base_url, api_key="sk-any", check_embedding_ctx_length=False
    )
    return [*told, *chunks, embeddings.embed_documents(["a", "b"]), model.invoke("Again").text]


def seen_of(results: list[Any]) -> list[Any]:
    """The messages that a program saw, without the ids that LangChain draws for a run."""
    return [value.model_dump(exclude={"id"}) if hasattr(value, "model_dump") else value for value in results]


@pytest.fixture
def recorded(tmp_path: Path, loopback: OpenAILoopback) -> tuple[str, Path, list[Any]]:
    """A program that vcrpy recorded against the loopback server: its base URL, the file, and what it saw."""
    vcr = pytest.importorskip("vcr", reason="vcrpy is not installed")
    loopback.fail_next(429)  # the client tries again by itself
    with vcr.use_cassette(str(tmp_path / "vcr.yaml")):
        results = program(loopback.base_url)
    return loopback.base_url, tmp_path / "vcr.yaml", seen_of(results)


def test_a_program_that_vcrpy_recorded_replays(
    recorded: tuple[str, Path, list[Any]], loopback: OpenAILoopback, tmp_path: Path
) -> None:
    """A recording of the real client by the real vcrpy imports exactly, and the same program replays on it."""
    base_url, source, live = recorded
    report = import_vcr(source, tmp_path / "new.yaml")
    assert set(grades(report)) == {"exact"}, str(report)
    assert "the client itself tried again" in report.items[0].reason
    calls = loopback.calls
    with use_cassette(tmp_path / "new.yaml", live={"tool"}) as replay:
        replayed = seen_of(program(base_url))
    assert (replayed, loopback.calls) == (live, calls)
    assert len(replay.report.replayed) == 5


def test_a_program_records_itself_with_vcrpy_for_the_network(
    recorded: tuple[str, Path, list[Any]], loopback: OpenAILoopback, tmp_path: Path
) -> None:
    """The way without an importer: the program runs once in a session while vcrpy answers for the network."""
    vcr = pytest.importorskip("vcr", reason="vcrpy is not installed")
    base_url, source, live = recorded
    calls = loopback.calls
    with vcr.use_cassette(str(source), record_mode="none"), use_cassette(tmp_path / "new.yaml", mode="once"):
        assert seen_of(program(base_url)) == live
    with use_cassette(tmp_path / "new.yaml") as replay:
        assert seen_of(program(base_url)) == live
    assert {call_record.match_rule for call_record in replay.report.replayed} == {"exact"}
    assert loopback.calls == calls
