"""Secrets that only their name gives away, inside a text.

`password = "x"`, `{"api_key": "x"}` at any depth of JSON escapes, `Authorization: x`, `?token=x`, `DB_PASSWORD=x`,
`--password x`, `<secret>x</secret>`, `name: password, value: x`, `the password is x`, `ENV DB_PASSWORD x`,
`config.set("password", "x")`, `**Password:** x`. The name decides (see `names`); what follows may still be no secret
(see `assigned`). Tables are the matter of `fields`.
"""

from __future__ import annotations

import re
import string
from typing import TYPE_CHECKING

from agenttape_core.lazy_patterns import Lazy
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.redaction.detection.assigned import Assignment, find_value
from agenttape_core.redaction.detection.fields import Tables
from agenttape_core.redaction.detection.findings import SECRET, Finding
from agenttape_core.redaction.detection.names import (
    FIRST_WORDS,
    FOREIGN,
    HEADERS,
    LAST_WORDS,
    MARKS,
    NO_CREDENTIAL,
    NO_PINS,
    PASSWORDS,
    SECOND_WORDS,
    STEMS,
    Demand,
    Names,
    demand_of,
    words_of,
)
from agenttape_core.redaction.detection.nested import Nested, find_in_manifests, find_indented
from agenttape_core.redaction.detection.values import is_alternating, is_opaque
from agenttape_core.redaction.detection.views import VOCABULARY, beyond_ascii, places

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from agenttape_core.redaction.detection.views import View

_LONGEST = 64
_BRACKET = ord("(")
_LETTER = Lazy(r"[^\W\d_]")
_FOREIGN_LETTER = Lazy("[" + "".join(sorted({max(word) for word in FOREIGN})) + "]")
"""One letter of each word that Latin-1 cannot hold: one search tells that there is none."""
_FOREIGN = [(word, beyond_ascii(word)) for word in FOREIGN]
"""These words, and their letters beyond ASCII: a text without those need not be searched."""
_ENDS = frozenset(word[-3:].encode("latin-1", "replace") for word in LAST_WORDS)
_PAIRS = frozenset(
    (first, last)
    for last, demand in ((last, demand_of(last)) for last in SECOND_WORDS)
    for first in FIRST_WORDS
    if max(first + last) <= "\xff" and demand_of(f"{first} {last}") is not demand
)
_SECONDS = {
    written.encode("latin-1").lower(): Lazy(
        b" (?:"
        + "|".join(each for one, last in _PAIRS if one == first for each in (last, last.upper()))
        .encode("latin-1")
        .lower()
        + b")"
    )
    for first, _ in _PAIRS
    for written in (first, first.upper())
}


class _Sought(NamedTuple):
    """A literal to look for where a word may be a name, and where in it the name has its stem or its first letter.

    `first` is the word in small letters, if it may be the first one of two that are a name.
    """

    literal: bytes
    offset: int
    first: bytes


def _sought(word: bytes) -> _Sought | None:
    small = word.decode("latin-1").lower().encode("latin-1", "replace")
    first = word.lower() if word.lower() in _SECONDS else b""
    end = small.rstrip(b"_-").rstrip(b"0123456789")[-3:]
    if not (first or end in _ENDS or end[-2:] in _ENDS) or len(word) > _LONGEST:
        return None
    written = word.decode("latin-1")
    letter, demand = _LETTER.search(written), demand_of(written.strip("_-").rstrip("0123456789"))
    if demand is None or letter is None:
        return _Sought(b"", 0, first) if first else None
    stems = [at for stem in STEMS if (at := small.find(stem)) >= 0]
    return _Sought(word + b"=" if demand is Demand.QUERIED else word, min(stems, default=letter.start()), first)


_ENDINGS = (
    "pass pwd key keys secret secrets cookie cookies token password passwords passwd passwds passphrase passphrases"
)
"""The ends of names that are words in one: `dbpassword`, `mypass`."""
_NAMES = VOCABULARY.add(
    _sought, (word.encode("latin-1", "replace") for word in LAST_WORDS | FIRST_WORDS), _ENDINGS.encode().split()
)


def name_places(view: View, names: Names) -> list[int]:
    """Return where the names of a text are: where each has its stem or its first letter."""
    found: set[int] = set()
    for met in view.met[_NAMES]:
        literal, offset, first = met.meaning
        if literal:
            found.update([at + offset for at in _whole(view, met.word, met.places(view.raw, literal))])
        if first:
            second = _SECONDS[first]
            ends = [at + len(first) for at in met.places(view.low, first)]
            found.update([end + 1 for end in ends if second.match(view.low, end)])
    for own in names.own_words:
        found.update(places(view.low, own))
    if not view.text.isascii():
        found.update(_foreign(view.text))
    return sorted(found)


def _whole(view: View, word: bytes, starts: Iterable[int]) -> Iterator[int]:
    """Yield the places of a word that have no more token characters behind it."""
    for at in starts:
        end = at + len(word)
        behind = view.runs[end : end + 2]
        if not behind.startswith(b"a") and (behind != b" a" or view.raw[end] != _BRACKET):
            yield at


def holds_foreign(text: str) -> bool:
    """Return True if a text may hold one of the words that Latin-1 has no letters for."""
    return _FOREIGN_LETTER.search(beyond_ascii(text)) is not None


def _foreign(text: str) -> Iterator[int]:
    beyond = beyond_ascii(text)
    for word, letters in _FOREIGN if _FOREIGN_LETTER.search(beyond) else ():
        at = text.find(word) if letters in beyond else -1
        while at >= 0:
            yield at
            at = text.find(word, at + len(word))


_NAME = string.ascii_letters + string.digits + "_-."
_MAX_LEFT = 48
_TAIL = Lazy(
    r"""(?x)
    (?P<rest>[\w\u0300-\u036f\u0900-\u0dff\u0e31-\u0e4e-]{0,48}+)
    (?:\*\*|__)? (?P<close>\\{0,7}["'`])? (?:\*\*|__)? \]? [ \t]{0,8}
    (?: (?P<typed>:[ \t]{0,4}(?:str|bytes|string|String|SecretStr|&(?:'static[ ])?str|Optional\[str\]|str[ ]\|[ ]None)
          [ \t]{0,4}=(?!=) | string[ \t]{1,4}=(?!=))
      | (?P<sep>=>|:=|={1,2}|:|>|->|\u2192) )
    (?:\*\*|__)? (?P<gap>[ \t]{0,8}) (?:Secret(?:Str|Bytes)?\((?=\\{0,7}["']))?"""
)
_JOINED = "是为為は는은"
"""Verbs and particles that Chinese, Japanese and Korean write right behind a name."""
_REST = Lazy(rf"(?:(?![{_JOINED}])[\w{MARKS}-]){{0,48}}+")
_BEHIND = frozenset("*\\\"'`] \t:=>,(\r\n\u2192" + _JOINED)
"""All that can follow a name of which the value is given."""
_SAYS = "is|was|ist|war|lautet|est|es|\xe9|\xe8|\xe4r|er|je|jest|este|to|là|это|है|हैं"
_TELLS = r"[\u2013\u2014]|changed[ ]to|mudou[ ]para|cambió[ ]a"
"""Words between a name and its value in prose, in the languages of the names."""
_STILL = (
    "now|still|currently|again|übrigens|jetzt|noch|ahora|todavía|maintenant|toujours|agora|ancora|adesso|teraz|теперь"
)
_PURPOSES = "for|to|of|f\u00fcr|zum|zur|am|para|pour|de|da|do|del|della|dla|du|des|van|voor|till|til|от|для|к"
_FOR = rf"[ ](?:{_PURPOSES}|(?P<place>on|at))(?:[ ][\w.@'-]{{1,40}}){{1,4}}?"
"""The purpose of a password: `the password for the portal is`."""
_ALONE = r"(?:[ ]{1,4}|(?:\s|\\n){2,12}(?=\S+(?:\s|\\n|\Z)))"
"""The text in front of a value: blanks, or the end of the line above, if the value has a line to itself."""
_BETWEEN = r"""(?:\\{0,7}["'](?!value)\w{1,24}\\{0,7}["']:[ ]?\\{0,7}["'][^"'\\\n]{0,60}\\{0,7}["'],(?:\s|\\n){0,32})"""
"""Other items of JSON between the name of a field and its value."""
_LOOSE = Lazy(
    rf"""(?x)
    (?P<rest>(?:(?![{_JOINED}])[\w{MARKS}-]){{0,48}}+)
    (?: (?:{_FOR})? (?: [ ](?P<said>{_SAYS}|(?P<tells>{_TELLS}))(?P<still>[ ](?:{_STILL}))?
                        (?:[ ](?P<again>re)?set[ ]to)?:?{_ALONE} | (?P<whose>:)[ ]{{1,4}} )
      | (?P<joined>[{_JOINED}]):?[ ]{{0,4}}(?=[!-~]{{6}})
      | (?P<block>["'])[ \t]{{0,4}}\{{[^{{}}]{{0,400}}?\bdefault[ \t]{{0,8}}=[ \t]{{0,8}}(?=")
      | (?P<close>\\{{0,7}}["'])? (?:,(?:\s|\\n){{0,32}}|(?:\s|\\n){{1,32}}) {_BETWEEN}{{0,3}}
        (?P<pair>\\{{0,7}}["']?[Vv]alue\\{{0,7}}["']?[ \t]{{0,4}}[:=][ \t]{{0,8}})
      | (?P<listed>\\{{0,7}}["'],)[ \t\r\n]{{0,8}}(?=\\{{0,7}}["'][^-])
      | (?P<called>\()[ ]?(?=\\{{0,3}}["'])
      | (?P<blank>[ \t]{{1,40}})(?!-) )"""
)
"""Names whose value follows no separator: said in prose, the default of a block (Terraform), a `value` of its own, the
next argument, the only one, or the next word."""
_OF_PROSE = Lazy(
    rf"""(?x) [A-Za-z](?:{"|".join(stem[1:].decode() for stem in STEMS)})[a-z]{{0,12}}+ ,?[ ]
    (?!(?:{_SAYS}|{_TELLS}|value|provided|given|supplied|used|{_PURPOSES}|on|at)\b|string[ ]{{1,4}}=)
    [a-z]{{1,19}} (?=[ ,]|\.(?:\s|\Z))"""
)
"""A word with a stem before another word. A word is a value behind some separator, or for a name in capitals."""
_STANDARD = Lazy(r"(?:[A-Z]{2,8}-?\d{1,5}|\d{1,4}-[^\W\d_]{2,12})(?!\w)")
"""`AES-256` and `12-char`, of which sentences tell."""
_LABEL = Lazy(r"""(?:name|key)\\{0,7}["']?[ \t]{0,4}[:=][ \t]{0,4}\\{0,7}["']?\Z""", re.IGNORECASE)
_SETTER = Lazy(
    r"""(?:set|put|define|add|append|env|environ|get|header|property|config|register|update|store)\w{0,24}"""
    r"""\([ ]?\\{0,3}["']\Z""",
    re.IGNORECASE,
)
"""A call that takes a name and a value: `config.set("password", "x")`, `os.getenv("TOKEN", "x")`."""
_ARGUMENT = Lazy(r"""\\{0,3}(?P<quote>["'])(?P<value>[^"'\\\s]{8,256})\\{0,3}(?P=quote)[ ]?\)""")
"""The only argument of a call, if it is a word."""
_SECOND = Lazy(
    r"""(?:[\w.]{1,60}|\\{0,3}["'][^"'\\\n]{1,128}\\{0,3}["']),[ ]?(?:Some\()?"""
    r"""(?P<quote>\\{0,3}["'])(?P<value>[^"'\\\n]{4,256})(?P=quote)"""
)
"""The second argument of a call that takes user and password."""
_SCHEMES = frozenset({"basic", "bearer"})
_USER = Lazy(r"\b(?i:user(?:name)?|connect|benutzer|gebruiker|usu[a\xe1]rio)[ \t]{1,40}\S{1,64}(?:[\s,]|\\n){1,40}\Z")
_HAS_SIGN, _SPECIAL = Lazy("[0-9!@#$%^&*]"), Lazy("[!@#$%^&*]")
_OF_SQL = ("= ", "=")
_FLAG = Lazy(r"-[A-Za-z]{0,40}(?:[Pp]ass|[Tt]oken|[Ss]ecret|[Kk]ey)\w{0,16}\Z")
"""An option of programs that write long options with one hyphen: Java's tools, PowerShell, those in Go."""
_MADE_UP = Lazy(
    r"""(?P<word>(?=[^\s"'`<>]{0,64}[0-9])(?=[^\s"'`<>]{0,64}[A-Za-z])[\w!@#$%^&*+-]{6,64})(?=[\s.,;:)"'!?\\]|\Z)"""
)
"""One word with a letter and a digit."""
_GIVE = frozenset({"set", "with", "hash", "encrypt"})
_TAKE = frozenset(
    ("get", "find", "has", "is", "delete", "remove", "load", "fetch", "read", "check", "verify", "validate", "parse",
     "create", "generate", "new", "issue", "revoke", "refresh", "decode", "sign", "resolve", "request", "by")
)  # fmt: skip
"""First words of functions that take a secret, and of those that take its owner."""
_COMMAND = Lazy(
    r"(?:\A|[\n;&|]|\\n)[ \t+$>-]{0,16}(?:ENV|ARG|setx|(?:[\w.-]{1,24}[ ]){1,3}(?:\w{1,16}:)?set)[ \t]{1,4}\Z",
    re.IGNORECASE,
)
"""A command that takes a name and a value: `ENV DB_PASSWORD x`, `aws configure set aws_secret_access_key x`."""
_CELL = Lazy(r"[ ]{2,40}[^\s]{4,256}[ \t]{0,8}(?=\r?\n|\\n|\Z)")
"""The last column of an output: two blanks or more, and one word up to the end of the line."""
_COMMANDS = frozenset(["env", "arg", "setx", "set"])
"""The last words of these; a look-up is cheaper than a search."""
_TOLD = Lazy(r"""[ ](?:(?:provided|given|supplied|used)[ ]?)?:?[ ]?[("'`]?(?P<key>[A-Za-z0-9_-]{20,256})(?![\w-])""")
"""A key after its name, as error messages quote it."""
_TOLD_WORDS = frozenset({"token", "key", "secret", "bearer"})
_LISTED = Lazy(
    r"""\\{0,7}(?P<quote>["'])(?=[^"'\\\n]{0,256}[0-9!@#$%^&*?+])(?P<value>[^"'\\\s]{4,512})\\{0,7}(?P=quote)"""
)
_PUNCTUATION = "\"'`*(["
_BEFORE_PAIR = frozenset("?&;#")
_QUOTES = frozenset("\u00ab\u201c\u201e\u201a\u2018")
"""Opening quotes of printers."""
_BLANKS = frozenset(" \u00a0\u202f")
"""Blanks that French has inside of its quotes."""
_OF_WINDOWS = frozenset({"pass", "password", "passwd", "pwd"})
"""Options that commands of Windows take after a slash."""
_DIRECTIVES = frozenset({"requirepass", "masterauth"})
"""Names that begin a line in the configuration of Redis, with their value behind them."""
_LINE_HEAD = Lazy(r"\A(?:[>+|*$#-]|\d{1,6}[:|.)\t]|\[[^\]]{1,40}\]|\d[\d:T.,/+Z-]{4,32}|[A-Z]{4,8}:?|\s){1,8}")
"""The marks of a log, a listing or a quotation in front of a line."""
_NEAR = 120
_LONGEST_NOUN = 2
_OPENING = frozenset("{[")
_APART = frozenset("\n\t\r\"'`(<>{}[,;:=&?#|/$@!*+%")
"""Characters before a stem that end what could belong to its name."""
_LOOKS = frozenset({Demand.OPAQUE, Demand.RANDOM})
"""Demands on the look of a value, which begins with so many characters of a key."""
_MAY_LOOK = Lazy(r"""[rbfuRBFU]{0,2}\\{0,7}["'`]?[A-Za-z0-9_+/=.~%:-]{20}|[({\[|>]|[\w.]{0,40}Auth\(""")
"""A value that may have such a look, or that begins with a sign: a pair, a dict, a block of YAML."""


def find_assignments(view: View, names: Names) -> Iterator[Finding]:
    """Find values of denied names, and values of names such as `key` that look like one."""
    if starts := name_places(view, names):
        yield from _assigned(view, names, starts)
    if any(met.word == b"Secret" for met in view.met[_NAMES]):
        yield from find_in_manifests(view)


def _assigned(view: View, names: Names, starts: Iterable[int]) -> Iterator[Finding]:
    tables, nested, end = Tables(view, names), Nested(view.text, names), 0
    for at in starts:
        if at < end:
            continue
        finding, below = _named(view.text, at, names), []
        if isinstance(finding, Assignment):
            named, is_open = finding, view.text[finding.value : finding.value + 1] in _OPENING
            below = list(nested.find(named)) if is_open else []
            finding = None if below else find_value(view.text, named)
            below = below if below or finding else list(find_indented(view.text, named, names))
        yield from [view.finding(*each) for each in ([finding] if finding else below)] or tables.find(at)
        # What is inside a secret needs no look of its own, and texts that nest names stay cheap.
        end = finding.end if finding else 0


def _named(text: str, at: int, names: Names) -> Assignment | Finding | None:
    """Return the name with a stem or a last word at a position and where its value is, or the secret itself."""
    named = None if _OF_PROSE.match(text, at) else _name(text, at, names)
    if named is None:
        return None
    left, name, demand = named
    tail = _TAIL.match(text, at)
    match = tail or _LOOSE.match(text, at)
    if match is None:
        return None
    found = Assignment(name, at - len(left), match.end(), names.kind_of(name) or SECRET, demand)
    if tail is None:
        if words_of(name)[-1] in _TOLD_WORDS and (told := _told(text, found, match)):
            return told
        return _loosely_named(text, found, match)
    if demand in _LOOKS and not _MAY_LOOK.match(text, tail.end()):
        return None
    found = found._replace(sep=tail["sep"] or "=", close=tail["close"], gap=tail["gap"])
    return found if _is_assigned(text, found) else None


def _name(text: str, at: int, names: Names) -> tuple[str, str, Demand] | None:
    """Return the name with a stem or a last word at a position, and its demand.

    Most words of prose that have a stem are no such names; the patterns of what follows one cost ten times as much.
    """
    rest = _REST.match(text, at)
    end = rest.end() if rest else at
    if text[end : end + 1] not in _BEHIND:
        return None
    left = _left(text, at)
    name = (left + text[at:end]).rstrip(".")
    demand = names.demand_of(name)
    return None if demand is None else (left, name, demand)


def _left(text: str, at: int) -> str:
    """Return the part of a name that stands before a stem."""
    if text[at - 1 : at] in _APART:
        return ""
    window = text[max(0, at - _MAX_LEFT) : at]
    before = window.rstrip(_NAME)
    left = window[len(before) :]
    if before.endswith("\\") and left[:1] in tuple("nrt"):
        return left[1:]
    if not left and before.endswith(" "):
        word = "".join(before.split()[-1:]).rpartition("\\n")[2].lower().lstrip(_PUNCTUATION)
        is_count = word in NO_CREDENTIAL and text[at : at + 5].lower() == "token"
        written = word.upper() if text[at : at + 2].isupper() else word
        return f"{written}_" if is_count or word in FIRST_WORDS else left
    return left


def _is_assigned(text: str, found: Assignment) -> bool:
    if found.sep == ">":
        before = text[max(0, found.start - _NEAR) : found.start]
        return before.endswith("<") or (found.close is not None and _LABEL.search(before) is not None)
    if found.sep == "==":
        return words_of(found.name)[-1:] != ("token",)  # the lexer of a language
    if found.demand is Demand.QUERIED:
        return text[max(0, found.start - 1) : found.start] in _BEFORE_PAIR and found.start > 0
    # The parts of `arn:aws:secretsmanager:...:secret:name` are no names, nor is the user in `https://token:x@host`.
    before = text[max(0, found.start - 2) : found.start]
    is_part = before.endswith((":", "/")) and not (before == " /" and words_of(found.name)[-1] in _OF_WINDOWS)
    return not (found.sep == ":" and not found.gap and not found.close and is_part)


def _told(text: str, found: Assignment, loose: re.Match[str]) -> Finding | None:
    """Return a key that stands right after its name: `Incorrect API key provided: 3f9a1c0b...`."""
    told = _TOLD.match(text, loose.end("rest")) if found.demand is Demand.NOTHING else None
    return Finding(*told.span("key"), found.kind) if told and is_opaque(told["key"]) else None


def _loosely_named(text: str, found: Assignment, loose: re.Match[str]) -> Assignment | None:
    """Return an assignment whose value follows its name in prose, in a command, or as a `value` of its own."""
    before = text[max(0, found.start - _NEAR) : found.start]
    if block := loose["block"]:
        return found._replace(sep="=", close=block, gap=" ")
    if loose["said"] or loose["joined"] or loose["whose"]:
        is_header = loose["whose"] and words_of(found.name)[-1] in HEADERS
        is_verb = loose["said"] == "to" and (  # arguments to pass to a function, tokens to push to a stream
            found.name.lower() == "pass" or words_of(found.name)[-1] not in PASSWORDS
        )
        is_wide = loose["place"] or loose["tells"] or loose["still"] or loose["again"]
        is_about = is_wide and _STANDARD.match(text, found.value)
        is_unsaid = found.demand is Demand.DIGITS and not _is_number_said(text, before, found)
        value = found.value + (text[found.value : found.value + 1] in _QUOTES)
        value += value > found.value and text[value : value + 1] in _BLANKS
        return None if is_header or is_verb or is_about or is_unsaid else found._replace(sep=" is ", value=value)
    if loose["pair"]:
        return found._replace(sep=":", close=loose["close"], gap=" ") if _LABEL.search(before) else None
    if loose["called"] or loose["listed"]:
        return _as_argument(text, before, found, loose)
    is_first = before.rstrip(" ")[-1:] in ("", "\n") or before.rstrip(" ").endswith("\\n")
    is_cell = is_first and (
        loose["blank"].endswith("\t") or _CELL.match(text, found.value - len(loose["blank"])) is not None
    )
    if is_cell or (is_first and found.name in _DIRECTIVES) or _is_after_command(before):
        return found._replace(sep=":" if is_cell else "=", gap=" " if is_cell else found.gap)
    return found if _is_next_word(text, before, found) else None


def _is_number_said(text: str, before: str, found: Assignment) -> bool:
    """Return True for `the code is 482913`, but neither for `the pin is bent` nor for `the board pin is 13`."""
    return text[found.value : found.value + 2].isdigit() and NO_PINS.isdisjoint(before.lower().split()[-1:])


def _as_argument(text: str, before: str, found: Assignment, loose: re.Match[str]) -> Assignment | None:
    """Return an assignment whose value is an argument of the call that its name is, or the argument behind it."""
    if loose["called"] and (login := _login(text, found)):
        return found._replace(value=login, demand=Demand.NOTHING)
    if found.name.startswith("--"):
        return found
    if loose["listed"]:
        return found if _SETTER.search(before) and _LISTED.match(text, found.value) else None
    is_sql = found.name == "PASSWORD" and before.endswith(_OF_SQL)
    return found if is_sql or _is_given_in_call(text, found) else None


def _is_next_word(text: str, before: str, found: Assignment) -> bool:
    """Return True if the value stands right behind its name, with nothing but a blank between them."""
    if found.name.startswith("--") or (found.name == "PASSWORD" and text[found.value : found.value + 1] == "'"):
        return True
    if _LISTED.match(text, found.value) and (before.endswith(":") or _is_directive(before, found)):
        return True  # the keyword of a map in a Lisp, or a line of a configuration
    is_flag = _FLAG.match(found.name) is not None
    match = _MADE_UP.match(text, found.value) if is_flag or words_of(found.name)[-1] in PASSWORDS else None
    if match is None:
        return False
    return is_flag or _SPECIAL.search(match["word"]) is not None or _USER.search(before) is not None


def _is_directive(before: str, found: Assignment) -> bool:
    """Return True if a name begins a line, and is nothing but a name of a password: `AuthLDAPBindPassword "x"`."""
    is_first = not _LINE_HEAD.sub("", before.rpartition("\n")[2].rpartition("\\n")[2]).strip()
    return is_first and found.demand is Demand.NOTHING and words_of(found.name)[-1] in PASSWORDS


def _login(text: str, found: Assignment) -> int:
    """Return where the secret begins in `bearerAuth("x")` and `withBasicAuth("user", "x")`, or 0."""
    words = words_of(found.name.rpartition(".")[2])
    if words[-1] != "auth" or not _SCHEMES.intersection(words) or _TAKE.intersection(words[:1]):
        return 0
    match = (_SECOND if "basic" in words else _ARGUMENT).match(text, found.value)
    return match.start("quote") if match and _HAS_SIGN.search(match["value"]) else 0


def _is_after_command(before: str) -> bool:
    last = before.rstrip().rpartition(" ")[2].rpartition("\n")[2].rpartition(":")[2].lower()
    return last in _COMMANDS and _COMMAND.search(before) is not None


def _is_given_in_call(text: str, found: Assignment) -> bool:
    """Return True if a method or a setter gets a word that is no English: `builder.apiKey("x1y2z3")`."""
    argument = _ARGUMENT.match(text, found.value)
    if argument is None or found.demand is not Demand.NOTHING or not is_alternating(argument["value"]):
        return False
    words = words_of(found.name.rpartition(".")[2])
    is_method = "." in found.name or text[found.start - 1 : found.start] == "."
    is_noun = is_method and len(words) <= _LONGEST_NOUN and words[0] not in _TAKE
    return words[-1] not in HEADERS and (words[0] in _GIVE or is_noun)
