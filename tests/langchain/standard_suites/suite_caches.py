"""The standard suites of caches: on LangChain's own one, then on `TapeCache` as it records and as it goes on."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from langchain_core.caches import BaseCache, InMemoryCache
from langchain_tests.integration_tests import AsyncCacheTestSuite, SyncCacheTestSuite

from agenttape_langchain import TapeCache

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class OfTape:
    automatic = None  # a cache needs no session

    @pytest.fixture
    def cache(self, run: str, cassette: Path) -> Iterator[BaseCache]:
        if run == "plain":
            yield InMemoryCache()
            return
        # The suites look up what is not there: in mode `replay` that is a miss.
        with TapeCache(cassette, mode="all" if run == "recording" else "new_episodes") as cache:
            yield cache


class TestCache(OfTape, SyncCacheTestSuite):
    pass


class TestAsyncCache(OfTape, AsyncCacheTestSuite):
    pass
