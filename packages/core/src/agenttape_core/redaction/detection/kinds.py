"""Kinds of secrets that more than one detector finds; a kind is part of the pseudonym."""

from __future__ import annotations

SECRET = "secret"  # noqa: S105 - the name of a kind
"""The kind of all that only its surroundings give away, so that one secret has one pseudonym wherever it stands."""
NUMBER = "number"
"""The kind of a number under a denied name. In text it stands in quotes that the number did not have."""
BASE64 = "base64"
"""The kind of base64 that holds a secret. It stays base64: what it holds is redacted."""
