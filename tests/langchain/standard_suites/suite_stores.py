"""The standard suites of key-value stores, on the ones of langchain-core."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.stores import BaseStore, InMemoryByteStore, InMemoryStore
from langchain_tests.integration_tests import BaseStoreAsyncTests, BaseStoreSyncTests

from agenttape_langchain import tape


class OfBytes:
    ambient = True

    @pytest.fixture
    def kv_store(self) -> BaseStore[str, Any]:
        return InMemoryByteStore()

    @pytest.fixture
    def three_values(self) -> tuple[Any, Any, Any]:
        return b"foo", b"b\x00r", "bücher".encode()


class OfObjects:
    """The same, taped, with values of any kind, in a session that tapes nothing else."""

    ambient = False

    @pytest.fixture
    def kv_store(self) -> BaseStore[str, Any]:
        return tape(InMemoryStore())

    @pytest.fixture
    def three_values(self) -> tuple[Any, Any, Any]:
        return "foo", {"deep": [1, 2.5, None]}, ("a", "tuple")


class TestBytes(OfBytes, BaseStoreSyncTests[bytes]):
    pass


class TestBytesAsync(OfBytes, BaseStoreAsyncTests[bytes]):
    pass


class TestObjectsTaped(OfObjects, BaseStoreSyncTests[Any]):
    pass


class TestObjectsTapedAsync(OfObjects, BaseStoreAsyncTests[Any]):
    pass
