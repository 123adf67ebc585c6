"""Values that satisfy a JSON schema: the arguments and structured answers of the pretended model."""

from __future__ import annotations

import re
from typing import Any

WHOLE_TEXT = {"answer", "input", "message", "prompt", "query", "question", "response", "text"}
DEEPEST = 4
FORMATS = {
    "date": "2025-07-{:02d}",
    "date-time": "2025-07-{:02d}T12:00:00Z",
    "time": "12:{:02d}:00Z",
    "email": "guest{}@example.com",
    "uri": "https://example.com/{}",
    "uuid": "00000000-0000-4000-8000-0000000000{:02d}",
}


def fill(schema: dict[str, Any], text: str, number: int) -> Any:
    """Make a value that satisfies a schema.

    Args:
        schema: A JSON schema in the subset that OpenAI accepts for tools and structured output.
        text: Where strings and numbers come from when they fit: the user's words.
        number: Varies what the text does not decide.
    """
    return _Filler(schema, text, number).value(schema)


class _Filler:
    def __init__(self, root: dict[str, Any], text: str, number: int) -> None:
        self.root = root
        self.text = text
        self.number = number

    def value(self, schema: dict[str, Any], name: str = "", depth: int = 0) -> Any:
        """A value for one part of the schema; `depth` ends schemas that contain themselves."""
        schema = self._resolved(schema, deep=depth > DEEPEST)
        if "enum" in schema or "const" in schema:
            return self._one_of(schema.get("enum") or [schema["const"]])
        kind = schema.get("type", "object" if "properties" in schema else "string")
        if isinstance(kind, list):
            kind = kind[0]
        if kind in {"object", "array"}:
            return self._filled(kind, schema, name, depth + 1)
        if kind in {"integer", "number"}:
            return self._number(schema, whole=kind == "integer")
        plain = {"boolean": self.number % 2 == 0, "null": None}
        return plain[kind] if kind in plain else self._string(schema, name)

    def _filled(self, kind: str, schema: dict[str, Any], name: str, depth: int) -> Any:
        if kind == "object":
            return {key: self.value(part, key, depth) for key, part in schema.get("properties", {}).items()}
        count = schema.get("minItems", 0 if depth > DEEPEST else 1)
        return [self.value(schema.get("items", {}), name, depth) for _ in range(count)]

    def _resolved(self, schema: dict[str, Any], *, deep: bool) -> dict[str, Any]:
        """Follow references and take the first alternative that is not null (or is, deep inside)."""
        while True:
            if "$ref" in schema:
                target: Any = self.root
                for part in schema["$ref"].removeprefix("#").strip("/").split("/"):
                    target = target[part] if part else target
                schema = target
                continue
            alternatives = schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf")
            if not alternatives:
                return schema
            schema = next((a for a in alternatives if (a.get("type") == "null") == deep), alternatives[0])

    def _one_of(self, values: list[Any]) -> Any:
        """The value that the user names, else one by number."""
        lowered = self.text.lower()
        named = [value for value in values if str(value).lower() in lowered]
        return (named or values)[0 if named else self.number % len(values)]

    def _number(self, schema: dict[str, Any], *, whole: bool) -> float:
        low = schema.get("minimum", schema.get("exclusiveMinimum", 0))
        high = schema.get("maximum", schema.get("exclusiveMaximum", low + 100))
        said = [float(n) for n in re.findall(r"-?\d+(?:\.\d+)?", self.text) if low < float(n) < high]
        if said:
            return int(said[0]) if whole else said[0]
        inside = max(1, int(high - low))
        middle = low + self.number % inside + ("exclusiveMinimum" in schema)
        return int(middle) if whole else middle + 0.5 if middle + 0.5 < high else float(middle)

    def _string(self, schema: dict[str, Any], name: str) -> str:
        if schema.get("format") in FORMATS:
            return FORMATS[schema["format"]].format(self.number % 28 + 1)
        if name in WHOLE_TEXT:
            return f"{self.text} (take {self.number})"
        quoted = re.findall(r'"([^"]+)"', self.text) + re.findall(r"(?<!\w)'([^']+)'(?!\w)", self.text)
        names = re.findall(r"(?<=[a-z,;] )[A-Z]\w+(?: [A-Z]\w+)*", self.text)
        return next(iter(quoted + names), self.text)
