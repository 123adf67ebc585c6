"""Sounds of the Chat Completions wire format: heard in a request, spoken in an answer."""

from __future__ import annotations

import base64
import time
from typing import TYPE_CHECKING
from uuid import uuid4

if TYPE_CHECKING:
    from .policy import JSON

LIFETIME_S = 3600


def is_to_speak(body: JSON) -> bool:
    """Return True if a request wants a spoken answer."""
    return "audio" in (body.get("modalities") or ())


def heard(body: JSON) -> int:
    """Return the number of characters of sound, in base64, in the messages of a request."""
    contents = [message.get("content") for message in body.get("messages") or ()]
    parts = [part for content in contents if isinstance(content, list) for part in content]
    return sum(len(part["input_audio"]["data"]) for part in parts if part.get("type") == "input_audio")


def spoken(text: str) -> JSON:
    """Return the audio of a message in place of its text; instead of samples it holds the text itself."""
    sound = base64.b64encode(text.encode()).decode()
    audio = {
        "id": f"audio_{uuid4().hex}",
        "data": sound,
        "expires_at": int(time.time()) + LIFETIME_S,
        "transcript": text,
    }
    return {"content": None, "audio": audio}
