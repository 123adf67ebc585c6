"""Secrets in protocols as they are on the wire, in the configuration of devices, and in addresses of the web."""

from __future__ import annotations

import base64

from agenttape_core.lazy_patterns import Lazy
from agenttape_core.redaction.detection.tables import (
    QUOTED,
    WORD,
    Row,
    has_digit_or_sign,
    is_community,
    is_credential,
    row,
)
from agenttape_core.redaction.detection.values import is_opaque

_LEVEL = r"(?:[05-9][ ])?"
"""The number of the way in which a device of Cisco hides what follows."""
_BASE64 = r"(?P<secret>[A-Za-z0-9+/]{8,512}={0,2})(?![\w+/=])"
_VALUE = r"""(?P<secret>[^\s"'\\]{4,256})"""
_BREAK = r"(?:\r?\n|(?:\\{1,3}r)?\\{1,3}n)[ \t]{0,12}(?:(?:[CS]|Client|Server|client|server):[ ]{1,4})?"
"""A line break in a dialogue, of which the lines may be indented and tell who speaks."""
_LINE = r"""(?:(?:\A|[\r\n>"'`]|\\[rn])[ \t]{0,8}|[$>:#-][ ])"""
"""The text before a line: its beginning, a quote, a prompt, the mark of a list."""
_ENGLISH = Lazy(r"(?:[A-Za-z]+[-/.]+)*(?:[A-Za-z]+|\d+)")
"""English after "bearer": words joined by hyphens, perhaps a year."""
_WORD_AFTER_BASIC = Lazy(r"[A-Za-z]?[a-z]+|[A-Za-z/]+")
"""A word after "basic" is English unless it mixes cases, has digits or is padded."""
_RESETS = (
    *("/reset-password/", "/password-reset/", "/reset_password/", "/password_reset/", "/magic-link/", "/magic_link/"),
    *("/confirm-email/", "/verify-email/", "/invitations/", "/invite/", "/activate/", "/unlock/"),
)


def _is_encoded(secret: str) -> bool:
    return secret.endswith("=") or (secret != secret.lower() and not secret.isalpha())


def _is_random_path(secret: str) -> bool:
    return is_opaque(secret) or (any(map(str.isdigit, secret)) and any(map(str.isalpha, secret)))


def _is_bearer(secret: str) -> bool:
    return _ENGLISH.fullmatch(secret) is None and any(map(str.isdigit, secret))


def _is_basic(secret: str) -> bool:
    """Return True for base64 of `user:password` (RFC 7617)."""
    try:
        is_pair = b":" in base64.b64decode(secret, validate=True)
    except ValueError:
        return False
    return is_pair and (any(map(str.isdigit, secret)) or not _WORD_AFTER_BASIC.fullmatch(secret))


_HEADERS = rf"(?:{_BREAK}[\w-]{{1,40}}:[^\r\n\\]{{0,200}}){{0,4}}"
"""The other headers of a part of a form (RFC 7578)."""
_NAMED_ABOVE = rf"(?:\A|{_BREAK})(?P<name>[\w.\[\]-]{{1,128}}){_BREAK}[ ]{{2}}[^\n]{{0,300}}?\[type=\w{{1,64}},[ ]"
"""The field of a model of pydantic, and the error of its value."""

PROTOCOLS: tuple[Row, ...] = (
    row("bearer", r"(?a:(?:[ \t]{1,4}|%20|\+)(?P<secret>[\w.~+/-]{16,4096}={0,2}))",
        "Authorization: Bearer ⟦k3x9pz2v7w8qm4nb6cd5fg1hj⟧", "bearer instrument-of-1980", is_secret=_is_bearer),
    row("basic ", r"(?P<secret>[A-Za-z0-9+/]{8,1024}={0,2})(?![A-Za-z0-9_+/=-])",
        "Authorization: Basic ⟦Ym9iOkt4OXR1bmRyYQ==⟧", "Basic arithmetic is older.", is_secret=_is_basic),
    row(("AUTH PLAIN ", "AUTH LOGIN ", "AUTHENTICATE PLAIN "), _BASE64, "AUTH PLAIN ⟦AGJvYgBzM2NyZXRwdw==⟧",
        "AUTH PLAIN LOGIN CRAM-MD5", words="plain login", is_secret=_is_encoded, exact=True),
    row("AUTH ", rf"(?:[a-z][\w.-]{{0,31}}[ ])?{_VALUE}(?=[\s\"'\\]|\Z)", "AUTH default ⟦redisAcl77⟧",
        "AUTH failed for user-42", words="auth", before=rf"(?:{_LINE}|redis-cli[ ])",
        is_secret=is_credential, exact=True),
    row("PASS ", rf":?{_VALUE}(?=[\s\"'\\]|\Z)",
        "USER bob\r\n331 Password required\r\nPASS ⟦ftpPass77⟧\r\n230 Logged in", "PASS tests/unit/login2.test.js",
        before=r"(?:USER|NICK)[ ][^\s\\]{1,64}(?:\s|\\[rn])[\s\S]{0,160}?" + _LINE, exact=True),
    row("apop ", r"[\w.@-]{1,64}[ ](?P<secret>[0-9a-f]{32})\b", "APOP bob ⟦c4c9334bac560ecc979e58001b3e22fb⟧",
        "APOP bob failed"),
    row("334 ugfzc3dvcmq6", _BREAK + _BASE64, "334 UGFzc3dvcmQ6\r\n⟦czNjcmV0cHc=⟧", "334 UGFzc3dvcmQ6\r\n*"),
    row("mechanism=", rf"""\\{{0,3}}["']PLAIN\\{{0,3}}["'][^<>]{{0,200}}>{_BASE64}""",
        "<auth mechanism='PLAIN'>⟦AGJvYgBzM2NyZXRwdw==⟧</auth>", "<auth mechanism='PLAIN'/>"),
    row("AUTH", rf"(?:{_BREAK}\$\d{{1,4}}{_BREAK}[\w.-]{{1,64}})?{_BREAK}\$\d{{1,4}}{_BREAK}{_VALUE}",
        "*3\r\n$4\r\nAUTH\r\n$7\r\ndefault\r\n$8\r\n⟦redisAcl77⟧\r\n", "*1\r\n$4\r\nAUTH\r\n", exact=True),
    row("OPER ", rf"[\w|-]{{1,32}}[ ]{_VALUE}", "OPER bob ⟦1rcPass77⟧", "OPER bob failed", before=_LINE,
        is_secret=is_credential, exact=True),
    row("identify ", rf"(?:[\w|-]{{1,32}}[ ](?=\S))?{_VALUE}(?=[\s\"'\\]|\Z)", "/msg NickServ IDENTIFY ⟦1rcPass77⟧",
        "PRIVMSG NickServ :HELP identify now", words="nickserv", before=r"(?i:nickserv)[ :]{1,3}",
        is_secret=is_credential),
    row(" LOGIN ", rf"""["']?[\w.@+-]{{1,64}}["']?[ ]{WORD}""", 'a001 LOGIN bob "⟦im4pPass⟧"', "a001 LOGIN completed",
        before=_LINE + r"[A-Za-z]{0,4}\d{1,4}", exact=True),
    row(("requirepass ", "masterauth "), r"""(?P<quote>["'])?(?P<secret>[^\s"'\\]{4,512})""",
        "12:01 redis.conf:3> requirepass ⟦r3disPw⟧", "the requirepass directive of Redis", is_secret=has_digit_or_sign),
    row("form-data; name=", rf"""\\{{0,3}}"(?P<name>[\w.\[\]-]{{1,96}})\\{{0,3}}"{_HEADERS}{_BREAK}{_BREAK}"""
        r"(?P<secret>[^\r\n\\]{1,4096})",
        'Content-Disposition: form-data; name="password"\r\n\r\n⟦hunter77⟧\r\n--x',
        'Content-Disposition: form-data; name="city"\r\n\r\nhunter77\r\n--x'),
    row("input_value=", r"""(?P<quote>\\{0,3}['"])(?P<secret>[^\n]{1,512}?)(?P=quote),[ ]input_type=""",
        "password\n  Value error, too weak [type=value_error, input_value='⟦hunter77⟧', input_type=str]",
        "city\n  Value error, too far [type=value_error, input_value='hunter77', input_type=str]", before=_NAMED_ABOVE),
)  # fmt: skip
"""Lines of protocols: HTTP, SMTP, IMAP, POP3, FTP, IRC and Redis; and what pydantic reports."""

DEVICES: tuple[Row, ...] = (
    row((" password ", " secret "), _LEVEL + _VALUE, "username admin privilege 15 password 7 ⟦0822455D0A16544541⟧",
        "username admin password required",
        before=r"(?:\b(?:username|user)[ ][^\s]{1,64}(?:[ ](?:privilege|role|class)[ ][\w-]{1,24}){0,2}"
        r"|(?:\A|[\n\d#>|:\]]|\\n)[ \t]{0,4}enable(?:[ ]level[ ]\d{1,2})?|\bneighbor[ ][^\s]{1,48}|\bppp[ ]chap)",
        is_secret=has_digit_or_sign),
    row("snmp-server community ", _VALUE, "snmp-server community ⟦Pr1v4teRW⟧ RW", "snmp-server community public RO",
        words="snmp", is_secret=is_community),
    row("isakmp key ", rf"{_LEVEL}{_VALUE}(?=[ ](?:address|hostname)\b)",
        "crypto isakmp key ⟦c1scoPSK!9⟧ address 0.0.0.0", "crypto isakmp key generate", words="isakmp"),
    row(("tacacs-server ", "radius-server ", "tacacs server ", "radius server "),
        rf"[^\n]{{0,120}}?\bkey[ ]{_LEVEL}{_VALUE}", "tacacs-server host 10.0.0.1 key ⟦t4cacsK3y⟧",
        "tacacs-server host 10.0.0.1 timeout 20", words="tacacs radius", is_secret=has_digit_or_sign),
    row(("key-string ", "pre-shared-key ", "wpa-psk ", "message-digest-key ", "authentication-key "),
        r"(?:\d{1,5}[ ](?:md5|sha\d{0,3}|hmac[\w-]{0,16})[ ])?(?:(?:ascii|hex|local|remote|md5)[ ])?"
        rf"{_LEVEL}{WORD}", "ip ospf message-digest-key 1 md5 ⟦0spfK3y⟧", "the pre-shared-key must be long",
        words="string shared psk digest authentication", is_secret=has_digit_or_sign),
    row((": psk ", ":psk "), QUOTED, '%any : PSK "⟦swanKey2024⟧"', '%any : PSK "<your key>"'),
    row(("set password enc ", "set passwd enc ", "set psksecret enc ", "set secret enc ", "set key enc "),
        r"(?P<secret>[A-Za-z0-9+/=]{8,512})", "set password ENC ⟦SH2kX9vQ7Lm3==⟧", "set password ENC ...", words="enc"),
    row(("set passwd ", "set psksecret ", "encrypted-password "), WORD, "set psksecret ⟦f0rtiPsk⟧",
        "encrypted-password policy", words="passwd psksecret encrypted", is_secret=has_digit_or_sign),
    row("user nkey seed-----", r"(?:\r?\n|\\n)(?P<secret>S[A-Z2-7]{50,60})",
        "-----BEGIN USER NKEY SEED-----\n⟦SUAIBDPBAUTWCWBKIO6XHQNINK5FWJW4OHLXC3HQ2KFE4PEJUA44CNHTC4⟧\n------END",
        "-----BEGIN USER NKEY SEED-----\n\n------END", words="nkey"),
    row("wifi:", r"(?:[tshrTSHR]:[^;\n]{0,64};){0,4}[pP]:(?P<secret>(?:[^;\\\n]|\\.){4,63});",
        "WIFI:T:WPA;S:Home;P:⟦w1fiHome77⟧;;", "WIFI:T:nopass;S:Cafe;;"),
)  # fmt: skip
"""Configurations of routers, switches, access points and firewalls."""

URLS: tuple[Row, ...] = (
    row("://", r"""(?P<user>[^\s/:@"'<>\\]{0,128}):(?!(?=[A-Za-z]{1,32}@)(?P=user)@)"""
        r"""(?P<secret>[^\s/"'<>\\]{1,256})@(?=[\w.\[%{$-])""", "postgres://bob:⟦x7Yz9kP2⟧@db.example.org/shop",
        "postgres://postgres:postgres@localhost/shop", words="/"),
    row(("sig=", "signature="), r"(?a:(?P<secret>(?=[^&\s]{0,64}\d)[\w%+/=.~-]{16,2048}))",
        "https://x.blob.core.windows.net/c?se=2024&sig=⟦k3x9pz2v7w8qm4nb6cd5⟧", "https://example.org/?sig=no",
        before=r"(?i:(?:[?&;]|u0026)(?:x-(?:amz|goog|ms)-)?)", words="sig signature u0026sig u0026signature"),
    row("outlook.office.com/webhook/",
        r"(?P<secret>[0-9a-f-]{36}@[\w-]{1,36}/IncomingWebhook/[0-9a-z]{32}/[\w-]{1,36})",
        "https://outlook.office.com/webhook/⟦8f3c9a1d-27b7-4e4c-9f9a-552b6d80e1f4@8f3c9a1d-27b7-4e4c-9f9a-552b6d80e1f4"
        "/IncomingWebhook/8f3c9a1d27b7e4c1f9a552b6d80e1f4a/8f3c9a1d-27b7-4e4c-9f9a-552b6d80e1f4⟧",
        "https://outlook.office.com/webhook/docs", words="outlook"),
    row("infura.io/", r"(?:ws/)?v\d/(?P<secret>[0-9a-f]{32})\b",
        "https://mainnet.infura.io/v3/⟦8f3c9a1d27b7e4c1f9a552b6d80e1f4a⟧", "https://docs.infura.io/v3/networks"),
    row(("alchemy.com/", "alchemyapi.io/"), r"(?:nft/)?v\d/(?P<secret>[\w-]{20,64})",
        "https://eth-mainnet.g.alchemy.com/v2/⟦k3x9pz2v7w8qm4nb6cd5fg1hj⟧", "https://docs.alchemy.com/v2/reference"),
    row("hooks.zapier.com/hooks/catch/", r"\d{1,12}/(?P<secret>[a-z0-9]{5,24})",
        "https://hooks.zapier.com/hooks/catch/1234567/⟦b4x9pz2⟧/", "https://hooks.zapier.com/hooks/catch/",
        words="zapier"),
    row(("anaconda.org/t/", "/conda/t/"), r"(?P<secret>[\w-]{20,80})/",
        "https://conda.anaconda.org/t/⟦bo-8f3c9a1d-27b7-4e4c-9f9a-552b6d80e1f4⟧/bob",
        "https://conda.anaconda.org/t/<TOKEN>/bob", words="anaconda conda"),
    row(("quiknode.pro/", "ankr.com/eth/", "ankr.com/bsc/", "getblock.io/"), r"(?P<secret>[0-9a-f-]{32,64})\b",
        "https://a-b.quiknode.pro/⟦8f3c9a1d27b7e4c1f9a552b6d80e1f4a8f3c9a1d⟧/", "https://a-b.quiknode.pro/docs",
        words="quiknode ankr getblock"),
    row((".make.com/", "with/key/", "with/json/key/", "integromat.com/"), r"(?P<secret>[\w-]{16,64})(?![\w/-])",
        "https://hook.eu1.make.com/⟦k3x9pz2v7w8qm4nb6cd5fg1hjk3x9pz2⟧", "https://www.make.com/integrations-and-apps",
        words="make ifttt integromat", is_secret=_is_random_path),
    row("/calendar/ical/", r"[^\s/]{1,120}/private-(?P<secret>[0-9a-f]{20,64})",
        "https://calendar.google.com/calendar/ical/bob/private-⟦8f3c9a1d27b7e4c1f9a552b6d80e1f4a⟧/basic.ics",
        "https://calendar.google.com/calendar/ical/bob/public/basic.ics", words="ical"),
    row("/hooks/", r"(?P<secret>[a-z0-9]{26})(?![\w/-])", "https://chat.example.org/hooks/⟦k3x9pz2v7w8qm4nb6cd5fg1hjk⟧",
        "https://example.org/hooks/useeffectcleanupfunctionsx", is_secret=_is_random_path),
    row(_RESETS, r"(?P<secret>[\w~.=-]{16,512})(?![/\w])",
        "https://example.org/reset-password/⟦k3x9pz2v7w8qm4nb6cd5fg1hj⟧",
        "https://example.org/reset-password/how-does-it-work-2024",
        words="reset magic confirm verify invitations invite activate unlock reset_password password_reset magic_link",
        is_secret=is_opaque),
    row("/reset/", r"[A-Za-z0-9]{1,12}/(?P<secret>[a-z0-9]{5,8}-[0-9a-f]{20,64})",
        "https://example.org/accounts/reset/MQ/⟦c5xq1t-8f3c9a1d27b7e4c1f9a552b6d80e1f4a⟧/",
        "https://example.org/reset/all/now"),
    row("oracle:thin:", r"""[\w.$#-]{1,64}/(?P<secret>[^\s@"'/\\]{3,128})@""",
        "jdbc:oracle:thin:scott/⟦tigerlily⟧@//db:1521/XE", "jdbc:oracle:thin:@//db:1521/XE"),
)  # fmt: skip
"""Addresses whose path is the secret."""
