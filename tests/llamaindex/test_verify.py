"""`verify` finds old defects of replays of LlamaIndex's programs when they are put back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from agenttape_core import verify

from . import put_back

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.process


def test_defects_that_are_put_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pytestconfig: pytest.Config
) -> None:
    """Sets that go into prompts are blamed on the hash seed, and a fan-out in another order is not as recorded."""
    if pytestconfig.getoption("replays") < 20:
        pytest.skip("run by make identical: it starts a dozen processes with LlamaIndex")
    monkeypatch.chdir(tmp_path)
    assert put_back.all_programs()["fan_out"] == "c b a"
    sound = verify(put_back.all_programs, runs=2, vary={"hash_seed", "schedule"})
    assert sound.ok, str(sound)
    monkeypatch.setenv("PUT_BACK", "1")
    found = verify(put_back.all_programs, runs=2, vary={"hash_seed"})
    for program, cause in (("set_in_a_prompt", "hash seed"), ("triplets", "hash seed"), ("fan_out", "not as recorded")):
        assert cause in {each.cause.name for each in found.differences if program in each.what}, str(found)
