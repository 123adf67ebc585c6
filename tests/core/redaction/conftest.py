"""A corpus of fake secrets and of texts that hold none.

Secrets are assembled at run time from a seeded generator, so that scanners of repositories stay quiet and the
corpus is the same on every machine.
"""

from __future__ import annotations

import base64
import itertools
import json
import random
import string
import uuid
from collections import Counter
from typing import NamedTuple

import pytest

from agenttape_core.redaction import PSEUDONYM, Redactor

KEY = "0" * 64
ALPHABETS = {
    "h": "0123456789abcdef",
    "a": string.ascii_letters + string.digits,
    "w": string.ascii_letters + string.digits + "_-",
    "d": string.digits,
    "u": string.ascii_uppercase + string.digits,
    "l": string.ascii_lowercase + string.digits,
}
FORMS = {
    "anthropic": ["sk-ant-|api03-|w93|AA"],
    "openrouter": ["sk-or-|v1-|h64"],
    "openai": ["sk-|proj-|w40|7|w80", "sk-|a20|T3Blbk|FJ|a20", "sk-|svcacct-|w60|3"],
    "google": ["AI|za|w35"],
    "google_oauth": ["GOC|SPX-|a28", "ya|29.|w60"],
    "huggingface": ["h|f_|a34"],
    "groq": ["gs|k_|a52"],
    "xai": ["xa|i-|a80"],
    "perplexity": ["pp|lx-|a48"],
    "replicate": ["r|8_|a37"],
    "nvidia": ["nv|api-|w64"],
    "cerebras": ["cs|k-|l48"],
    "elevenlabs": ["s|k_|h48"],
    "pinecone": ["pc|sk_|a60"],
    "tavily": ["tv|ly-|a31|1"],
    "langsmith": ["ls|v2_|pt_|h32|_|h10"],
    "langfuse": ["sk|-lf-|h8|-|h4|-|h4|-|h4|-|h12"],
    "fireworks": ["f|w_|a23|1"],
    "aws": ["AK|IA|u16", "AS|IA|u16"],
    "azure": ["a52|JQ|QJ99|a26", "a3|8|Q~|a34"],
    "digitalocean": ["do|p_v1_|h64"],
    "databricks": ["da|pi|h32"],
    "terraform": ["a14|.atl|asv1.|w64"],
    "vault": ["hv|s.|a24"],
    "pulumi": ["pu|l-|h40"],
    "supabase": ["sb|p_|h40"],
    "doppler": ["d|p.pt.|a43"],
    "github": ["gh|p_|a36", "gh|o_|a36", "gh|s_|a36", "github_|pat_|a22|_|a59"],
    "gitlab": ["gl|pat-|a20"],
    "npm": ["np|m_|a36"],
    "pypi": ["py|pi-|AgEIcHlwaS5vcmc|w80"],
    "rubygems": ["ruby|gems_|h48"],
    "docker": ["dck|r_pat_|w27"],
    "atlassian": ["ATA|TT3|a180", "AT|BB|a32"],
    "postman": ["PM|AK-|h24|-|h34"],
    "figma": ["fi|gd_|w43"],
    "linear": ["li|n_api_|a40"],
    "notion": ["nt|n_|a46", "sec|ret_|a43"],
    "airtable": ["pa|t|a14|.|h64"],
    "slack": ["xo|xb-|d12|-|d12|-|a24", "xa|pp-1-|u11|-|d13|-|h64"],
    "telegram": ["d8|:A|A|w33"],
    "discord": ["MT|a22|.|w6|.|w38"],
    "twilio": ["S|K|h32"],
    "sendgrid": ["S|G.|w22|.|w43"],
    "mailgun": ["ke|y-|h32"],
    "mailchimp": ["h32|-u|s14"],
    "stripe": ["sk_|live_|a24", "rk_|live_|a24", "sk_|test_|a24"],
    "webhook_secret": ["wh|sec_|a32"],
    "shopify": ["sh|pat_|h32"],
    "square": ["sq|0atp-|w22", "EA|AA|w60"],
    "grafana": ["gl|sa_|a32|_|h8"],
    "newrelic": ["NR|AK-|u27"],
    "sentry": ["sn|tryu_|h64"],
    "jwt": ["ey|JhbGciOiJIUzI1NiJ9.ey|Jzdwi|a40|.|w43"],
}  # fmt: skip
AROUND = [
    "{}",
    "the key is {}, keep it",
    '{{"note": "use {} now"}}',
    "first\\n{}\\nlast",
    "https://host/?q=%20{}",
    "x: {}\n",
]
KNOWN_MISSES = [
    ("phone", "4155552671", "call 4155552671 today"),
    ("secret", "hunter2", "my password is hunter2"),
    ("secret", "correcthorse", "password: correcthorse"),
    ("ssn", "078051120", "number 078051120"),
]


class Planted(NamedTuple):
    """A text that holds one secret."""

    kind: str
    secret: str
    text: str


def fill(form: str, rng: random.Random) -> str:
    """Make a token of a form such as `gh|p_|a36`: literals, and an alphabet with a number."""
    parts = []
    for part in form.split("|"):
        is_run = part[:1] in ALPHABETS and part[1:].isdigit()
        parts.append("".join(rng.choices(ALPHABETS[part[0]], k=int(part[1:]))) if is_run else part)
    return "".join(parts)


def planted() -> list[Planted]:
    """All texts that hold a secret."""
    rng = random.Random(7)
    found = [
        Planted(kind, secret, around.format(secret))
        for kind, forms in FORMS.items()
        for form in forms
        for around in AROUND
        for secret in [_ended(fill(form, rng), rng)]
    ]
    personal = {
        "email": ["alice@example.com", "b.o-b+tag@mail.co.uk", "x_1@sub.domain.io"],
        "phone": [
            "+1 415-555-2671",
            "+14155552671",
            "(415) 555-2671",
            "415-555-2671",
            "+44 20 7946 0958",
            "+49 30 901820",
        ],
        "card": [
            "4111 1111 1111 1111",
            "5555-5555-5555-4444",
            "378282246310005",
            "6011111111111117",
            "3782 822463 10005",
        ],
        "iban": ["GB29 NWBK 6016 1331 9268 19", "DE89370400440532013000", "FR1420041010050500013M02606"],
        "ssn": ["123-45-6789", "078-05-1120"],
    }
    found += [
        Planted(kind, secret, around.format(secret))
        for kind, secrets in personal.items()
        for secret in secrets
        for around in ("{}", "it is {}, yes", '{{"x": "{}"}}', "a\\n{}\\nb", "- {}\n")
    ]
    pem = (
        "-----BEGIN RSA PRI"
        "VATE KEY-----\n" + "\n".join(fill("a64", rng) for _ in range(6)) + "\n-----END RSA PRI" + "VATE KEY-----"
    )
    found += [Planted("pem", text, text) for text in (pem, pem.replace("\n", "\\n"), pem[:200])]
    hook = fill("T|u8|/B|u8|/|a24", rng)
    found += [Planted("slack_webhook", hook, f"curl https://hooks.slack.com/services/{hook} -d x")]
    hook = fill("d18|/|w68", rng)
    found += [Planted("discord_webhook", hook, f"https://discord.com/api/webhooks/{hook}")]
    return found + _named(rng) + [Planted(*miss) for miss in KNOWN_MISSES]


def _ended(secret: str, rng: random.Random) -> str:
    """End on a letter: a final hyphen is ambiguous before punctuation."""
    return secret[:-1] + rng.choice("aef0") if secret[-1] in "-_" else secret


def _named(rng: random.Random) -> list[Planted]:
    basic = base64.b64encode(b"user:pa55word").decode()
    shapes = [
        ('{{"password": "{}"}}', "hunter2"), ('{{\\"api_key\\": \\"{}\\"}}', "abc-123"),
        ("client_secret='{}'", "s3cr3t"), ('"refreshToken" : "{}"', "rt~55!x"),
        ("Authorization: {}", "opaque9token8value"), ("Authorization: Bearer {}", "mF9B5f41JqM0aZ1c"),
        ("Cookie: {}", "sid=31d4d96e407aad42; theme=dark"), ("curl -H 'X-Api-Key: {}' https://x", "a1b2c3d4"),
        ("Authorization: Basic {}", basic), ("Proxy basic {} end", basic),
        ("https://x.io/cb?access_token={}&x=1", "plainword"), ("postgres://app:{}@db:5432/x", "p4ss-w0rd"),
        ("https://u:{}@host", "tok"), ("DB_PASSWORD={}", "correcthorse"),
        ("export AWS_SECRET_ACCESS_KEY={}", fill("a18|/|a9|+|a11", rng)), ("run --password {} now", "hunter2"),
        ("<secret>{}</secret>", "abc"), ('password: str = "{}"', "x1y2"), ("password: {}", "hunter2"),
        ("API key: {}", "abc123def456"), ('key = "{}"', "aB3dE5gH7jK9mN1pQ3sT5v"),
        ('credentials="{}"', "Zx81QwErTy55uIoP0aSdF"), ("AccountKey={}", fill("a64", rng)), ("token => '{}'", "abc"),
        ("self.private_key = '{}'", "abc"), ("set-cookie: {}", "a=b; Path=/"),
    ]  # fmt: skip
    return [
        Planted("secret", secret, before + text.format(secret)) for text, secret in shapes for before in ("", "line\n")
    ]


PROSE = [
    "The token count grew, the secretary kept the key to the cookie jar.",
    "Passwords must have 12 characters: none may repeat.", "max_tokens: 4096",
    '{"input_tokens": 812, "total_tokens": 1200}', '{"token": "Hello", "logprob": -0.25, "bytes": [72]}',
    '{"next_page_token": "CAUQAA"}', "tokenizer: cl100k_base",
    "def login(user: str, password: str, token: Optional[str]) -> None:", "password = getpass.getpass()",
    "token = response.json()['x']", "api_key=os.environ['OPENAI_API_KEY']", "api_key: ${OPENAI_API_KEY}",
    "password=<your-password>", "secret: ****", '{"password": {"type": "string", "description": "the password"}}',
    '{"api_key": null}', "if key == other_key:", "key: value", "primary key (id)", "sk-learn is scikit-learn",
    "<div class='sk-fading-circle'>", "git clone git@github.com:org/repo.git", "npm i react@18.2.0", "icon@2x.png",
    "@pytest.mark.asyncio", "user: alice at example dot com", "call +1 more time", "2024-01-15T10:30:00+00:00",
    "version 10.4.2-rc.1", "range 100-200-3000", "ISBN 978-3-16-148410-0", "1,234,567,890.00 EUR",
    "pi is 3.14159265358979323846", "0.4111111111111111", "192.168.100.200:8080", "uid 4111111111111112",
    "order 1234567890123456", "https://example.com:8080/a@b", "https://user@example.com/x",
    "redis://localhost:6379/0", "a:b@c", "Authorization: required",
    "Basic authentication is old; basic arithmetic is older.", "Cookie: a small cake", "bearer of good news",
    "the bearer instrument-of-1980 was", "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
    "-----BEGIN PUBLIC KEY-----", "token_type: Bearer",
    "finish_reason: stop, tool_call_id: call_6cJq93aFVqESCMAaWtizA2pE", "public_key='abc'", "monkey: 'banana'",
    "sha256:token", 'key = "6cb75f652a9b52798eb6cf2201057c73"', 'cache_key: "call_6cJq93aFVqESCMAaWtizA2pE"',
    "author: Jane", "the auth: see below", "eyJhbGciOi is how a JWT starts", "encryption_key: sha256",
    "password_policy: min12chars", "secret_name: prod/db1", "token: int64 = 5", "x-api-key: string",
    "AKIA and ASIA are prefixes", "hf_hub_download(repo_id='x', filename='y')", "shape_of_the_world_wide_web",
    "pattern_matching_is_structural",
]  # fmt: skip


def harmless() -> list[str]:
    """All texts that hold no secret: prose and code, and what agents are full of - ids, hashes, numbers, blobs."""
    rng = random.Random(11)
    ids = [
        "call_|a24", "resp_00|h48", "fc_|h50", "rs_|h50", "msg_|a24", "chatcmpl-|a29",
        "lc_run--|h8|-|h4|-|h4|-|h4|-|h12", "toolu_|a24", "run-|h32", "asst_|a24", "file-|a22", "thread_|a24",
        "req_|h32", "h32", "h40", "h64", "sha256:|h64", "d10", "d13", "d19", "gAAAAAB|w600", "fp_|h10",
        "v|d1|.|d2|.|d1", "202|d1|-0|d1|-1|d1|T1|d1|:2|d1|:3|d1|Z", "a|h7", "0x|h16", "arn:aws:iam::|d12|:role/x",
        "#|h6", "d3|.|d6", "lc_|h8|-|h4|-|h4|-|h4|-|h12", "@sha512-|h64",
    ]  # fmt: skip
    texts = [
        around.format(fill(form, rng))
        for form in ids
        for _ in range(9)
        for around in ("{}", '{{"id": "{}"}}', "see {} for it")
    ]
    texts += [str(uuid.UUID(int=rng.getrandbits(128))) for _ in range(60)]
    texts += ["data:image/png;base64," + base64.b64encode(rng.randbytes(3000)).decode() for _ in range(30)]
    texts += [base64.urlsafe_b64encode(rng.randbytes(2000)).decode() for _ in range(30)]
    texts += [
        json.dumps({"vector": [rng.uniform(-1, 1) for _ in range(20)], "n": rng.randrange(10**16)}) for _ in range(60)
    ]
    return PROSE + [f"{a} {b}" for a, b in itertools.pairwise(PROSE)] + texts


@pytest.fixture(scope="session")
def positives() -> list[Planted]:
    """Texts that hold one secret each."""
    return planted()


@pytest.fixture(scope="session")
def negatives() -> list[str]:
    """Texts that hold none."""
    return harmless()


@pytest.fixture
def redactor() -> Redactor:
    """A redactor with the built-in detectors."""
    return Redactor(KEY)


@pytest.fixture(scope="session")
def quality_table(positives: list[Planted], negatives: list[str]) -> str:
    """Precision and recall per kind, as the Markdown table that the docs print."""
    redactor = Redactor(KEY)
    planted_kinds = Counter(one.kind for one in positives)
    caught = Counter(one.kind for one in positives if one.secret not in redactor.text(one.text))
    wrong = Counter(found["kind"] for text in negatives for found in PSEUDONYM.finditer(redactor.text(text)))
    rows = ["| kind | secrets | recall | precision |", "|---|---|---|---|"]
    for kind in sorted(planted_kinds | wrong):
        recall = caught[kind] / planted_kinds[kind] if planted_kinds[kind] else 0.0
        precision = caught[kind] / (caught[kind] + wrong[kind]) if caught[kind] + wrong[kind] else 0.0
        rows.append(f"| `{kind}` | {planted_kinds[kind]} | {recall:.2f} | {precision:.2f} |")
    share = caught.total() / len(positives)
    right = caught.total() / (caught.total() + wrong.total())
    rows.append(f"| all, and {len(negatives)} texts without | {len(positives)} | {share:.2f} | {right:.2f} |")
    return "\n".join(rows)
