"""The engines on the page about fleets: Dask maps over items, and Kubernetes runs a shard in each pod."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

from agenttape_core.fleet import read_report
from agenttape_core.fleet.items import shard_named

from . import desk
from .conftest import Command

PAGE = Path(__file__).resolve().parents[3] / "docs" / "fleets.md"


def shown(name: str) -> str:
    """Return a file that the page shows."""
    found = re.search(
        rf'^```\w+ {{project="\w+" file="{name}"}}\n(.*?)^```', PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    assert found is not None
    return found[1]


@pytest.mark.process
@pytest.mark.skipif(find_spec("distributed") is None, reason="distributed is needed")
def test_dask(fleet: Command) -> None:
    """Two workers of a local cluster do all items of a plan, and one report has all outcomes."""
    desk.record(Path("runs"), ["Paris", "Oslo", "Rome refund", "Bern"])
    Path("rules.yaml").write_text("checks: 1\nevery:\n- never: refund\n")
    Path("items.jsonl").write_text(fleet("plan", "runs", "--experiment", "check", "--checks", "rules.yaml").out)
    Path("on_dask.py").write_text(shown("on_dask.py"))
    ended = subprocess.run([sys.executable, "on_dask.py"], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    report = read_report(["results"])
    assert (report.verdicts()["same"], report.verdicts()["broken"], report.missing) == (3, 1, [])


def test_kubernetes_job(tmp_path: Path) -> None:
    """The indexed job is valid, short, and its pods do disjoint shards that are all of the plan."""
    text = shown("job.yaml")
    assert len(text.splitlines()) <= 25
    job = yaml.safe_load(text)
    spec, pod = job["spec"], job["spec"]["template"]["spec"]
    assert (job["apiVersion"], job["kind"], spec["completionMode"]) == ("batch/v1", "Job", "Indexed")
    assert set(job) == {"apiVersion", "kind", "metadata", "spec"}
    fields = {"completionMode", "completions", "parallelism", "backoffLimitPerIndex", "template"}
    assert set(spec) <= fields, "fields of JobSpec"
    assert set(pod) == {"restartPolicy", "containers"}
    assert pod["restartPolicy"] == "Never", "which backoffLimitPerIndex needs"
    (container,) = pod["containers"]
    assert set(container) <= {"name", "image", "command", "env"}
    assert all(isinstance(word, str) for word in container["command"])
    assert container["command"][container["command"].index("--shard") + 1] == "env"
    variables = {one["name"]: one["value"] for one in container["env"]}
    shards = [
        shard_named("env", {**variables, "JOB_COMPLETION_INDEX": str(index)}) for index in range(spec["completions"])
    ]
    assert shards == [(number, spec["completions"]) for number in range(1, spec["completions"] + 1)]
    if (validator := shutil.which("kubernetes-validate")) is not None:
        (tmp_path / "job.yaml").write_text(text)
        assert subprocess.run([validator, "--strict", tmp_path / "job.yaml"], check=False).returncode == 0
