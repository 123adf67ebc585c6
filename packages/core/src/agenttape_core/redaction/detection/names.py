"""Names that promise a secret: `password`, `X-Api-Key`, `clientSecret`, `aws_secret_access_key`, `DB_PASS`, `pin`.

A name is split into words at punctuation and camel case, and its *last* words decide: `session_token` names a token,
`token_count` names a count. Some promise more than they keep: `sort_key`, `pass: true`. What such a name demands of its
value is a `Demand`.

The words were gathered from the example configurations of widely used projects (`.env.example`, compose files), the
rules of gitleaks and the APIs of the providers.
"""

from __future__ import annotations

import enum
from functools import lru_cache
from typing import TYPE_CHECKING

from agenttape_core.lazy_patterns import Lazy
from agenttape_core.redaction.detection.findings import SECRET

if TYPE_CHECKING:
    from collections.abc import Mapping


def set_of(words: str) -> frozenset[str]:
    """Return words that blanks separate."""
    return frozenset(words.split())


STEMS = (b"pass", b"pwd", b"secret", b"token", b"key", b"auth", b"cookie", b"cred")
"""In nearly all names of secrets is one of these."""

PASSWORDS = set_of(
    "password passwords passwd passwds passw pwd pw passphrase passcode passwort passwörter kennwort losungswort "
    "wachtwoord contraseña contrasena clave senha senhas parola lösenord passord adgangskode salasana şifre sifre "
    "requirepass masterauth "
    "parolă heslo jelszó hasło hasła slaptažodis пароль пароля лозинка 密码 密碼 口令 パスワード 暗証番号 "
    "비밀번호 암호 पासवर्ड รหัสผ่าน סיסמה"
)
"""Last words whose value is chosen by people, so it may be short or all digits."""
_LAST_OF_PHRASES = frozenset({"khẩu", "المرور", "السر"})
FOREIGN = tuple(
    written
    for word in sorted(PASSWORDS | _LAST_OF_PHRASES)
    if not word.isascii() and len(word.encode("latin-1", "ignore")) < len(word)
    for written in dict.fromkeys((word, word.capitalize(), word.upper()))
)
"""Those of them that Latin-1 cannot hold, in small letters and capitals: a text has to be searched for each."""
PHRASES = frozenset(
    [("de", "passe"), ("de", "passo"), ("palavra", "passe"), ("mật", "khẩu"), ("كلمة", "المرور"), ("كلمة", "السر")]
)
"""Two last words that mean the same: French, Galician, European Portuguese, Vietnamese and Arabic."""
MARKS = "\u0300-\u036f\u0900-\u0dff\u0e31-\u0e4e"
"""Vowels and accents that are characters of their own, and that Python takes for no letters: Hindi, Tamil, Thai."""

HEADERS = frozenset({"authorization", "cookie", "cookies"})
"""Last words of headers whose value goes on to the end of the line."""

WHATEVER = (
    PASSWORDS
    | HEADERS
    | set_of("secret secrets token apikey apikeys jwt bearer mnemonic phpsessid jsessionid sessionid sessid")
)
"""Last words under which everything is a secret, whatever it looks like."""
WHATEVER_PAIRS = PHRASES | frozenset(
    [
        ("seed", "phrase"), ("recovery", "phrase"), ("secret", "phrase"), ("backup", "phrase"), ("mnemonic", "phrase"),
        ("connect", "sid"),
        ("cl\xe9", "secr\xe8te"), ("cl\xe9", "api"), ("clave", "secreta"), ("chave", "secreta"), ("chave", "api"),
        ("secret", "string"), ("secret", "binary"), ("secret", "text"),
        ("id", "rsa"), ("id", "dsa"), ("id", "ecdsa"), ("client", "assertion"), ("secret", "answer"),
        ("access", "tokens"), ("refresh", "tokens"), ("auth", "tokens"), ("api", "tokens"), ("bearer", "tokens"),
        ("session", "tokens"), ("device", "tokens"), ("personal", "tokens"),
    ]
)  # fmt: skip
"""Two last words that do the same."""

CONNECTIONS = frozenset([("connection", "string"), ("conn", "string"), ("conn", "str"), ("connection", "str")])
"""Two last words of what holds a credential among other things; `dsn` is another."""
IDS = frozenset([("session", "id"), ("webhook", "url")])
"""Two last words of an id or an address that is a secret if letters and digits alternate in it."""

KEYS = set_of(
    "api access private secret signing encryption account subscription master auth service session shared hmac jwt "
    "webhook ssh admin rapidapi consumer license licence fernet unseal enc crypto cipher"
)
"""Words before `key` under which everything is a secret. Other keys must look like one."""
KEYS_OF_DATA = set_of(
    "foreign sort sorting partition row hash range cache caching dedup dedupe deduplication idempotency object s3 "
    "file blob index lookup dict map json group grouping unique natural composite surrogate candidate public pub "
    "publishable host item record document doc node state memory input output message metadata config setting "
    "property translation i18n locale label field column table context thread checkpoint run task job event trace "
    "span tag feature flag route routing shard bucket registry redis queue topic id answer question prompt chat "
    "history store namespace vector embedding page image video audio attachment any by for no has is this that which "
    "each the first last next prev new old start end left right up down arrow enter escape shift ctrl alt meta hot "
    "short modifier minor major data entity resource source target name path content request response result value "
    "ref reference order user group customer conversation"
)
"""Words before `key` that tell of a key in a table, a dict or a keyboard: its value must look random."""

NO_CREDENTIAL = set_of(
    "max min num per prompt input output completion total cached reasoning audio image text pad eos bos unk sep cls "
    "mask stop special new first last start end next prev previous page paging continuation sync cursor cancellation "
    "generated predicted draft think"
)
"""Words before `token` that tell of counts and special tokens of language models, and of cursors of paged answers."""

NO_PASSWORD = set_of("bypass compass encompass trespass underpass overpass surpass")
"""Words that end in `pass` and are others."""
PASSES = set_of(
    "first second third one two multi single render forward backward num number test tests last next final full each "
    "per season ski boarding day week month year annual bus train rail museum gate band low high by let did will "
    "compiler"
)
"""Words before `pass` that tell of a turn, a test, a ticket or a filter."""

PINS = set_of("pin otp totp hotp cvv cvc csc")
"""Last words of short numbers that are secret: a number under them is one, unless it is shorter than three digits."""
NO_PINS = set_of(
    "gpio led rx tx clk data analog digital input output board header lock push drop map tie roll bowling hair"
)
"""Words before `pin` that tell of electronics, maps and needles."""
CODES = set_of(
    "pin otp totp mfa tfa fa verification verify security access auth authentication authorization confirmation sms "
    "backup recovery factor pass invite invitation activation reset login unlock card cvv cvc device unlocking time"
)
"""Words before `code` that make it such a number, or a secret of letters and digits."""

OPAQUE = set_of("auth credential credentials cred creds salt pepper appid iv")
"""Last words whose value is a secret if it looks like a key."""
QUERIED = set_of("sig signature code")
"""Last words that name a secret only among the pairs of a query or a form, and if the value looks like a key."""

QUALIFIERS = set_of("confirm confirmation again repeat retype value plain plaintext raw b64 base64")
"""Last words that are passed over: `password_confirm`, `secret_value`."""
FIRST_WORDS = set_of(
    "api access secret private master license encryption signing seed recovery verification security connection "
    "de palavra mật كلمة clé clave chave"
)
"""First words of a name that prose writes as two, or as three: `API key`, `mot de passe`."""
SECOND_WORDS = frozenset(last for _, last in WHATEVER_PAIRS | CONNECTIONS | IDS) | {"code", "codes"}
LAST_WORDS = (
    WHATEVER | SECOND_WORDS | PINS | OPAQUE | QUERIED | QUALIFIERS
    | set_of("token key keys pass passes tokens pat pats dsn psk mdp base id passwords passphrases passwds setcookies")
)  # fmt: skip
"""All last words of names."""
STATES = set_of(
    "true false yes no on off ok okay pass passed fail failed failure success skip skipped warn warning error info "
    "none null valid invalid active inactive enabled disabled pending required optional sent missing expired"
)
"""Values of `pass`, `pin` and the like that tell how something went."""


MAX_NAME = 96
"""Longer strings are texts that happen to be keys."""
_RUN_TOGETHER = Lazy(
    r"(?:(?:password|passwd|passphrase|apikey|accesskey|secretkey|privatekey|clientsecret|setcookie)s?"
    r"|(?:auth|access|refresh|session|bearer|api|id|identity|registry|csrf|xsrf)token)\Z"
)
_SMALL = rf"(?:[^\W\d_A-Z]|[{MARKS}])"
_WORD = Lazy(rf"[A-Z]+(?!{_SMALL})|[A-Z]?{_SMALL}+|[0-9]+")
_FOLDERS = frozenset({"PWD", "OLDPWD"})
_PUBLIC = ("public", "key")
_OF_RAILS = ("secret", "key", "base")
_BLOB = Lazy(rf"[^\w.\- {MARKS}]")


class Demand(enum.Enum):
    """A condition on the value under a name that makes it a secret."""

    NOTHING = enum.auto()  # it is one, whatever it looks like
    TEXT = enum.auto()  # no number and no state such as `true` or `failed`
    DIGITS = enum.auto()  # no state, and at least three digits
    OPAQUE = enum.auto()  # it looks like a key, also one of hex digits or of one case
    RANDOM = enum.auto()  # it looks random: letters of both cases and digits, mixed
    MIXED = (
        enum.auto()
    )  # letters and digits alternate: the id of a login, not the one that an agent gives to its thread
    CONNECTION = enum.auto()  # no URL with a password, in which the password alone is replaced
    NO_PATH = enum.auto()  # no path: a shell calls the folder that it is in `PWD`
    MADE_UP = enum.auto()  # one word with a letter and a digit
    UUID = enum.auto()
    QUERIED = enum.auto()  # it looks like a key, and is one of the pairs of a query or a form


_PAIRS = {
    **dict.fromkeys(WHATEVER_PAIRS, Demand.NOTHING),
    **dict.fromkeys(CONNECTIONS, Demand.CONNECTION),
    **dict.fromkeys(IDS, Demand.MIXED),
    ("secret", "id"): Demand.UUID,
}
_LASTS = {
    "dsn": Demand.CONNECTION,
    "psk": Demand.TEXT,
    "mdp": Demand.MADE_UP,  # French for a password, and a process of Markov's
    **dict.fromkeys(OPAQUE, Demand.OPAQUE),
    **dict.fromkeys(QUERIED, Demand.QUERIED),
}


@lru_cache(maxsize=4096)
def words_of(name: str) -> tuple[str, ...]:
    """Return the words of a name in lower case, without trailing numbers: `userPassword2` → `user`, `password`."""
    words = [word.lower() for word in _WORD.findall(name.lower() if name.isupper() else name)]
    while words and words[-1].isdigit():
        words.pop()
    return tuple(words)


@lru_cache(maxsize=4096)
def demand_of(name: str) -> Demand | None:
    """Return the demand that makes a value under this name a secret, or `None` if the name promises none."""
    if len(name) > MAX_NAME or _BLOB.search(name):
        return None
    if name in _FOLDERS:
        return Demand.NO_PATH
    words = words_of(name)
    if len(words) > 1 and words[-1] in QUALIFIERS:
        demand = _demand(words[:-1])
        return Demand.TEXT if demand in (Demand.NOTHING, Demand.DIGITS) else demand
    return _demand(words) if words else None


def _demand(words: tuple[str, ...]) -> Demand | None:
    last, before = words[-1], words[-2] if len(words) > 1 else ""
    if last == "token":
        return None if before in NO_CREDENTIAL or words[-3:-1] == _PUBLIC else Demand.NOTHING
    if last in ("key", "keys"):
        return _demand_of_key(before)
    if last.endswith("pass"):
        return None if before in PASSES or last in NO_PASSWORD else Demand.TEXT
    if last in PINS or (last in ("code", "codes") and before in CODES):
        return None if before in NO_PINS else Demand.DIGITS
    if last in WHATEVER or words[-3:] == _OF_RAILS or _RUN_TOGETHER.search(last):
        return Demand.NOTHING
    return _PAIRS.get((before, last)) or (Demand.OPAQUE if last in ("pat", "pats") and before else _LASTS.get(last))


def _demand_of_key(before: str) -> Demand:
    if before in KEYS:
        return Demand.NOTHING
    return Demand.OPAQUE if before and before not in KEYS_OF_DATA else Demand.RANDOM


@lru_cache(maxsize=4096)
def is_denied(name: str) -> bool:
    """Return True if the value under this name is a secret whatever it looks like."""
    return demand_of(name) is Demand.NOTHING


class Names:
    """The names that are denied for one redactor: ours, and those of the user's rules, by their words."""

    def __init__(self, own: Mapping[tuple[str, ...], str]) -> None:
        self._own = own
        self.own_words = tuple(dict.fromkeys(words[-1].encode() for words in own))
        """Literals, one of which is in each name that the user has denied; in lower case."""

    @property
    def has_own(self) -> bool:
        """True if the user has denied names, too."""
        return bool(self._own)

    def kind_of(self, name: str) -> str | None:
        """Return the kind of the values under a name, or `None` if the name is not denied."""
        if self._own and (kind := self._own.get(words_of(name))):
            return kind
        return SECRET if is_denied(name) else None

    def demand_of(self, name: str) -> Demand | None:
        """Return the demand on a value under this name; under the user's own names any value is a secret."""
        return Demand.NOTHING if self._own and words_of(name) in self._own else demand_of(name)
