"""Components of services, which count how often they are reached: retriever, reranker, reader, stores, memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from llama_index.core import Document, QueryBundle
from llama_index.core.base.base_retriever import BaseRetriever
from llama_index.core.base.llms.types import ChatMessage
from llama_index.core.graph_stores.types import EntityNode, LabelledNode, PropertyGraphStore, Relation
from llama_index.core.memory import BaseMemory
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.readers.base import BaseReader
from llama_index.core.schema import NodeWithScore, TextNode
from llama_index.core.storage.chat_store import BaseChatStore
from llama_index.core.storage.kvstore.types import BaseKVStore
from llama_index.core.vector_stores.types import BasePydanticVectorStore, VectorStoreQuery, VectorStoreQueryResult
from pydantic import PrivateAttr

from .scripted import World


class Service(BaseRetriever):
    """A retriever of a service."""

    def __init__(self, world: World, similarity_top_k: int = 2) -> None:
        super().__init__()
        self.world = world
        self.similarity_top_k = similarity_top_k

    def _found(self, query: QueryBundle) -> list[NodeWithScore]:
        number = self.world.reach("service")
        nodes = [TextNode(text=f"{query.query_str} {number} {place}", metadata={"n": number}) for place in "abc"]
        return [NodeWithScore(node=node, score=0.5) for node in nodes[: self.similarity_top_k]]

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return self._found(query_bundle)

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return self._found(query_bundle)


class Reranker(BaseNodePostprocessor):
    """A reranker of a service."""

    top_n: int = 1
    _world: World = PrivateAttr()

    def __init__(self, world: World, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._world = world

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        number = self._world.reach("rerank")
        return [NodeWithScore(node=nodes[-1].node, score=float(number))][: self.top_n]


class VectorService(BasePydanticVectorStore):
    """A vector store of a service."""

    stores_text: bool = True
    collection_name: str = "cities"
    _world: World = PrivateAttr()
    _nodes: list[Any] = PrivateAttr(default_factory=list)

    def __init__(self, world: World, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._world = world

    @property
    def client(self) -> None:
        return None

    def add(self, nodes: list[Any], **kwargs: Any) -> list[str]:
        self._world.reach("add")
        self._nodes += nodes
        return [node.node_id for node in nodes]

    def delete(self, ref_doc_id: str, **kwargs: Any) -> None:
        self._world.reach("delete")

    def query(self, query: VectorStoreQuery, **kwargs: Any) -> VectorStoreQueryResult:
        number = self._world.reach("query")
        nodes = self._nodes[: query.similarity_top_k]
        return VectorStoreQueryResult(
            nodes=nodes, similarities=[float(number)] * len(nodes), ids=[n.node_id for n in nodes]
        )


class KeyValueService(BaseKVStore):
    """A key-value store of a service, which only counts its calls."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.held: dict[str, dict[str, Any]] = {}

    def put(self, key: str, val: dict[str, Any], collection: str = "data") -> None:
        self.world.reach("put")
        self.held.setdefault(collection, {})[key] = val

    async def aput(self, key: str, val: dict[str, Any], collection: str = "data") -> None:
        self.put(key, val, collection)

    def get(self, key: str, collection: str = "data") -> dict[str, Any] | None:
        self.world.reach("get")
        return self.held.get(collection, {}).get(key)

    async def aget(self, key: str, collection: str = "data") -> dict[str, Any] | None:
        return self.get(key, collection)

    def get_all(self, collection: str = "data") -> dict[str, dict[str, Any]]:
        self.world.reach("get_all")
        return dict(self.held.get(collection, {}))

    async def aget_all(self, collection: str = "data") -> dict[str, dict[str, Any]]:
        return self.get_all(collection)

    def delete(self, key: str, collection: str = "data") -> bool:
        self.world.reach("delete")
        return self.held.get(collection, {}).pop(key, None) is not None

    async def adelete(self, key: str, collection: str = "data") -> bool:
        return self.delete(key, collection)


class ChatService(BaseChatStore):
    """A chat store of a service."""

    _world: World = PrivateAttr()
    _held: dict[str, list[ChatMessage]] = PrivateAttr(default_factory=dict)

    def __init__(self, world: World, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._world = world

    def set_messages(self, key: str, messages: list[ChatMessage]) -> None:
        self._world.reach("set")
        self._held[key] = list(messages)

    def get_messages(self, key: str) -> list[ChatMessage]:
        self._world.reach("get")
        return list(self._held.get(key, []))

    def add_message(self, key: str, message: ChatMessage, idx: int | None = None) -> None:
        self._world.reach("add")
        self._held.setdefault(key, []).append(message)

    def delete_messages(self, key: str) -> list[ChatMessage] | None:
        return self._held.pop(key, None)

    def delete_message(self, key: str, idx: int) -> ChatMessage | None:
        return self._held[key].pop(idx)

    def delete_last_message(self, key: str) -> ChatMessage | None:
        return self._held[key].pop()

    def get_keys(self) -> list[str]:
        return list(self._held)


class Pages(BaseReader):
    """A reader of a service."""

    def __init__(self, world: World) -> None:
        self.world = world

    def load_data(self, *urls: str, **options: Any) -> list[Document]:
        return [Document(text=f"{url} {self.world.reach('page')}", metadata=options) for url in urls]


class LazyPages(BaseReader):
    """One that loads a page when it is wanted."""

    def __init__(self, world: World) -> None:
        self.world = world

    def lazy_load_data(self, *urls: str, **options: Any) -> Iterable[Document]:
        for url in urls:
            yield Document(text=f"{url} {self.world.reach('page')}", metadata=options)


class GraphService(PropertyGraphStore):
    """A property graph of a service."""

    supports_structured_queries = True

    def __init__(self, world: World) -> None:
        self.world = world

    def get(self, properties: Any = None, ids: Any = None) -> list[LabelledNode]:
        return [EntityNode(name=f"{ids} {self.world.reach('get')}")]

    def get_triplets(self, entity_names: Any = None, relation_names: Any = None, **_: Any) -> list[Any]:
        number = self.world.reach("triplets")
        relation = Relation(label="IN", source_id="a", target_id="b", properties={"n": number})
        return [[EntityNode(name="a"), relation, EntityNode(name="b")]]

    def get_rel_map(self, graph_nodes: Any, depth: int = 2, limit: int = 30, ignore_rels: Any = None) -> list[Any]:
        return self.get_triplets()

    def upsert_nodes(self, nodes: Any) -> None:
        self.world.reach("nodes")

    def upsert_relations(self, relations: Any) -> None:
        self.world.reach("relations")

    def delete(self, entity_names: Any = None, **_: Any) -> None:
        self.world.reach("delete")

    def structured_query(self, query: str, param_map: Any = None) -> Any:
        return [{"count": self.world.reach("structured")}]

    def vector_query(self, query: VectorStoreQuery, **_: Any) -> Any:
        return [EntityNode(name=str(self.world.reach("vector")))], [0.5]


class MemoryService(BaseMemory):
    """A memory of a service."""

    _world: World = PrivateAttr()

    def __init__(self, world: World, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._world = world

    @classmethod
    def from_defaults(cls, **kwargs: Any) -> MemoryService:
        return cls(**kwargs)

    def get(self, input: str | None = None, **_: Any) -> list[ChatMessage]:  # noqa: A002 - the framework's name
        return [ChatMessage(role="user", content=f"{input} {self._world.reach('memory')}")]

    def get_all(self) -> list[ChatMessage]:
        return self.get()

    def put(self, message: ChatMessage) -> None:
        self._world.reach("put")

    def set(self, messages: list[ChatMessage]) -> None:
        self._world.reach("set")

    def reset(self) -> None:
        self._world.reach("reset")
