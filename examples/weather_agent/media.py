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
    """Whether a request asks for an answer that can be heard."""
    return "audio" in (body.get("modalities") or ())


def heard(body: JSON) -> int:
    """How many characters of sound, in base64, the messages of a request hold."""
    contents = [message.get("content") for message in body.get("messages") or ()]
    parts = [part for content in contents if isinstance(content, list) for part in content]
    return sum(len(part["input_audio"]["data"]) for part in parts if part.get("type") == "input_audio")


def spoken(text: str) -> JSON:
    """What a message says aloud in place of its text; the sound is the text itself, in place of samples."""
    sound = base64.b64encode(text.encode()).decode()
    audio = {
        "id": f"audio_{uuid4().hex}",
        "data": sound,
        "expires_at": int(time.time()) + LIFETIME_S,
        "transcript": text,
    }
    return {"content": None, "audio": audio}
