"""The look of a value: a placeholder, an identifier, or random; and what describes a field or a credential."""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import TYPE_CHECKING

from agenttape_core.lazy_patterns import Lazy
from agenttape_core.redaction.detection.encoded import has_pseudonym
from agenttape_core.redaction.detection.names import STATES, Demand, is_denied, set_of, words_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping


_PLACEHOLDER = Lazy(
    r"""(?ix:
      <[^<>]*>(?:[:\ ]<[^<>]*>)* | \[[^\[\]]*\] | \{\{.*\}\} | \$\{.*\} | \{[\w.\[\]'"()]*\}
    | \#[0-9a-f]{3,8} | my[-_ ](?:\w{1,16}[-_ ])?(?:key|token|secret|password)
    | \$\(.* | \$\d | \{?%\(?\w*\)?s\}? | %\w+% | ![a-z]+ | \([^()]*\)
    | (?:[a-z]{2,12}[_-]){0,4}(?:[*x.\u2022\u2026_-]+|\.\.\.)
    | urn:[a-z0-9:._-]+ | none | null | nil | true | false | undefined | n/?a | str | [^\w\s]{1,8} | :\w+:?
    | (?:string|array|binary|boolean|bytes|number|object|integer)\??
    | (?:your|insert|enter|replace)[-_ ].* | changeme | change[-_]me | placeholder | redacted | hidden
    | (?:please\ )?(?:forgot(?:ten)?|lost|reset|change|update|confirm|(?:re-?)?(?:enter|type)|repeat|verify|choose
      |create|show|invalid|wrong|incorrect)\ (?:(?:an?|the|this|my|your|new|old|current|user|account|login)\ ){0,3}
      (?:passwords?|passphrase|passcode)[.?!:]{0,3}
    | pass | value | required | optional | unset | empty | default | dummy
    | [\u2581\u0120].* | \#\#[a-z]+
    )"""
)
_VARIABLE = Lazy(r"\$(?:[A-Z_][A-Z0-9_]*|[a-z_]+)")
_IDENTIFIER = Lazy(r"[A-Za-z_][A-Za-z_-]*")
_CODE_NAME = Lazy(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*")
_TYPE = Lazy(r"u?int\d*|float\d+|[iuf](?:8|16|32|64|128)|utf-?8|base64|sha\d+|md5|oauth2?", re.IGNORECASE)
_RECORD_ID = Lazy(r"(?i)(?:[a-z]{1,10}_){1,2}|chatcmpl-|run-|asst-|req-|lc_run--")
_HEX_OR_UUID = Lazy(r"[0-9a-fA-F-]+|[0-9.]+")
_TOKEN = Lazy(r"[A-Za-z0-9_+/=.~-]{20,128}")
_OPAQUE = Lazy(r"[A-Za-z0-9_+/=.~%:-]+")
_HEX_KEY = Lazy(r"(?=[0-9]*[a-fA-F])[0-9a-fA-F]{32,}")
_RUN = Lazy(r"(?=(?:[A-Za-z]*[0-9]){3})(?=[0-9]*[A-Za-z][0-9]*[A-Za-z])[A-Za-z0-9]{16,}")
"""A part of a key of one case: long, and more than a word and a year."""
_ALTERNATING = Lazy(r"(?![0-9a-fA-F]+\Z)(?=\w{6})[A-Za-z0-9]*[A-Za-z][0-9]+[A-Za-z][A-Za-z0-9]*")
_PART = Lazy(r"[A-Za-z0-9]+")
_DIGITS = Lazy(r"[-+]?[0-9]+(?:[.,][0-9]+)?|0x[0-9a-fA-F]{1,8}")
_PIN = Lazy(r"(?i:gpio)_?\d{1,3}|[A-Z]{1,2}\d{1,2}")
"""A pin of a board: `GPIO17`, `D13`, `PB12`."""
_VERSION = Lazy(r"v?[0-9]{1,4}(?:\.[0-9]{1,4}){1,3}")
_FOLDER = Lazy(r"[/~.$]|[A-Za-z]:[\\/]")
_MADE_UP = Lazy(r"(?=\S*[0-9])(?=\S*[^\W\d_])\S{6,128}")
_UUID = Lazy(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}")
_URL_WITH_PASSWORD = Lazy(r"://[^/@\s]{0,256}:[^/@\s]{0,256}(?:@|\Z)")
_ABOUT = Lazy(r"(?:[A-Za-z]++[ ._(),/-]{0,3}+)++")
_MIN_SENTENCE = 3
_MIN_BITS = 3.5
_MIN_DIGITS = 3
_MIN_OPAQUE, _MAX_OPAQUE = 20, 2048
_MAX_PLACEHOLDER = 200


def is_placeholder(value: str) -> bool:
    """Return True if a value stands for a secret: `<your-key>`, `${TOKEN}`, `***`, `OPENAI_API_KEY`, or is empty."""
    stripped = value.strip()
    if len(stripped) > _MAX_PLACEHOLDER:
        return False
    if not stripped or _PLACEHOLDER.fullmatch(stripped) or _VARIABLE.fullmatch(stripped):
        return True
    name = stripped.lstrip(":@")  # parameters of SQL
    return bool(_IDENTIFIER.fullmatch(name)) and is_denied(name)


def is_about(value: str, name: str) -> bool:
    """Return True if a value only repeats its name, or is a sentence about it: `API_KEY_FIELD = "api_key_field"`."""
    if not _ABOUT.fullmatch(value):
        return False
    told, words = words_of(value), words_of(name)
    return told[: len(words)] == words or (value.count(" ") >= _MIN_SENTENCE and words[-1] in told)


def is_code_name(value: str) -> bool:
    """Return True if a bare value reads like a variable or an attribute rather than a secret: `args.password2`."""
    return bool(_CODE_NAME.fullmatch(value)) and not is_mixed(value)


def is_type_name(value: str) -> bool:
    """Return True if a bare value is the name of a type or an algorithm: `int64`, `sha256`."""
    return bool(_TYPE.fullmatch(value))


def is_mixed(value: str) -> bool:
    """Return True if letters of both cases and at least two digits are mixed in 16 or more characters."""
    return (
        len(value) >= 16  # noqa: PLR2004 - shorter names such as `user1Password2` are code
        and sum(char.isdigit() for char in value) > 1
        and any(char.islower() for char in value)
        and any(char.isupper() for char in value)
    )


def satisfies(value: str, demand: Demand) -> bool:
    """Return True if a value meets the demand of a name, which makes it a secret."""
    return _SATISFIES[demand](value)


def _is_text(value: str) -> bool:
    stripped = value.strip()
    return not _DIGITS.fullmatch(stripped) and stripped.lower() not in STATES


def _is_number_of_people(value: str) -> bool:
    stripped = value.strip()
    if len(stripped) < _MIN_DIGITS or stripped.lower() in STATES:
        return False
    return not _VERSION.fullmatch(stripped) and not _PIN.fullmatch(stripped)


def is_opaque(value: str) -> bool:
    """Return True if a value looks like a key: random, hex digits, or a long run of letters and digits of any case."""
    if is_random(value) or _HEX_KEY.fullmatch(value):
        return True
    if not _MIN_OPAQUE <= len(value) <= _MAX_OPAQUE or not _OPAQUE.fullmatch(value) or has_pseudonym(value):
        return False
    if _RECORD_ID.match(value) or _HEX_OR_UUID.fullmatch(value):
        return False
    return any(_RUN.fullmatch(part) for part in _PART.findall(value))


def is_alternating(value: str) -> bool:
    """Return True if letters and digits alternate in a part of a value that is no hex: `s3cr3t`, not `user-42`."""
    return is_random(value) or any(_ALTERNATING.fullmatch(part) for part in _PART.findall(value))


def is_random(value: str) -> bool:
    """Return True if a token has the entropy of a key and is not a uuid, a hash, a number or the id of a record."""
    if not _TOKEN.fullmatch(value) or not is_mixed(value):
        return False
    if has_pseudonym(value) or _HEX_OR_UUID.fullmatch(value) or _RECORD_ID.match(value) or "/" in value[:1]:
        return False
    counts = Counter(value).values()
    return -sum(n / len(value) * math.log2(n / len(value)) for n in counts) >= _MIN_BITS


_SATISFIES: dict[Demand, Callable[[str], bool]] = {
    Demand.NOTHING: lambda _: True,
    Demand.TEXT: _is_text,
    Demand.DIGITS: _is_number_of_people,
    Demand.OPAQUE: is_opaque,
    Demand.QUERIED: is_opaque,
    Demand.RANDOM: is_random,
    Demand.MIXED: is_alternating,
    Demand.CONNECTION: lambda value: _URL_WITH_PASSWORD.search(value) is None,
    Demand.NO_PATH: lambda value: _FOLDER.match(value.strip()) is None,
    Demand.MADE_UP: lambda value: _MADE_UP.fullmatch(value.strip()) is not None,
    Demand.UUID: lambda value: _UUID.fullmatch(value.strip()) is not None,
}


OF_MODELS = set_of("logprob top_logprobs bytes token_id prob probability rank score start end offset pos lemma")
"""Names beside a token of a language model."""
DESCRIBED = frozenset({"value", "default", "const", "example", "examples"})
"""Names of a value in what describes it: the field of a form, a JSON schema."""
_SCHEMA_TYPES = set_of("string integer number boolean object array null")
_FIELD_TYPES = _SCHEMA_TYPES | set_of(
    "str int float bool list dict text password hidden secret textarea input email checkbox select"
)
_COMBINED = frozenset({"anyOf", "oneOf", "allOf", "enum", "properties", "items", "schema", "$ref"})
_TELLING = frozenset({"type", "description", "title", "label", "format", "placeholder", "required"}) | _COMBINED
_KEYWORDS = (
    _TELLING
    | DESCRIBED
    | set_of(
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
_METADATA = set_of(
    "type kind scope scopes expires expiry expiration at on in iat exp nbf ttl version algorithm alg provider issuer "
    "source status state created updated method"
)
"""Last words of what describes a credential beside it: `token_type`, `expires_in`, `issued_at`."""
_DATE = Lazy(r"\d{4}-\d\d-\d\d(?:[T ][\d:.,]{4,20}(?:Z|[+-]\d\d:?\d\d)?)?")
_WORDS = Lazy(r"[^\W\d_]*+(?:[ ,:/._-]++[^\W\d_]++)*+")
_MAX_WORDS = 80
_CHOSEN = Lazy(
    r"""(?=\S*[0-9])(?=\S*[a-z])(?:(?=\S*[A-Z!$^])|(?=[a-z]+[0-9]+[a-z])(?![0-9a-f]+\Z|.*[^a-z0-9]))"""
    r"""[^\s"'{}()<>\[\]=,;]{8,128}={0,2}"""
)
"""A password: letters and digits, and a sign, a capital or digits amid small letters."""
_TOLD = Lazy(
    r"(?x) [A-Za-z][\w+.-]{0,40}:[\w:]{0,40}// | v?\d{1,9}[.-]\d | \w{1,40}/\d"
    r"| (?:[\w.+-]{1,64}@)? (?:[\w*-]{1,63}\.){1,9} [A-Za-z][\w-]{0,63} (?:[:/=]|\Z)"
)
"""The beginning of a URL, a version or a date, and of a host."""
_TOKEN_WORDS = ("token",)
_COOKIES = (("cookies",), ("cookie",))
LEAST_BELOW = 1_000
"""A smaller number in a dict is a length, a count or a version."""


def is_text_of_manifest(value: str) -> bool:
    """Return True if a text of a Secret of Kubernetes looks like a secret: a user, a host or a version doesn't."""
    if _TOLD.match(value) or _FOLDER.match(value) or is_placeholder(value):
        return False
    return bool(_CHOSEN.fullmatch(value)) or is_random(value)


def is_description(names: Collection[str], sort: object) -> bool:
    """Return True if a dict below a denied name describes a field of a JSON schema or a form; `sort` is its `type`."""
    if isinstance(sort, list):
        return bool(sort) and all(isinstance(one, str) and one in _SCHEMA_TYPES for one in sort)
    if isinstance(sort, str):
        return sort in _FIELD_TYPES
    return not _TELLING.isdisjoint(names) and _KEYWORDS.issuperset(names)


def is_keyword(name: str) -> bool:
    """Return True if a name in the description of a field tells of the field, and is no value of it."""
    return (name in _KEYWORDS and name not in DESCRIBED) or name.startswith("x-")


def is_below(plain: Mapping[str, object], key: str, name: str) -> bool:
    """Return True if a value in a dict below a denied name is a secret, too, and not judged by its own look.

    The token of a language model isn't, nor is a word of a programming language unless it looks like a key, nor what
    describes a field or a credential.
    """
    value, last = plain[key], words_of(name)[-1:]
    if words_of(name) == _TOKEN_WORDS and not OF_MODELS.isdisjoint(plain):
        return False
    if words_of(name) == _TOKEN_WORDS and key in _OF_LEXERS and not _SORTS.isdisjoint(plain):
        return isinstance(value, str) and (is_opaque(value) or is_alternating(value))
    if is_description(plain.keys(), plain.get("type")):
        return not is_keyword(key)
    if isinstance(value, int | float) and is_told_number(key, value):
        return False
    return last in _COOKIES or not (isinstance(value, str) and is_told(key, value))


def is_told(name: str, value: str) -> bool:
    """Return True if a text describes a credential rather than is one: its type, scope or date."""
    if (words_of(name)[-1:] or ("",))[0] not in _METADATA or len(value) > _MAX_WORDS:
        return False
    return bool(_WORDS.fullmatch(value) or _DATE.fullmatch(value)) or is_type_name(value)


def is_told_number(name: str, number: float) -> bool:
    """Return True if a number in a dict below a denied name is none that could be secret."""
    return abs(number) < LEAST_BELOW or (words_of(name)[-1:] or ("",))[0] in _METADATA


def reaches_down(name: str, demand: Demand) -> bool:
    """Return True if the demand of a name is on all values below it, and not on its `value` alone."""
    return demand is Demand.NOTHING or (demand in (Demand.TEXT, Demand.DIGITS) and len(words_of(name)) > 1)
