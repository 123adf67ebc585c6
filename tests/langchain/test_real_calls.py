"""The real client makes exactly the recorded calls, so that they can be recorded and replayed."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest
from langchain_core.messages import AIMessage
from langchain_openai import ChatOpenAI

from .conftest import SHARED, RealExchanges
from .real_calls import CALLS

if TYPE_CHECKING:
    from collections.abc import Callable

NOT_A_CHAT_MODEL = {"langchain_openai_embeddings_equivalent_to_raw"}


@pytest.mark.parametrize("name", CALLS)
def test_calls_equal_recorded_requests(name: str, real_exchanges: Callable[[str], RealExchanges]) -> None:
    """Each recorded exchange is asked for once, as recorded, and comes as one message or as several chunks."""
    service = real_exchanges(name)
    results = CALLS[name](partial(ChatOpenAI, base_url=service.base_url, api_key="x"))
    assert service.stats() == {"served": len(service.exchanges), "missed": 0}
    streamed = [exchange["request"]["stream"] for exchange in service.exchanges]
    assert [isinstance(result, list) and len(result) > 1 for result in results] == streamed
    assert all(result if isinstance(result, list) else isinstance(result, AIMessage) for result in results)


def test_every_data_file_has_its_calls() -> None:
    """No file of real exchanges is left out in silence."""
    folder = SHARED / "data" / "openai"
    if not folder.exists():
        pytest.skip("the real exchanges are not here: ../shared/data/openai")
    assert {path.stem for path in folder.glob("*.jsonl")} == CALLS.keys() | NOT_A_CHAT_MODEL


def test_service_can_be_taken_away(real_exchanges: Callable[[str], RealExchanges]) -> None:
    """After `stop` nothing answers any more, so that a replay can not lean on the service."""
    service = real_exchanges("reasoning")
    service.stop()
    with pytest.raises(OSError, match="refused"):
        service.stats()
