"""The words that names of secrets are made of, and those that look like them and are not.

They were gathered from the example configurations of widely used projects (`.env.example`, compose files), the rules of
gitleaks and the APIs of the providers. `names` says how they decide.
"""

from __future__ import annotations


def _words(words: str) -> frozenset[str]:
    return frozenset(words.split())


STEMS = (b"pass", b"pwd", b"secret", b"token", b"key", b"auth", b"cookie", b"cred")
"""In nearly all names of secrets is one of these."""

PASSWORDS = _words(
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
    | _words("secret secrets token apikey apikeys jwt bearer mnemonic phpsessid jsessionid sessionid sessid")
)
"""Last words under which everything is a secret, whatever it looks like."""
WHATEVER_PAIRS = PHRASES | frozenset(
    [
        ("seed", "phrase"), ("recovery", "phrase"), ("secret", "phrase"), ("backup", "phrase"), ("mnemonic", "phrase"),
        ("connect", "sid"),
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

KEYS = _words(
    "api access private secret signing encryption account subscription master auth service session shared hmac jwt "
    "webhook ssh admin rapidapi consumer license licence fernet unseal enc crypto cipher"
)
"""Words before `key` under which everything is a secret. Other keys must look like one."""
KEYS_OF_DATA = _words(
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

NO_CREDENTIAL = _words(
    "max min num per prompt input output completion total cached reasoning audio image text pad eos bos unk sep cls "
    "mask stop special new first last start end next prev previous page paging continuation sync cursor cancellation "
    "generated predicted draft think"
)
"""Words before `token` that tell of counts and special tokens of language models, and of cursors of paged answers."""

NO_PASSWORD = _words("bypass compass encompass trespass underpass overpass surpass")
"""Words that end in `pass` and are others."""
PASSES = _words(
    "first second third one two multi single render forward backward num number test tests last next final full each "
    "per season ski boarding day week month year annual bus train rail museum gate band low high by let did will "
    "compiler"
)
"""Words before `pass` that tell of a turn, a test, a ticket or a filter."""

PINS = _words("pin otp totp hotp cvv cvc csc")
"""Last words of short numbers that are secret: a number under them is one, unless it is shorter than three digits."""
NO_PINS = _words(
    "gpio led rx tx clk data analog digital input output board header lock push drop map tie roll bowling hair"
)
"""Words before `pin` that tell of electronics, maps and needles."""
CODES = _words(
    "pin otp totp mfa tfa fa verification verify security access auth authentication authorization confirmation sms "
    "backup recovery factor pass invite invitation activation reset login unlock card cvv cvc device unlocking time"
)
"""Words before `code` that make it such a number, or a secret of letters and digits."""

OPAQUE = _words("auth credential credentials cred creds salt pepper appid iv")
"""Last words whose value is a secret if it looks like a key."""
QUERIED = _words("sig signature code")
"""Last words that name a secret only among the pairs of a query or a form, and if the value looks like a key."""

QUALIFIERS = _words("confirm confirmation again repeat retype value plain plaintext raw b64 base64")
"""Last words that are passed over: `password_confirm`, `secret_value`."""
FIRST_WORDS = _words(
    "api access secret private master license encryption signing seed recovery verification security connection "
    "de palavra mật كلمة"
)
"""First words of a name that prose writes as two, or as three: `API key`, `mot de passe`."""
SECOND_WORDS = frozenset(last for _, last in WHATEVER_PAIRS | CONNECTIONS | IDS) | {"code", "codes"}
LAST_WORDS = (
    WHATEVER | SECOND_WORDS | PINS | OPAQUE | QUERIED | QUALIFIERS
    | _words("token key keys pass passes tokens pat pats dsn psk mdp base id passwords passphrases passwds setcookies")
)  # fmt: skip
"""All last words of names."""
STATES = _words(
    "true false yes no on off ok okay pass passed fail failed failure success skip skipped warn warning error info "
    "none null valid invalid active inactive enabled disabled pending required optional sent missing expired"
)
"""Values of `pass`, `pin` and the like that tell how something went."""
