"""Content blocks of messages: text, images, sound, documents, citations, thoughts, tool calls.

A block is written with its `type` and the fields that differ from the defaults:
`{"$block": {"type": "thinking", "content": "..."}}`.
"""

from __future__ import annotations

from typing import Any

from llama_index.core.base.llms import types as li

from agenttape_core.errors import UnreadableValueError
from agenttape_core.integration import Plain, TypeCodec
from agenttape_core.integration.codecs import (
    CLASS,
    Nested,
    build,
    class_in,
    dump_fields,
    expect_dict,
    note_set,
    read_extra,
    read_fields,
    subclass_name,
)

_CLASSES: tuple[Any, ...] = (
    li.TextBlock,
    li.ImageBlock,
    li.AudioBlock,
    li.VideoBlock,
    li.DocumentBlock,
    li.CachePoint,
    li.CitableBlock,
    li.CitationBlock,
    li.ThinkingBlock,
    li.ToolCallBlock,
)
_BY_TYPE = {cls.model_fields["block_type"].default: cls for cls in _CLASSES}


def write_block(block: Any, nested: Nested) -> dict[str, Plain]:
    """Return the body of a block, the part below `$block`."""
    cls = type(block)
    body = note_set(block, dump_fields(block, nested, skip=("block_type",)))
    body = {"type": nested(block.block_type), **body}
    return body if _BY_TYPE.get(block.block_type) is cls else {CLASS: subclass_name(cls), **body}


def read_block(plain: Plain, nested: Nested) -> Any:
    """Return the block of a body. Raises `UnreadableValueError` if it is malformed."""
    body = expect_dict(plain, "$block")
    kind = body.get("type")
    known = _BY_TYPE.get(kind) if isinstance(kind, str) else None
    if known is None and CLASS not in body:
        raise UnreadableValueError("$block", f"expected a type of {', '.join(sorted(_BY_TYPE))}, found {kind!r}")
    cls = class_in(body, known or li.BaseContentBlock)
    fields = read_fields({key: item for key, item in body.items() if key != "type"}, nested)
    return build(cls, {"block_type": kind, **fields}, read_extra(body, nested), body, known=("block_type",))


CODEC = TypeCodec("$block", lambda value: hasattr(value, "block_type") and _is_block(value), write_block, read_block)
"""Every content block."""


def _is_block(value: Any) -> bool:
    return isinstance(value, li.BaseContentBlock)
