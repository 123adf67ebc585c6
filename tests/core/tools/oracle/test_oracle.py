"""A tool oracle: files, look-ups and the HTTP service give what Python got, and never more."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenttape_core import boundary, open_cassette, use_cassette
from agenttape_core.cli.app import run
from agenttape_core.errors import (
    CassetteFormatError,
    CassetteNotFoundError,
    ConfigurationError,
    ReplayedError,
    UnrecordedCallError,
)
from agenttape_core.tools.oracle import (
    Entry,
    OracleServer,
    ToolOracle,
    Unknown,
    args_hash,
    entries_of,
    lines_of,
    oracle_of,
    read_oracle,
)

KEY = "sk-" + "proj-" + "9fKd83hGz61MqpWx" * 3
PARIS = {"city": "Paris"}


@pytest.fixture
def cassette(project: Path) -> Path:
    """A recording of tools: one asked twice the same, one that raises, one that is given a secret."""
    answers = iter(["sunny", "rainy", "cold"])

    @boundary("tool")
    def look(city: str) -> str:
        return next(answers)

    @boundary("tool")
    def pay(amount: float) -> str:
        raise ValueError("no money")

    @boundary("tool")
    def whoami(key: str) -> dict[str, str]:
        return {"you": f"the owner of {key}"}

    with use_cassette("run", mode="once"):
        look("Paris"), look("Paris"), look("Oslo")
        with pytest.raises(ValueError, match="no money"):
            pay(1.5)
        whoami(KEY)
    return project / "cassettes" / "run.yaml"


def test_entries_hold_name_hash_occurrence_and_end(cassette: Path) -> None:
    """The hash is SHA-256 over the canonical JSON of RFC 8785, and calls with equal arguments are numbered."""
    entries = [entry.plain() for entry in entries_of(open_cassette(cassette))]
    hashed = hashlib.sha256(b'{"city":"Paris"}').hexdigest()
    assert entries[:2] == [
        {"tool_name": "look", "args_hash": hashed, "occurrence": 1, "response": "sunny"},
        {"tool_name": "look", "args_hash": hashed, "occurrence": 2, "response": "rainy"},
    ]
    assert entries[3]["error"] == {"type": "builtins:ValueError", "message": "no money"}
    assert entries[3]["args_hash"] == hashlib.sha256(b'{"amount":1.5}').hexdigest()
    assert KEY not in json.dumps(entries)


@given(st.dictionaries(st.text(), st.none() | st.booleans() | st.text() | st.integers(-(2**53) + 1, 2**53 - 1)))
def test_hash_depends_on_no_order(args: dict[str, Any]) -> None:
    """Arguments in another order, or written and read as JSON, have the same hash."""
    turned = dict(reversed(list(args.items())))
    assert args_hash(args) == args_hash(turned) == args_hash(json.loads(json.dumps(args)))


@pytest.mark.parametrize("number", [2**53, float("nan"), float("inf")])
def test_arguments_without_canonical_form_are_refused(number: float) -> None:
    """A number that JSON of other languages cannot hold is an error that says what to do."""
    with pytest.raises(ConfigurationError, match="as text"):
        args_hash({"n": number})


@given(st.lists(st.tuples(st.sampled_from(["a", "b"]), st.dictionaries(st.text(), st.text()), st.text() | st.none())))
def test_file_comes_back(
    tmp_path_factory: pytest.TempPathFactory, calls: list[tuple[str, dict[str, str], Any]]
) -> None:
    """What is written as an oracle file is read as the same entries."""
    entries = {(name, args_hash(args)): Entry(name, args_hash(args), 1, response) for name, args, response in calls}
    path = tmp_path_factory.mktemp("oracle") / "oracle.json"
    path.write_text("\n".join(lines_of(entries.values())))
    assert [each.plain() for each in read_oracle(path)] == [each.plain() for each in entries.values()]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "this isn't JSON"),
        ("[" * 100_000, "this isn't JSON"),
        ("{}", "found an object"),
        ('[{"tool_name": "a", "tool_name": "b"}]', "'tool_name' occurs twice"),
        ("[1]", "entry 1 is a number"),
        ('[{"args_hash": "%h", "response": 1}]', "entry 1 has no tool_name"),
        ('[{"tool_name": "a", "args_hash": "abc", "response": 1}]', "no args_hash"),
        ('[{"tool_name": "a", "args_hash": "%h", "occurrence": 0, "response": 1}]', "occurrence 0"),
        ('[{"tool_name": "a", "args_hash": "%h"}]', "either a response or an error"),
        ('[{"tool_name": "a", "args_hash": "%h", "error": "x"}]', "without type and message"),
        (
            (
                '[{"tool_name": "a", "args_hash": "%h", "response": 1},'
                ' {"tool_name": "a", "args_hash": "%h", "response": 2}]'
            ),
            "entries 1 and 2 both answer call 1 of a",
        ),
    ],
)
def test_bad_files_are_refused(tmp_path: Path, text: str, problem: str) -> None:
    """A file that is no oracle, or answers a call twice, is refused with the entry and what was expected."""
    path = tmp_path / "oracle.json"
    path.write_text(text.replace("%h", "0" * 64))
    with pytest.raises(CassetteFormatError, match=re.escape(problem)):
        read_oracle(path)
    with pytest.raises(CassetteNotFoundError, match="export CASSETTE --format oracle"):
        read_oracle(tmp_path / "none.json")


def test_each_recording_answers_once(cassette: Path) -> None:
    """Equal calls get the recorded answers in their order; one too many, or another one, is unrecorded."""
    oracle = oracle_of(open_cassette(cassette))
    answers = [oracle.look_up("look", PARIS) for _ in range(3)]
    assert [each.response for each in answers if isinstance(each, Entry)] == ["sunny", "rainy"]
    assert str(answers[2]) == "no recording for tool look: it was called so 2 times only"
    other, unknown = oracle.look_up("look", {"city": "Rome"}), oracle.look_up("lok", PARIS)
    assert isinstance(other, Unknown)
    assert other.differences[0].startswith("city: recorded ")
    assert str(unknown) == "no recording for tool lok: this tool was never called; did you mean look?"
    assert oracle.answered == 2
    assert oracle.unrecorded == [answers[2], other, unknown]


def test_oracle_is_fakes_in_python(cassette: Path) -> None:
    """Each tool is a function: it returns or raises what was recorded, with its secrets, or is unrecorded."""
    functions = oracle_of(open_cassette(cassette)).functions()
    assert functions["look"](city="Oslo") == "cold"
    assert functions["whoami"](key=KEY) == {"you": f"the owner of {KEY}"}
    with pytest.raises(ReplayedError, match="no money"):
        functions["pay"](amount=1.5)
    with pytest.raises(UnrecordedCallError, match="its arguments are others"):
        functions["pay"](amount=2)


def ask(server: OracleServer, body: bytes | None, path: str = "/tool", **headers: str) -> tuple[int, Any]:
    """Return the status and the body of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    try:
        connection.request("GET" if body is None else "POST", path, body, headers)
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    finally:
        connection.close()


def test_service_answers_as_the_oracle(cassette: Path) -> None:
    """A call over HTTP gets the recorded entry; one that is unknown gets 404, and is listed as unrecorded."""
    with OracleServer(oracle_of(open_cassette(cassette))) as server:
        asked = json.dumps({"tool_name": "look", "args": PARIS}).encode()
        assert [ask(server, asked)[1]["response"] for _ in range(2)] == ["sunny", "rainy"]
        status, refused = ask(server, asked)
        assert (status, refused["occurrence"], refused["nearest"]) == (404, 3, 2)
        again = json.dumps({"tool_name": "look", "args": PARIS, "occurrence": 1}).encode()
        assert ask(server, again)[1]["response"] == "sunny"
        status, listed = ask(server, None, "/unrecorded")
        assert (status, listed["answered"]) == (200, 3)
        assert [each["tool_name"] for each in listed["unrecorded"]] == ["look"]


@pytest.mark.parametrize(
    ("body", "path", "status"),
    [
        (b"{", "/tool", 400),
        (b"[]", "/tool", 400),
        (b'{"tool_name": "a"}', "/tool", 400),
        (b'{"tool_name": "a", "args": {}, "occurrence": 0}', "/tool", 400),
        (b'{"tool_name": "a", "args": {"n": 9007199254740993}}', "/tool", 400),
        (b'{"tool_name": "a", "args": {"n": 1, "n": 2}}', "/tool", 400),
        (b'{"tool_name": "a", "args": {}, "args_hash": "00"}', "/tool", 400),
        (b'{"tool_name": "a", "args_hash": "00"}', "/tool", 400),
        (b'{"tool_name": "a", "args": {"n": [' + b"[]," * 300_000 + b"[]]}}", "/tool", 400),
        (b"{}", "/other", 404),
        (None, "/other", 404),
    ],
)
def test_service_refuses_what_is_wrong(body: bytes | None, path: str, status: int) -> None:
    """A request that is no question gets an error that says what was expected, and is no unrecorded."""
    oracle = ToolOracle([])
    with OracleServer(oracle) as server:
        found, said = ask(server, body, path)
        assert found == status
        assert said["error"]
    assert not oracle.unrecorded


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 403),
        ({"Host": "127.0.0.1.evil.example"}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Content-Type": "text/plain"}, 415),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 415),
        ({"Content-Length": "\xb2"}, 400),
        ({"Content-Length": "9" * 5000}, 400),
        ({"Content-Type": "application/json; charset=utf-8"}, 200),
    ],
)
def test_pages_of_other_sites_use_nothing_up(headers: dict[str, str], status: int) -> None:
    """What a page of another site can send gets no answer and uses none up; nor does a length that is no number."""
    oracle = ToolOracle([Entry("t", args_hash({}), 1, response=1)])
    body = json.dumps({"tool_name": "t", "args": {}})
    with OracleServer(oracle) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
        connection.putrequest("POST", "/tool", skip_host="Host" in headers)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            connection.putheader(name, value)
        connection.endheaders(body.encode())
        assert connection.getresponse().status == status
        connection.close()
    assert (oracle.answered, oracle.unknown) == (int(status == 200), 0)


@pytest.mark.parametrize(("error", "is_told"), [(ConnectionResetError("gone"), False), (ValueError("odd"), True)])
def test_a_client_that_has_left_is_no_error(
    error: Exception, is_told: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """A client that closes its connection before its answer leaves no traceback; other errors do."""
    with OracleServer(ToolOracle([])) as server:
        try:
            raise error
        except type(error):
            server.handle_error(None, ("127.0.0.1", 1))
    assert bool(capsys.readouterr().err) is is_told


def test_unknown_calls_are_kept_in_bounds() -> None:
    """Of unknown calls the first thousand are kept, with names of a bounded length, and all are counted."""
    oracle = ToolOracle([])
    for number in range(1_200):
        oracle.look_up("x" * 10_000, {"n": number})
    assert (oracle.unknown, len(oracle.unrecorded), len(oracle.unrecorded[0].tool_name)) == (1_200, 1_000, 500)


@pytest.mark.process
@pytest.mark.skipif(shutil.which("node") is None, reason="needs Node.js")
def test_a_client_in_another_language() -> None:
    """A client in JavaScript that computes the hash by itself gets the same answers as with the arguments."""
    node = dedent("""
        const { createHash } = require("node:crypto");
        const canonical = (v) => Array.isArray(v) ? `[${v.map(canonical)}]` : v && typeof v === "object"
          ? `{${Object.keys(v).sort().map((k) => `${JSON.stringify(k)}:${canonical(v[k])}`)}}` : JSON.stringify(v);
        const args = JSON.parse(process.argv[2]);
        const args_hash = createHash("sha256").update(canonical(args)).digest("hex");
        const ask = async (body) => {
          const answer = await fetch(`${process.argv[1]}/tool`, {
            method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" },
          });
          return [answer.status, (await answer.json()).response];
        };
        (async () => console.log(JSON.stringify([
          await ask({ tool_name: "t", args }),
          await ask({ tool_name: "t", args_hash }),
          await ask({ tool_name: "t", args_hash }),
        ])))();
    """)
    # Names and numbers that languages write and sort in different ways (RFC 8785, 3.2.2 and 3.2.3).
    hard = {
        "\u20ac": 1e21,
        "\r": -0.0,
        "\ufb33": 1e-7,
        "\U0001f600": [0.000001, 333333333.33333329],
        "1": "\u2028\x7f\x0f/",
        "": {},
    }

    entries = [Entry("t", args_hash(hard), times, response=times) for times in (1, 2)]
    with OracleServer(ToolOracle(entries)) as server:
        asked = ["node", "-e", node, "--", server.url, json.dumps(hard)]
        said = subprocess.run(asked, capture_output=True, text=True, timeout=60, check=True).stdout
    assert json.loads(said) == [[200, 1], [200, 2], [404, None]]


def test_concurrent_clients() -> None:
    """Each recording is answered once, whoever asks at the same time."""
    oracle = ToolOracle([Entry("t", args_hash(PARIS), times, response=times) for times in range(1, 101)])
    with ThreadPoolExecutor(8) as pool:
        found = [each.result() for each in [pool.submit(oracle.look_up, "t", PARIS) for _ in range(120)]]
    assert sorted(each.response for each in found if isinstance(each, Entry)) == list(range(1, 101))
    assert len(oracle.unrecorded) == 20


def test_export_and_serve_are_commands(cassette: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`export` writes the file that `read_oracle` reads; several runs have no single oracle; a port in use fails."""
    assert run(["export", str(cassette), "--format", "oracle", "-o", "oracle.json"]) == 0
    assert capsys.readouterr().out == "1 cassette, 5 answers exported to oracle.json\n"
    assert [each.plain() for each in read_oracle("oracle.json")] == [
        each.plain() for each in entries_of(open_cassette(cassette))
    ]
    (cassette.parent / "other.yaml").write_bytes(cassette.read_bytes())
    assert run(["export", str(cassette.parent), "--format", "oracle"]) == 2
    with OracleServer(ToolOracle([])) as server:
        assert run(["serve", "oracle.json", "--port", str(server.server_port)]) == 2
    assert "cannot be used" in capsys.readouterr().err


@pytest.mark.process
@pytest.mark.usefixtures("interruptible")
def test_serve_ends_with_what_was_unknown(cassette: Path) -> None:
    """The command serves until Ctrl-C, lists what was unknown, and ends with 1."""
    command = [sys.executable, "-c", "from agenttape_core.cli import main; main()", "serve", str(cassette)]
    environment: Mapping[str, str] = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as served:
        try:
            assert served.stdout is not None
            first = served.stdout.readline()
            port = int(re.findall(r":(\d+)/tool", first)[0])
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
            connection.request("POST", "/tool", json.dumps({"tool_name": "walk", "args": {}}))
            assert connection.getresponse().status == 404
            connection.close()
            served.send_signal(signal.SIGINT)
            out, _ = served.communicate(timeout=60)
        finally:
            served.kill()
    assert served.returncode == 1
    assert out.splitlines() == [
        "no recording for tool walk: this tool was never called; recorded are look, pay, whoami",
        "0 calls answered, 1 unknown",
    ]
