"""The standard suites of key-value stores: on one elsewhere, and on one in memory, which runs."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.stores import BaseStore, InMemoryByteStore
from langchain_tests.integration_tests import BaseStoreAsyncTests, BaseStoreSyncTests

from agenttape_langchain import tape

from .originals import RemoteItems


class OfBytes:
    automatic = True

    @pytest.fixture
    def kv_store(self) -> BaseStore[str, Any]:
        return RemoteItems()

    @pytest.fixture
    def three_values(self) -> tuple[Any, Any, Any]:
        return b"foo", b"b\x00r", "bücher".encode()


class OfObjects:
    """The same, taped, with values of any kind, in a session that tapes nothing else."""

    automatic = False

    @pytest.fixture
    def kv_store(self) -> BaseStore[str, Any]:
        return tape(RemoteItems())

    @pytest.fixture
    def three_values(self) -> tuple[Any, Any, Any]:
        return "foo", {"deep": [1, 2.5, None]}, ("a", "tuple")


class InMemory(OfBytes):
    """The one of langchain-core."""

    @pytest.fixture
    def kv_store(self) -> BaseStore[str, Any]:
        return InMemoryByteStore()


class TestBytes(OfBytes, BaseStoreSyncTests[bytes]):
    pass


class TestBytesAsync(OfBytes, BaseStoreAsyncTests[bytes]):
    pass


class TestObjectsTaped(OfObjects, BaseStoreSyncTests[Any]):
    pass


class TestObjectsTapedAsync(OfObjects, BaseStoreAsyncTests[Any]):
    pass


class TestInMemory(InMemory, BaseStoreSyncTests[bytes]):
    pass
