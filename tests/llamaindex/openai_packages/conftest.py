"""Settings of all tests with OpenAI's packages."""

from __future__ import annotations

import ssl

import pytest


@pytest.fixture(autouse=True)
def _no_certificates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Load no certificates, which is half of what these tests do otherwise: nothing here is encrypted."""
    monkeypatch.setattr(ssl.SSLContext, "load_verify_locations", lambda *_, **__: None)
