"""The things below a denied name: a secret in a dict, the description of a field, or what describes a credential."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agenttape_core.redaction.detection.lazy import Lazy
from agenttape_core.redaction.detection.names import Demand, words_of
from agenttape_core.redaction.detection.values import is_alternating, is_opaque, is_type_name

if TYPE_CHECKING:
    from collections.abc import Collection


def _words(words: str) -> frozenset[str]:
    return frozenset(words.split())


OF_MODELS = _words("logprob top_logprobs bytes token_id prob probability rank score start end offset pos lemma")
"""Names beside a token of a language model."""
DESCRIBED = frozenset({"value", "default", "const", "example", "examples"})
"""Names of a value in what describes it: the field of a form, a JSON schema."""
_SCHEMA_TYPES = _words("string integer number boolean object array null")
_FIELD_TYPES = _SCHEMA_TYPES | _words(
    "str int float bool list dict text password hidden secret textarea input email checkbox select"
)
_COMBINED = frozenset({"anyOf", "oneOf", "allOf", "enum", "properties", "items", "schema", "$ref"})
_TELLING = frozenset({"type", "description", "title", "label", "format", "placeholder", "required"}) | _COMBINED
_KEYWORDS = (
    _TELLING
    | DESCRIBED
    | _words(
        # JSON Schema 2020-12, OpenAPI 3.1
        "not if then else dependentSchemas dependentRequired prefixItems contains additionalProperties "
        "patternProperties propertyNames unevaluatedItems unevaluatedProperties minLength maxLength pattern minimum "
        "maximum exclusiveMinimum exclusiveMaximum multipleOf minItems maxItems uniqueItems minContains maxContains "
        "minProperties maxProperties deprecated readOnly writeOnly contentEncoding contentMediaType contentSchema "
        "definitions $defs $id $schema $anchor $comment nullable discriminator xml externalDocs in style explode "
        # fields of forms
        "name display_name displayName help hint info order optional sensitive show advanced multiline hidden "
        "disabled dynamic env_var env_names widget source"
    )
)
"""Names in the description of a field. Others in it hold something else."""
_OF_LEXERS = frozenset({"value", "text", "lexeme"})
"""Names of the word itself in a token of a programming language."""
_SORTS = frozenset({"type", "kind", "text", "lexeme"})
"""Names that such a token has."""
_METADATA = _words(
    "type kind scope scopes expires expiry expiration at on in iat exp nbf ttl version algorithm alg provider issuer "
    "source status state created updated method"
)
"""Last words of what describes a credential beside it: `token_type`, `expires_in`, `issued_at`."""
_DATE = Lazy(r"\d{4}-\d\d-\d\d(?:[T ][\d:.,]{4,20}(?:Z|[+-]\d\d:?\d\d)?)?")
_WORDS = Lazy(r"[^\W\d_]*+(?:[ ,:/._-]++[^\W\d_]++)*+")
_MAX_WORDS = 80
_TOKEN = ("token",)
LEAST_BELOW = 1_000
"""A smaller number in a dict is a length, a count or a version."""


def is_description(names: Collection[str], sort: object) -> bool:
    """Return True if a dict below a denied name describes a field: a JSON schema, the field of a form.

    Args:
        names: The names in it.
        sort: What stands under `type`.
    """
    if isinstance(sort, list):
        return bool(sort) and all(isinstance(one, str) and one in _SCHEMA_TYPES for one in sort)
    if isinstance(sort, str):
        return sort in _FIELD_TYPES
    return not _TELLING.isdisjoint(names) and _KEYWORDS.issuperset(names)


def is_keyword(name: str) -> bool:
    """Return True if a name in the description of a field tells of the field, and is no value of it."""
    return (name in _KEYWORDS and name not in DESCRIBED) or name.startswith("x-")


def is_of_models(name: str, names: Collection[str]) -> bool:
    """Return True if a dict under a bare `token` is the token of a language model."""
    return words_of(name) == _TOKEN and not OF_MODELS.isdisjoint(names)


def is_of_lexers(name: str, names: Collection[str], key: str) -> bool:
    """Return True if a value below a bare `token` may be a word of a programming language: how it looks decides."""
    return words_of(name) == _TOKEN and key in _OF_LEXERS and not _SORTS.isdisjoint(names)


def is_told(name: str, value: str) -> bool:
    """Return True if a text describes a credential rather than is one: its type, scope or date."""
    if (words_of(name)[-1:] or ("",))[0] not in _METADATA or len(value) > _MAX_WORDS:
        return False
    return bool(_WORDS.fullmatch(value) or _DATE.fullmatch(value)) or is_type_name(value)


def is_told_number(name: str, number: float) -> bool:
    """Return True if a number in a dict below a denied name is none that could be secret."""
    return abs(number) < LEAST_BELOW or (words_of(name)[-1:] or ("",))[0] in _METADATA


def is_key_like(text: str) -> bool:
    """Return True if a text looks like a credential rather than like a word."""
    return is_opaque(text) or is_alternating(text)


def reaches_down(name: str, demand: Demand) -> bool:
    """Return True if what a name demands is looked for in all that stands below it, and not in its `value` alone."""
    return demand is Demand.NOTHING or (demand in (Demand.TEXT, Demand.DIGITS) and len(words_of(name)) > 1)
