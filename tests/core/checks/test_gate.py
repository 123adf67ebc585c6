"""`agenttape check`: exit codes, cases, baselines, and reports that other people's parsers read."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from junitparser import JUnitXml

from agenttape_core import boundary, use_cassette
from agenttape_core.cli.app import run
from agenttape_core.storage.files import pack

from .conftest import QUESTION, ask, support

CHECKS = """\
checks: 1
every:
- never: delete_account
- before: [look_up, refund]
"""


@pytest.fixture
def command(recorded: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """Run a command line in the folder of the cassette; return the exit code and what it printed."""

    def command(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = run(list(words))
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    (recorded.parent / "checks.yaml").write_text(CHECKS)
    return command


def test_exit_codes(command: Any, recorded: Path) -> None:
    """All passed is 0, a finding 1, malformed checks 2, an unreadable run 3; the others are judged all the same."""
    code, out, _ = command("check", "--checks", "checks.yaml")
    assert (code, out.strip()) == (0, "1 run, 4 checks: all passed")
    Path("strict.yaml").write_text("checks: 1\nevery:\n- never: refund\n")
    code, out, _ = command("check", "--checks", "strict.yaml")
    assert code == 1
    assert "support.yaml:" in out
    assert "1 run, 3 checks: 1 run failed" in out
    Path("typo.yaml").write_text("checks: 1\nevery:\n- nevr: refund\n")
    code, _, err = command("check", "--checks", "typo.yaml")
    assert (code, "did you mean 'never'?" in err) == (2, True)
    assert command("check")[:2] == (0, "1 run, 2 checks: all passed\n")
    Path("a_broken.yaml").write_text(recorded.read_text()[:-30])
    code, out, _ = command("check", "--checks", "strict.yaml")
    assert code == 3
    assert "2 runs, 4 checks: 2 runs failed" in out
    (recorded.parent / "empty").mkdir()
    assert command("check", "empty", "--checks", "checks.yaml")[0] == 3


def test_cases(command: Any) -> None:
    """A case is for the run with exactly its prompt; a case without one fails and shows the words of the nearest."""
    Path("cases.yaml").write_text(
        f"checks: 1\ncases:\n- prompt: {QUESTION}\n  output: {{contains: Paris}}\n"
        f"- prompt: {QUESTION[:-1]} please?\n  name: polite\n  output: {{contains: Paris}}\n"
    )
    code, out, _ = command("check", "support.yaml", "--checks", "cases.yaml", "--json")
    first, second = json.loads(out)["runs"]
    assert (code, first["passed"], second["passed"], second["run"]) == (1, True, False, "cases.yaml: polite")
    (finding,) = second["checks"][0]["findings"]
    assert (finding["found"], finding["line"]) == (QUESTION, 5)
    assert finding["differences"] == [
        {"path": "prompt", "expected": "May I have my money back[- please-]?", "found": "May I have my money back?"}
    ]


def test_a_trace_is_a_backend(command: Any) -> None:
    """What is exported as a trace passes the cases that the cassette passes; a duplicate ends with 3."""
    code, _, _ = command("export", "support.yaml", "--format", "jsonl-trace", "-o", "t.jsonl")
    assert code == 0
    Path("cases.yaml").write_text(f"{CHECKS}cases:\n- prompt: {QUESTION}\n  output: {{contains: Paris}}\n")
    assert command("check", "--trace", "t.jsonl", "--checks", "cases.yaml")[0] == 0
    Path("t.jsonl").write_text(Path("t.jsonl").read_text() * 2)
    code, _, err = command("check", "--trace", "t.jsonl", "--checks", "cases.yaml")
    assert (code, "t.jsonl:2: the prompt is already on line 1" in err) == (3, True)
    Path("again.yaml").write_text(Path("support.yaml").read_text())
    code, _, err = command("export", ".", "--format", "jsonl-trace", "-o", "both.jsonl")
    assert (code, "again.yaml, turn 1, and support.yaml, turn 1, have the same prompt" in err) == (3, True)
    assert not Path("both.jsonl").exists()


@pytest.mark.parametrize("name", ["t.jsonl.gz", "t.jsonl.zst"])
def test_packed_traces(command: Any, name: str) -> None:
    """An export is packed by its suffix, the same bytes each time, and a packed trace is a backend as it is."""
    assert command("export", "support.yaml", "--format", "jsonl-trace", "-o", "t.jsonl")[0] == 0
    for _ in range(2):
        assert command("export", "support.yaml", "--format", "jsonl-trace", "-o", name)[0] == 0
        written = Path(name).read_bytes()
    assert written == pack(Path(name), Path("t.jsonl").read_bytes()) != Path("t.jsonl").read_bytes()
    Path("cases.yaml").write_text(f"{CHECKS}cases:\n- prompt: {QUESTION}\n  output: {{contains: Paris}}\n")
    assert command("check", "--trace", name, "--checks", "cases.yaml")[0] == 0


def test_baseline(command: Any) -> None:
    """A run may take as much as in the baseline and its slack, with the same tools; the file is byte-stable."""
    assert command("check", "support.yaml", "--write-baseline", "--baseline", "b.json")[0] == 0
    written = Path("b.json").read_bytes()
    assert command("check", "support.yaml", "--write-baseline", "--baseline", "b.json")[0] == 0
    assert Path("b.json").read_bytes() == written
    assert command("check", "support.yaml", "--baseline", "b.json")[0] == 0
    facts = json.loads(written)
    facts["runs"]["support.yaml"].update(tokens=320, calls=4, tools=["look_up"])
    Path("b.json").write_text(json.dumps(facts))
    _, out, _ = command("check", "support.yaml", "--baseline", "b.json", "--json")
    found = [each["message"] for each in json.loads(out)["runs"][0]["checks"][0]["findings"]]
    assert found == [
        "5 calls, and 4 calls in the baseline",
        "350 tokens, and 320 tokens in the baseline",
        "the tools are others than in the baseline",
    ]
    _, out, _ = command("check", "support.yaml", "--baseline", "b.json", "--slack", "tokens=10%,calls=1", "--json")
    assert len(json.loads(out)["runs"][0]["checks"][0]["findings"]) == 1
    for slack in ("token=1", "tokens=", "tokens=-1", "tokens=nan"):
        assert command("check", "support.yaml", "--baseline", "b.json", "--slack", slack)[0] == 2
    Path("new.yaml").write_text(Path("support.yaml").read_text())
    code, out, _ = command("check", "new.yaml", "--baseline", "b.json")
    assert (code, "new.yaml: baseline: the run is not in b.json" in out) == (0, True)
    Path("b.json").write_text("[]")
    assert command("check", "new.yaml", "--baseline", "b.json")[0] == 2


SARIF = """
required: [version, runs]
properties:
  version: {const: 2.1.0}
  runs:
    items:
      required: [tool]
      additionalProperties: false
      properties:
        columnKind: {enum: [utf16CodeUnits, unicodeCodePoints]}
        tool: {properties: {driver: {required: [name], properties: {rules: {uniqueItems: true}}}}}
        results:
          items:
            required: [message]
            additionalProperties: false
            properties:
              ruleId: {type: string}
              ruleIndex: {type: integer, minimum: -1}
              level: {enum: [none, note, warning, error]}
              message: {required: [text]}
              partialFingerprints: {additionalProperties: {type: string}}
              locations:
                items:
                  additionalProperties: false
                  properties:
                    logicalLocations: {type: array}
                    physicalLocation:
                      properties: {region: {properties: {startLine: {type: integer, minimum: 1}}}}
"""
"""The rules of SARIF's schema for the parts that are written."""
HARD = 'output: {equals: "\\0\\e[31m`</failure>]]> \\uD7FF ::error|"}'


def test_reports_are_read_back(command: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """JUnit, SARIF, TRX, Markdown and annotations hold the findings, whatever characters stand in them."""
    Path("hard.yaml").write_text(f"{CHECKS}- {HARD}\n- never: refund\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    files = [word for name in ("j.xml", "s.sarif", "t.trx", "m.md") for word in ("--report", name)]
    code, out, _ = command("check", "support.yaml", "--checks", "hard.yaml", *files, "--github")
    assert code == 1

    (suite,) = JUnitXml.fromfile("j.xml")
    results = [(case.name, [each.type for each in case.result]) for case in suite]
    assert [types for _, types in results] == [[], [], ["output"], ["never"], [], []]
    assert (suite.tests, suite.failures) == (6, 2)

    report = json.loads(Path("s.sarif").read_text())
    jsonschema.validate(report, yaml.safe_load(SARIF))
    second = report["runs"][0]["results"][1]
    where = second["locations"][0]["physicalLocation"]
    assert (second["ruleId"], where["artifactLocation"]["uri"]) == ("never", "support.yaml")
    assert "interaction: 4" in Path("support.yaml").read_text().splitlines()[where["region"]["startLine"] - 1]

    space = {"t": "http://microsoft.com/schemas/VisualStudio/TeamTest/2010"}
    root = ET.parse("t.trx").getroot()
    outcomes = [each.get("outcome") for each in root.findall("t:Results/t:UnitTestResult", space)]
    assert outcomes == ["Passed", "Passed", "Failed", "Failed", "Passed", "Passed"]
    ids = {each.get("testId") for each in root.findall("t:Results/t:UnitTestResult", space)}
    assert ids == {each.get("id") for each in root.findall("t:TestDefinitions/t:UnitTest", space)}
    counters = root.find("t:ResultSummary/t:Counters", space)
    assert counters is not None
    assert (counters.get("total"), counters.get("failed")) == ("6", "2")

    annotations = [line for line in out.splitlines() if line.startswith("::")]
    assert len(annotations) == 2
    assert annotations[1].startswith(
        f"::error file=support.yaml,line={where['region']['startLine']},title=support.yaml%3A never::"
    )
    assert Path("summary.md").read_text().startswith("### AgentTape: 1 run, 6 checks: 1 run failed")
    assert Path("m.md").read_text().count("```") == 2


CANARY = "kanarienvogel"


def test_no_byte_of_a_prompt(command: Any) -> None:
    """With --redact-prompts, no report or export has a word or character of a prompt or of instructions."""
    with use_cassette(Path("canary.yaml"), mode="all"):
        support(f"Is x7 {CANARY}?", f"x7-{CANARY.upper()}: yes, {CANARY}s; {{}}")
        ask("gpt-5", [{"role": "system", "content": "Be brief!"}, {"role": "user", "content": f"{CANARY}?"}], "Yes.")
    Path("strict.yaml").write_text(
        f"checks: 1\nevery:\n- output: {{equals: 'no'}}\n- output: {{regex: ^{CANARY}$}}\n"
        f"cases:\n- prompt: Is x7 {CANARY} not?\n  output: {{contains: {CANARY}}}\n"
    )
    reports = ["j.xml", "s.sarif", "t.trx", "m.md"]
    words = [word for name in reports for word in ("--report", name)]
    printed = [
        command("check", "canary.yaml", "--checks", "strict.yaml", "--redact-prompts", *words, *more)[1]
        for more in ([], ["--json"], ["--github"])
    ]
    exported = [
        command("export", "canary.yaml", "--format", form, *content, "--redact-prompts")[1]
        for form, content in (("json", []), ("jsonl", []), ("otel", ["--content"]))
    ]
    for text in [*printed, *exported, *(Path(name).read_text() for name in reports)]:
        assert CANARY not in text.casefold()
        assert "x7" not in text
        assert "[REDACTED]" in text
    assert not any(part in text for text in exported for part in ("[REDACTED]?", "brief", "[REDACTED]!"))
    assert command("export", "canary.yaml", "--format", "jsonl-trace", "--redact-prompts")[0] == 2


def test_a_case_matches_a_prompt_with_a_secret_found_elsewhere(command: Any) -> None:
    """A case whose prompt holds a secret that a tool gives away has its run."""
    secret = "Kx9tundra77"

    @boundary("tool")
    def login() -> dict[str, str]:
        return {"password": secret}

    with use_cassette(Path("elsewhere.yaml"), mode="all"):
        support(f"hello {secret}, go", "yes")
        login()
    assert secret not in Path("elsewhere.yaml").read_text()
    Path("cases.yaml").write_text(f"checks: 1\ncases:\n- prompt: hello {secret}, go\n  output: {{contains: 'yes'}}\n")
    assert command("check", "elsewhere.yaml", "--checks", "cases.yaml")[0] == 0
