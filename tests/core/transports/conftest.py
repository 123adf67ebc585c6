from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .faces import FACES, Face, face_id
from .service import Service


@pytest.fixture(params=FACES, ids=face_id)
def face(request: pytest.FixtureRequest) -> Face:
    """One of the four transports."""
    face: Any = request.param
    assert isinstance(face, Face)
    return face


@pytest.fixture
def service() -> Iterator[Service]:
    """A running service."""
    with Service() as running:
        yield running


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty project."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
