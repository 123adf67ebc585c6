"""Secrets in sentences: a password that somebody tells, a code that a service sends, the words of a wallet."""

from __future__ import annotations

from agenttape_core.lazy_patterns import Lazy
from agenttape_core.redaction.detection.names import STATES
from agenttape_core.redaction.detection.tables import Row, has_digit_or_sign, is_credential, is_made_up, is_said, row
from agenttape_core.redaction.detection.values import is_type_name

_CODE = r"(?P<secret>\d{3}[ -]\d{3}|\d{4,8})"
_NO_CODES = (
    r"(?!(?:[\w'&.-]{1,24}[ ]){0,4}(?:discount|promo|coupon|voucher|zip|postal|post|area|country|booking|order|product"
    r"|tracking|error|status|exit|room|dress|bar|qr|source|dial|sort)[ -])"
)
_TOLD = r"""["'`*]{0,2}(?P<secret>[^\s"'`,;*]{5,64})"""
_PAIR = (
    r"""[*_`"']{0,3}[ ]?(?:is|are|:|=)[ ]{0,2}[*_`"']{0,3}[\w.@+-]{1,64}[ ]?[/:|][ ]?(?P<secret>[^\s"'`<>,;]{4,64})"""
)
_YEAR = Lazy(r"(?<!\d)20\d\d(?!\d)")
_WORDS = r"[a-z]{3,8}(?:[ ,]{1,2}[a-z]{3,8}){11,23}"
_LOGIN = (
    r"""(?i:(?:i|s|is|les)?(?:[ ](?:details|data|info|credentials))?)[*_`"']{0,3}"""
    r"""(?:(?:[ ](?:is|are))?[ ]?:|[ ](?:is|are))"""
    rf"""[*_`"' ]{{1,6}}(?!(?:{"|".join(sorted(STATES))})\b)[A-Za-z][\w.@+-]{{1,63}}"""
)
"""The user behind `Credentials:`, up to what parts it from the password."""


def _is_no_record(secret: str) -> bool:
    """Return False for the name of a record: `orders_4419`, or one with a year."""
    return is_made_up(secret) or (is_said(_YEAR.sub("", secret)) and not secret.isidentifier())


SENTENCES: tuple[Row, ...] = (
    row(("password ", "passwd ", "passcode ", "passphrase ", " pw "),
        rf"(?:[A-Za-z']{{1,12}}[ ]){{0,5}}?(?:is|was|to|as|be)(?:[ ]now)?:?[ ]{_TOLD}",
        "the password I set was ⟦Zebra-4471⟧ yesterday", "the password hashing was SHA-256 until 2024-01-05",
        is_secret=is_said),
    row(("password ", "passphrase ", "passcode "),
        rf"[^.\n]{{0,60}}?\b(?:it|that)(?:'s|[ ]is|[ ]was)(?:[ ]now)?[ ]{_TOLD}",
        "the passphrase was rotated, it is now ⟦kestrel-owl-4419⟧", "the password is old, it is now 90 days",
        is_secret=is_said),
    row(("secret to ", "token to ", "api key to ", "access key to ", "encryption key to "),
        r"""["'`](?P<secret>[^\s"'`]{8,128})["'`]""", "I set the API secret to `⟦kestrel-4419-x1⟧`",
        "I changed the token to `user_token_4419`, and the secret to `db-creds-2024`",
        before=r"(?i:set|changed|rotated|updated)[ ][^.\n]{0,40}?", is_secret=_is_no_record),
    row((" as the password", " as password", " as my password", " as your password", " as the passphrase"), "",
        "Use ⟦Zebra-4471⟧ as the password.", "Use user-4471@example.org/x as the login", words="password passphrase",
        before=r"""(?:\A|[\s"'`*])(?P<secret>[^\s"'`,;*]{5,64})["'`*]{0,2}""", is_secret=is_said),
    row(("with password ", "using password ", "with the password ", "using the password "), _TOLD,
        "Log in as bob with password ⟦Zebra-4471⟧", "Log in with password reset-links", words="password",
        is_secret=is_said),
    row(("password field with ", "password box with ", "password input with "), _TOLD,
        "Fill in the password field with ⟦Zebra-4471⟧", "Fill in the password field with your password",
        words="password", is_secret=is_said),
    row((" into the password", " in the password"), "", "Type '⟦Zebra-4471⟧' into the password field",
        "Type 'forgotten' into the password field", words="password",
        before=r"""["'`](?P<secret>[^\s"'`]{5,64})["'`]""", is_secret=is_said),
    row(("credential", "creds", "login", "log-in", "identifiant", "zugangsdaten", "credencia", "credenzial"),
        _LOGIN + r"""[ ][/|][ ](?P<secret>[^\s"'`<>,;:/()]{6,64}?)(?=\.?(?:[^\w:/.-]|\Z))""",
        "Credentials: bob / ⟦x7Yz9kP2⟧", "login: success / failure2",
        words="credential credentials creds login logins log identifiant identifiants zugangsdaten credenciales "
        "credenciais credenziali", is_secret=lambda secret: is_credential(secret) and not is_type_name(secret)),
    row(("credential", "creds", "login", "log-in"),
        _LOGIN + r"""[:/](?P<secret>[^\s"'`<>,;:/()]{6,64}?)(?=\.?(?:[^\w:/.-]|\Z))""", "login: bob:⟦x7Yz9kP2⟧",
        "login: pending/2024-01", words="credential credentials creds login logins log",
        is_secret=lambda secret: is_made_up(secret) and not is_type_name(secret)),
    row(("user/pass", "login/pass", "username/pass"), r"(?:word)?" + _PAIR, "user/pass: admin/⟦Zebra4471⟧",
        "user/password are: see/below", words="user login username", is_secret=has_digit_or_sign),
    row(" is your ", _NO_CODES + r"(?:[\w'&.-]{1,24}[ ]){0,4}?(?i:one-time[ ]\w{1,10}|passcode|otp|pin|code)\b",
        "⟦482913⟧ is your Acme security code", "482913 is your order code", words="code passcode otp pin",
        before=r"(?<![\w.#-])(?:[A-Z]{1,3}-)?" + _CODE),
    row("code: ", _CODE + r"(?![\w.-])", "Your one-time code: ⟦482 913⟧ (valid 5 min)", "exit code: 4829",
        before=r"(?i:one-time|verification|security|log-?in|sign-in|confirmation|2fa|mfa|sms)[ ](?:pass)?"),
    row(("code ", "enter "), rf"(?:the[ ]code[ ])?{_CODE}[ ](?:to|for)[ ](?:finish[ ]|complete[ ])?"
        r"(?i:log|sign|verif|confirm|authenticat|reset)", "Use code ⟦482913⟧ to log in to Acme. Never share it.",
        "exit code 4829 for signals", before=r"(?:\A|[\s\"'(>:])(?<!exit )(?<!error )(?<!status )"),
    row("use ", r"(?P<secret>\d{3}[ -]?\d{3})[ ](?:to|for)[ ](?:log|sign|verif|confirm|authenticat)",
        "Use ⟦482913⟧ to verify your account", "Use 4096 to verify the key"),
    row(("igungscode", "heitscode", "code de v\xe9rif", "digo de verif", "codice di verifica", "digo de seguran"),
        rf"[^\d\n]{{0,40}}{_CODE}(?!\d)", "Ihr Best\xe4tigungscode lautet ⟦482913⟧",
        "Ihr Best\xe4tigungscode kommt per SMS",
        words="tigungscode sicherheitscode rification verificaci verifica seguridad seguran"),
    row(("seed phrase", "recovery phrase", "seed words", "secret phrase", "mnemonic"),
        rf"""[^\n:.]{{0,24}}?(?:is|are|was|:)[:\s]{{1,3}}["'`]?(?P<secret>{_WORDS})\b""",
        "my seed phrase is: ⟦legal winner thank year wave sausage worth useful legal winner thank yellow⟧",
        "my seed phrase is: in the drawer", words="phrase seed mnemonic"),
    row(("code d'acc\xe8s", "codice d'accesso", "digo de acceso", "digo de acesso", "zugangscode"),
        rf"[^\n:.]{{0,40}}?(?:[ ](?:est|es|\xe9|\xe8|ist|lautet)|[ ]?:)[ ]{_TOLD}",
        "Le code d'acc\xe8s est ⟦Lavande-318⟧",
        "Le code d'acc\xe8s est dans le coffre", words="acc accesso acceso acesso zugangscode", is_secret=is_said),
    row(("recovery codes", "backup codes"),
        r"[^\n:]{0,24}:?(?:\s|\\n|[*-][ ]|\d[.)][ ]){1,8}(?P<secret>[a-z0-9]{4,6}-[a-z0-9]{4,6}"
        r"(?:(?:\s|\\n|,[ ]?){1,3}[a-z0-9]{4,6}-[a-z0-9]{4,6}){0,15})", "Recovery codes:\n⟦a1b2c-3d4e5\nf6g7h-8i9j0⟧",
        "Recovery codes:\nnone-left", words="codes", is_secret=has_digit_or_sign),
)  # fmt: skip
"""Sentences of people and of services."""
