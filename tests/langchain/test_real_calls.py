"""The real client makes exactly the recorded calls, so that they can be recorded and replayed."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableLambda
from langchain_openai import ChatOpenAI

from agenttape_core import use_cassette
from agenttape_langchain import ReplayChatModel, TapeCallbackHandler, tape

from .conftest import SHARED, RealExchanges
from .real_calls import CALLS, Foo
from .shapes import seen

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Start = Callable[[str], RealExchanges]

# langchain-openai up to 1.7, serialising a parsed object
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")]

LIKE_OTHERS = {"agent_loop", "chat_completions_long_stream", "code_interpreter", "incomplete_response", "reasoning"}
"""Calls of which a handler sees nothing that other calls don't have."""
NOT_A_CHAT_MODEL = {"langchain_openai_embeddings_equivalent_to_raw"}


def test_every_data_file_has_its_calls() -> None:
    """No file of real exchanges is left out in silence."""
    folder = SHARED / "data" / "openai"
    if not folder.exists():
        pytest.skip("the real exchanges are not here: ../shared/data/openai")
    assert {path.stem for path in folder.glob("*.jsonl")} == CALLS.keys() | NOT_A_CHAT_MODEL


@pytest.mark.sweep
@pytest.mark.parametrize("automatic", [True, False], ids=["automatic", "taped"])
@pytest.mark.parametrize("name", CALLS)
def test_recorded_calls_replay_without_the_service(
    name: str, automatic: bool, real_exchanges: Start, tmp_path: Path
) -> None:
    """With the service gone, every real call comes back: same types, same values, same ids, chunk by chunk."""
    service = real_exchanges(name)
    cassette = tmp_path / f"{name}.yaml"
    chat: Any = partial(ChatOpenAI, base_url=service.base_url, api_key="x")
    if not automatic:
        chat = lambda **kwargs: tape(ChatOpenAI(base_url=service.base_url, api_key="x", **kwargs))  # noqa: E731
    with use_cassette(cassette, mode="once", auto=automatic):
        recorded = CALLS[name](chat)
    assert service.stats() == {"served": len(service.exchanges), "missed": 0}
    service.stop()
    with use_cassette(cassette, auto=automatic) as replay:
        replayed = CALLS[name](chat)
    assert seen(replayed) == seen(recorded)
    replayed = [call_record for call_record in replay.report.replayed if call_record.kind == "chat"]
    assert [call_record.match_rule for call_record in replayed] == ["exact"] * len(service.exchanges)
    assert replay.report.recorded == replay.report.unused == ()


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.night] * (name in LIKE_OTHERS)) for name in CALLS]
)
def test_observed_calls_replay_without_the_service(name: str, real_exchanges: Start, tmp_path: Path) -> None:
    """Observed real calls replay with the same results, with all ids: in a session, and by a stand-in model."""
    service = real_exchanges(name)
    calls = RunnableLambda(lambda _: CALLS[name](partial(ChatOpenAI, base_url=service.base_url, api_key="x")))
    handler = TapeCallbackHandler(tmp_path / f"{name}.yaml")
    observed = calls.invoke({}, config={"callbacks": [handler]})
    assert handler.errors == []
    service.stop()
    with use_cassette(handler.path) as replay:
        replayed = calls.invoke({})
    assert seen(replayed) == seen(observed)
    assert {call_record.match_rule for call_record in replay.report.replayed} == {"exact"}
    assert replay.report.recorded == replay.report.unused == ()

    models = {version: ReplayChatModel(handler.path, output_version=version) for version in (None, "v1")}

    def stand_in(output_version: str | None = None, **_: Any) -> Any:
        return models["v1" if output_version == "v1" else None]

    assert seen(CALLS[name](stand_in)) == seen(observed)
    assert sum(len(model.report.replayed) for model in models.values()) == len(service.exchanges)


def test_replay_model_parses_real_structured_output(real_exchanges: Start, tmp_path: Path) -> None:
    """`with_structured_output` of the stand-in finds what the real one got, and builds the schema of this process."""
    service = real_exchanges("parsed_pydantic_schema")
    handler = TapeCallbackHandler(tmp_path / "parsed.yaml")
    chat = partial(ChatOpenAI, base_url=service.base_url, api_key="x", callbacks=[handler])
    plain, _ = CALLS["parsed_pydantic_schema"](chat)
    service.stop()
    assert isinstance(plain, AIMessage)
    structured = ReplayChatModel(handler.path).with_structured_output(Foo, include_raw=True)
    assert structured.invoke("how are ya") == {
        "raw": plain,
        "parsed": Foo(**json.loads(plain.text)),
        "parsing_error": None,
    }
