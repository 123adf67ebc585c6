"""Settings that all tests share."""

from __future__ import annotations

import os

os.environ.setdefault("OPENAI_API_KEY", "not-needed-to-replay")  # the client wants one, and a replay never sends it
