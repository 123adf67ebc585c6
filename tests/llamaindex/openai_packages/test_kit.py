"""LlamaIndex's OpenAI packages keep the kit: as they are, recorded, and replayed with their service stopped."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest

WHY = "LlamaIndex's OpenAI packages ask for an openai that this environment cannot have: run `make openai`"
openai_llms = pytest.importorskip("llama_index.llms.openai", reason=WHY)
openai_embeddings = pytest.importorskip("llama_index.embeddings.openai", reason=WHY)

from llama_index.core.base.llms.types import ImageBlock  # noqa: E402

from ..kit.conformance import EmbeddingConformance, LLMConformance  # noqa: E402
from ..kit.taped import outcomes, taped  # noqa: E402
from .service import KEY, service  # noqa: E402


class Served:
    """A suite whose service runs while a check does, unless it is stopped for good."""

    stopped: ClassVar[str] = ""
    """The address of the service that was there when it was recorded."""
    address: str

    @contextmanager
    def around(self, check: str) -> Iterator[None]:
        if self.stopped:
            self.address = self.stopped
            yield
            return
        with service() as server:
            self.server = server
            self.address = server.base_url
            yield


class OpenAIConformance(Served, LLMConformance):
    """`llama_index.llms.openai.OpenAI`."""

    blocks = (ImageBlock(image=b"\x89PNG\r\n\x1a\n" + b"a" * 16, image_mimetype="image/png"),)
    secrets = (KEY,)

    def make(self) -> Any:
        return openai_llms.OpenAI(model="gpt-4o-mini", api_base=self.address, api_key=KEY, max_retries=0)

    def make_failing(self) -> Any:
        if not self.stopped:
            self.server.fail_next(500, times=1)
        return self.make()

    def make_breaking(self) -> Any:
        if not self.stopped:
            self.server.cut_next_stream(after=4)
        return self.make()


class OpenAIEmbeddingConformance(Served, EmbeddingConformance):
    """`llama_index.embeddings.openai.OpenAIEmbedding`."""

    secrets = (KEY,)
    texts = ("The sky is blue.", "The sea is deep.", "Ada wrote programs.", "Tea is hot.")

    def make(self) -> Any:
        return openai_embeddings.OpenAIEmbedding(api_base=self.address, api_key=KEY, max_retries=0)

    def make_failing(self) -> Any:
        if not self.stopped:
            self.server.fail_next(500, times=1)
        return self.make()


@pytest.mark.parametrize("suite", [OpenAIConformance, OpenAIEmbeddingConformance])
def test_openai_keeps_every_point(suite: type[Any], tmp_path: Path) -> None:
    """Both packages pass the kit; taped they pass it too, recording, and replaying without a service."""
    plain = outcomes(suite)
    assert {check: end for check, end in plain.items() if end[0] == "failed"} == {}
    assert outcomes(taped(suite, tmp_path, "all")) == plain
    gone = type(suite.__name__, (suite,), {"stopped": "http://127.0.0.1:9/v1"})
    assert outcomes(taped(gone, tmp_path, "none")) == plain
