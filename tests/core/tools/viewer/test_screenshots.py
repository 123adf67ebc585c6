"""The pictures of the docs; `pytest tests/core/tools/viewer/test_screenshots.py --update-examples` takes them anew."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image

from .conftest import Opened
from .showcase import write_showcase

IMAGES = Path(__file__).resolve().parents[4] / "docs" / "images"
VIEWS = {
    "viewer-light": (False, "#/interaction/8", "light", (1280, 780)),
    "viewer-dark": (False, "#/step/8", "dark", (1280, 780)),
    "viewer-two-runs": (True, "", "light", (1280, 780)),
}
MOST = 150_000
"""Bytes of a picture."""


@pytest.mark.slow
@pytest.mark.parametrize("name", VIEWS)
def test_pictures_of_the_docs(opened: Opened, tmp_path: Path, request: pytest.FixtureRequest, name: str) -> None:
    """Each view can be photographed at the size of the docs, and the docs have a picture of that size that is small."""
    both, at, scheme, size = VIEWS[name]
    runs = [write_showcase(tmp_path / "support.yaml"), write_showcase(tmp_path / "support-new.yaml", another=True)]
    page = opened(*runs[: 1 + both], at=at, color_scheme=scheme, viewport={"width": size[0], "height": size[1]})
    kept = IMAGES / f"{name}.png"
    taken = page.screenshot(animations="disabled")
    if request.config.getoption("update_examples"):
        # A third of the bytes that a browser writes, for a repository that keeps them.
        Image.open(BytesIO(taken)).convert("RGB").quantize(256).save(kept, optimize=True)
    assert len(kept.read_bytes()) < MOST
    for content in (taken, kept.read_bytes()):
        assert [int.from_bytes(content[start : start + 4]) for start in (16, 20)] == list(size)
