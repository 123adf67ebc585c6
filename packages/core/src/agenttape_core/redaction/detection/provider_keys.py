"""The keys that providers gave a form of their own: a kind, the literals that each such key holds, and a pattern.

`_GITLEAKS` are those rules of https://github.com/gitleaks/gitleaks (config/gitleaks.toml) that need no context; the
others are forms that providers show in their documentation.
"""

from __future__ import annotations

import re
from string import ascii_lowercase
from typing import TYPE_CHECKING, Literal

from agenttape_core.lazy_patterns import Lazy
from agenttape_core.named_tuples import NamedTuple
from agenttape_core.redaction.detection.findings import SECRET

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from agenttape_core.redaction.detection.findings import Finding
    from agenttape_core.redaction.detection.views import View


BEFORE = r"(?:(?<![A-Za-z0-9_+-])|(?<=\\[abfnrtv0])|(?<=%[0-9A-Fa-f]{2})|(?<=\\u[0-9A-Fa-f]{4})"
BEFORE += r"|(?<=\A[+-])|(?<=\n[+-])|(?<=\\n[+-])|(?<=(?<![A-Za-z0-9_+-])_))"
"""A token starts here: not inside another one, but right after an escape of JSON or of a URL, the mark of a diff or of
italics.

It also keeps the scan linear: a run of token characters is entered once, however often it repeats a prefix.
"""
AFTER = r"(?![A-Za-z0-9]|_\w)"
"""A token of fixed length ends here."""
_GLUED_AFTER = r"(?![A-Za-z0-9])"
_LEAST_GLUED = 3
"""The characters of an anchor that is looked for behind other letters, too."""

_DUMMY = 12
"""So many equal characters at its end do not happen to a random key."""

Near = Literal["head", "lead", "around", "anywhere"]


class Detector(NamedTuple):
    """One kind of secret.

    Args:
        kind: Its name in pseudonyms.
        anchors: Literals of which each such secret holds one; ASCII.
        pattern: The secret; tried at each anchor. Group `secret` is the secret, or the whole match.
        back: How many characters before the anchor the pattern starts.
        check: A last test of the secret.
        near: Where an anchor is: at the `head` of a long run of token characters, in the `lead` right before one, or
            `around` one, or `anywhere`: `+`, `/` and line breaks part the runs of such a secret.
        bare: The secret alone, for one that may be glued to letters or to `_` in front of it.
    """

    kind: str
    anchors: tuple[bytes, ...]
    pattern: Lazy[str]
    back: int = 0
    check: Callable[[str], bool] | None = None
    near: Near = "head"
    bare: Lazy[str] | None = None

    def accepts(self, secret: str) -> bool:
        """Return True if what matches is a secret, and not an example that somebody filled in."""
        return not is_dummy(secret) and (self.check is None or self.check(secret))

    def find(self, view: View, first: int = 0, last: int | None = None) -> Iterator[Finding]:
        """Find these secrets in a text, or those whose literal stands between two positions of it."""
        for anchor in self.anchors:
            at = view.raw.find(anchor, first, last)
            while at >= 0:
                match = self.pattern.match(view.text, at - self.back) if at >= self.back else None
                if match is not None and self.accepts(match[0]):
                    start, end = match.span("secret" if "secret" in match.re.groupindex else 0)
                    yield view.finding(start, end, self.kind)
                    at = view.raw.find(anchor, max(end, at + 1), last)
                else:
                    at = view.raw.find(anchor, at + 1, last)


def token(
    kind: str,
    anchors: str,
    pattern: str,
    *,
    back: int = 0,
    check: Callable[[str], bool] | None = None,
    near: Near = "head",
) -> Detector:
    """Return a detector of a token that starts outside any other token; anchors are separated by blanks."""
    literals = tuple(anchor.encode() for anchor in anchors.split())
    is_glued = near == "head" and not back and min(map(len, literals)) >= _LEAST_GLUED
    bare = Lazy(pattern.replace(AFTER, _GLUED_AFTER), re.ASCII) if is_glued else None
    return Detector(kind, literals, Lazy(BEFORE + pattern, re.ASCII), back, check, near, bare)


def is_dummy(secret: str) -> bool:
    """Return True if somebody filled in the form for an example: `ghp_xxxxxxxxxxxx`."""
    return len(set(secret[-_DUMMY:])) == 1


def has_digit(secret: str) -> bool:
    """Return True if there is a digit: words joined by hyphens have none, keys practically always do."""
    return any(char.isdigit() for char in secret)


_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_AGENTS = (
    token("llamacloud", "llx-", r"llx-[A-Za-z0-9]{40,}+"),
    token("google", "AQ.", r"AQ\.Ab8RN6[\w-]{30,}+", near="lead"),
    token("helicone", "sk-helicone-", r"sk-helicone-[\w-]{20,}+", check=has_digit),
    token("openai", "ek_", r"ek_[0-9a-f]{32,64}" + AFTER),
    token("openai", "sess-", r"sess-[A-Za-z0-9]{40}" + AFTER),
    token("litellm", "sk-", r"sk-(?=[A-Za-z0-9]*[_-])(?=[\w-]*[A-Z])(?=[\w-]*[0-9])[\w-]{22}(?![\w-])"),
    token("voyage", "pa-", r"pa-[\w-]{43}(?![\w-])", check=has_digit),
    token("wandb", "wandb_v", r"wandb_v\d_[\w-]{40,}+"),
    token("astra", "AstraCS:", r"AstraCS:[A-Za-z0-9]{20,}+:[0-9a-f]{64}" + AFTER, near="lead"),
    token("vercel", "vck_ vcp_ vca_ vcr_ vci_", r"vc[kpari]_[A-Za-z0-9]{24,}+"),
    token("brave", "BSA", r"BSA[\w-]{28}(?![\w-])", check=has_digit),
    token("apify", "apify_api_", r"apify_api_[A-Za-z0-9]{36}" + AFTER),
    token("browserbase", "bb_", r"bb_(?:live|test)_[\w-]{24,}+"),
    token("composio", "ak_", r"ak_[\w-]{20}(?![\w-])", check=has_digit),
    token("chroma", "ck-", r"ck-[A-Za-z0-9]{44}" + AFTER),
    token("neon", "napi_", r"napi_[a-z0-9]{60,}+"),
    token("runpod", "rpa_", r"rpa_[A-Z0-9]{40}[a-z0-9]{0,6}" + AFTER),
    token("anyscale", "esecret_", r"esecret_[a-z0-9]{24,}+"),
    token("daytona", "dtn_", r"dtn_[0-9a-f]{64}" + AFTER),
    token("zep", "z_1", r"z_1[\w-]{40,}+\.[\w-]{40,}+"),
    token("modal", "ak- as-", r"a[ks]-[A-Za-z0-9]{22}" + AFTER, check=has_digit),
    token("langwatch", "sk-lw-", r"sk-lw-[\w-]{30,}+"),
)
_CLOUD_SERVICES = (
    token("aws", "IQoJb3JpZ2lu", r"IQoJb3JpZ2lu[A-Za-z0-9+/%]{100,}+={0,2}", near="around"),
    token("aws", "bedrock-api-key-", r"bedrock-api-key-[A-Za-z0-9+/]{40,}+={0,2}"),
    token("azure", "AzSe", r"[A-Za-z0-9]{42}AzSe[A-D][A-Za-z0-9]{5}" + AFTER, back=42, near="around"),
    token("azure", "AzFu", r"[\w-]{44}AzFu[\w-]{5}[AQgw]==", back=44, near="around"),
    token("cloudflare", "v1.0-", r"v1\.0-[0-9a-f]{24}-[0-9a-f]{146}" + AFTER, near="lead"),
    token("contentful", "CFPAT-", r"CFPAT-[\w-]{43}(?![\w-])"),
    token("lambda", "secret_", r"secret_[A-Za-z0-9]{20,}+_[0-9a-f]{32}\.[A-Za-z0-9]{32}" + AFTER),
    token("resend", "re_", r"re_[A-Za-z0-9]{8}_[A-Za-z0-9]{20,}+"),
    token("posthog", "phx_", r"phx_[A-Za-z0-9]{40,}+"),
    token("circleci", "CCIPAT_", r"CCIPAT_[A-Za-z0-9]{22}_[0-9a-f]{40}" + AFTER),
    token("buildkite", "bkua_", r"bkua_[0-9a-f]{40}" + AFTER),
    token("sonarqube", "sqp_ squ_ sqa_", r"sq[pua]_[0-9a-f]{40}" + AFTER),
    token("nuget", "oy2", r"oy2[a-z0-9]{43}" + AFTER),
    token("crates", "cio", r"cio[A-Za-z0-9]{32}" + AFTER, check=has_digit),
    token("mapbox", "sk.eyJ", r"sk\.eyJ[\w-]{40,}+\.[\w-]{20,}+", near="lead"),
    token("clickup", "pk_", r"pk_\d{5,12}_[A-Z0-9]{32}" + AFTER),
    token("hubspot", "pat-na pat-eu", r"pat-(?:na|eu)\d-" + _UUID + AFTER),
    token("launchdarkly", "sdk- api-", r"(?:sdk|api)-" + _UUID + AFTER),
    token("plaid", "access-", r"access-(?:sandbox|development|production)-" + _UUID + AFTER),
    token("razorpay", "rzp_", r"rzp_(?:live|test)_[A-Za-z0-9]{14}" + AFTER),
    token("putty", "Private-Lines:", r"Private-Lines:[ ]\d{1,3}(?:\r?\n|\\n)"
        r"(?P<secret>[A-Za-z0-9+/=]{40,64}(?:\r?\n|\\n)(?:[A-Za-z0-9+/=]{4,64}(?:\r?\n|\\n)?){1,64})", near="around"),
    # https://developer.okta.com/docs/guides/create-an-api-token
    token(SECRET, "SSWS", r"SSWS[ \t]{1,4}(?P<secret>00[\w-]{28,60})(?![\w-])", check=has_digit, near="around"),
    token("password_hash", "$2a$ $2b$ $2y$", r"\$2[aby]\$\d\d\$[./A-Za-z0-9]{53}(?![./A-Za-z0-9])", near="around"),
)  # fmt: skip
_BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_HEADS = ("5H", "5J", "5K", "Kw", "Kx", "Ky", "Kz", "L1", "L2", "L3", "L4", "L5")
_WIF = " ".join(f"{head}{char}" for head in _HEADS for char in _BASE58)
"""The beginnings of the private keys of Bitcoin's main network."""

_WALLETS = (
    token("wallet", "xprv yprv zprv tprv", r"[xyzt]prv[1-9A-HJ-NP-Za-km-z]{100,112}" + AFTER),  # BIP 32
    token("wallet", _WIF, r"(?:5[HJK][1-9A-HJ-NP-Za-km-z]{49}|(?:K[w-z]|L[1-5])[1-9A-HJ-NP-Za-km-z]{50})" + AFTER,
        check=has_digit),
    token("nostr", "nsec1", r"nsec1[02-9ac-hj-np-z]{58}" + AFTER),  # NIP 19
    token("asana", "/12", r"[12]/12\d{8,18}:[0-9a-f]{32}" + AFTER, back=1, near="lead"),
)  # fmt: skip
_GITLEAKS = (
    token("onepassword", "A3-", r"A3-[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})(?:-[A-Z0-9]{5}){3}" + AFTER),
    token("adobe", "p8e-", r"p8e-[A-Za-z0-9]{32}" + AFTER),
    token("alibaba", "LTAI", r"LTAI[A-Za-z0-9]{20}" + AFTER),
    token("artifactory", "AKCp", r"AKCp[A-Za-z0-9]{69}" + AFTER),
    token("artifactory", "cmVmd", r"cmVmd[A-Za-z0-9]{59}" + AFTER),
    token("clickhouse", "4b1d", r"4b1d[A-Za-z0-9]{38}" + AFTER),
    token("clojars", "CLOJARS_", r"CLOJARS_[A-Za-z0-9]{60}" + AFTER),
    token("duffel", "duffel_", r"duffel_(?:test|live)_[\w=-]{43}"),
    token("easypost", "EZAK EZTK", r"EZ[AT]K[A-Za-z0-9]{54}" + AFTER),
    token("facebook", "EAA", r"EAA[A-Z][A-Za-z0-9]{100,}+"),
    token("flutterwave", "FLWSECK", r"FLWSECK(?:_TEST)?-(?:[A-Ha-h0-9]{32}-X|[A-Ha-h0-9]{12})" + AFTER),
    token("flyio", "fo1_", r"fo1_[\w-]{43}(?![\w-])"),
    token("flyio", "fm1 fm2_", r"fm(?:1[ar]|2)_[A-Za-z0-9+/]{100,}+={0,3}", near="around"),
    token("frameio", "fio-u-", r"fio-u-[\w=-]{64}(?![\w-])", near="around"),
    token("gitlab", "glagent- glft- glffct- glimt- gloas-", r"gl(?:agent|ffct|ft|imt|oas)-[\w-]{20,}+"),
    token("gitlab", "GR1348941", r"GR1348941[\w-]{20}(?![\w-])"),
    token("grafana", "eyJrIjoi", r"eyJrIjoi[A-Za-z0-9]{70,400}+={0,3}"),
    token("harness", "pat. sat.", r"[ps]at\.[\w-]{22}\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{20}" + AFTER, near="lead"),
    token("heroku", "HRKU-", r"HRKU-[\w-]{36,}+"),
    token("infracost", "ico-", r"ico-[A-Za-z0-9]{32}" + AFTER),
    token("intra42", "s-s4t2", r"s-s4t2(?:ud|af)-[0-9a-f]{64}" + AFTER),
    token("maxmind", "_mmk", r"[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk" + AFTER, back=36, near="around"),
    token("teams_webhook", "webhookb2/",
        r"webhookb2/(?P<secret>[0-9a-f-]{36}@[0-9a-f-]{36}/IncomingWebhook/[0-9a-z]{32}/[0-9a-f-]{36})", near="around"),
    token("octopus", "API-", r"API-[A-Z0-9]{26}" + AFTER, check=has_digit),
    token("openshift", "sha256~", r"sha256~[\w-]{43}(?![\w-])", near="lead"),
    token("readme", "rdme_", r"rdme_[a-z0-9]{70}" + AFTER),
    token("scalingo", "tk-us-", r"tk-us-[\w-]{48}(?![\w-])"),
    token("sendinblue", "xkeysib-", r"xkeysib-[0-9a-f]{64}-[A-Za-z0-9]{16}" + AFTER),
    token("settlemint", "sm_aat_ sm_pat_ sm_sat_", r"sm_[aps]at_[A-Za-z0-9]{16}" + AFTER),
    token("shippo", "shippo_", r"shippo_(?:live|test)_[0-9a-fA-F]{40}" + AFTER),
    token("sourcegraph", "sgp_", r"sgp_(?:(?:[0-9a-fA-F]{16}|local)_)?[0-9a-fA-F]{40}" + AFTER),
    token("typeform", "tfp_", r"tfp_[\w.=-]{59}(?![\w-])", near="around"),
    token("yandex", "AQVN", r"AQVN[\w-]{35,38}(?![\w-])"),
)  # fmt: skip

SERVICE_KEYS = _AGENTS + _CLOUD_SERVICES + _WALLETS + _GITLEAKS
"""Each of these secrets holds an unbroken run of `views.LONG` token characters, or stands near one."""


_MODEL_PROVIDERS = (
    token("anthropic", "sk-ant-", r"sk-ant-[\w-]{20,}+", check=has_digit),
    token("openrouter", "sk-or-", r"sk-or-(?:v\d-)?[A-Za-z0-9]{32,}+"),
    token("langfuse", "sk-lf-", r"sk-lf-[0-9a-f-]{36}" + AFTER),
    token("openai", "sk-proj- sk-svcacct- sk-admin- sk-None-", r"sk-(?:proj|svcacct|admin|None)-[\w-]{20,}+",
        check=has_digit),
    token("openai", "sk-", r"sk-[A-Za-z0-9]{20,}+(?![\w-])", check=has_digit),
    token("google", "AIza", r"AIza[\w-]{35}(?![\w-])"),
    token("google_oauth", "GOCSPX-", r"GOCSPX-[\w-]{28}" + AFTER),
    token("google_oauth", "ya29.", r"ya29\.[\w-]{20,}+", near="lead"),
    token("google_oauth", "1//0", r"1//0[\w-]{40,}+", check=has_digit, near="lead"),
    token("huggingface", "hf_ api_org_", r"(?:hf|api_org)_[A-Za-z0-9]{30,}+"),
    token("groq", "gsk_", r"gsk_[A-Za-z0-9]{40,}+"),
    token("xai", "xai-", r"xai-[A-Za-z0-9]{40,}+"),
    token("perplexity", "pplx-", r"pplx-[A-Za-z0-9]{40,}+"),
    token("replicate", "r8_", r"r8_[A-Za-z0-9]{37}" + AFTER),
    token("fireworks", "fw_", r"fw_[A-Za-z0-9]{22,}+", check=has_digit),
    token("nvidia", "nvapi-", r"nvapi-[\w-]{60,}+"),
    token("cerebras", "csk-", r"csk-[a-z0-9]{40,}+"),
    token("elevenlabs", "sk_", r"sk_[0-9a-f]{48}" + AFTER),
    token("pinecone", "pcsk_", r"pcsk_[A-Za-z0-9_]{40,}+"),
    token("tavily", "tvly-", r"tvly-(?:dev-|prod-)?[A-Za-z0-9-]{20,}+", check=has_digit),
    token("together", "tgp_", r"tgp_v\d_[\w-]{40,}+"),
    token("jina", "jina_", r"jina_[0-9a-f]{32}[A-Za-z0-9_-]{20,}+"),
    token("firecrawl", "fc-", r"fc-[0-9a-f]{32}" + AFTER),
    token("e2b", "e2b_", r"e2b_[0-9a-f]{40}" + AFTER),
    token("langsmith", "lsv2_ ls__", r"(?:lsv2_(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10}|ls__[0-9a-f]{32})" + AFTER),
)  # fmt: skip
_CLOUDS = (
    token("aws", "AKIA ASIA", r"A[KS]IA(?:[A-Z0-9]{16}" + AFTER + r"|(?=[A-Z]*\d)[A-Z0-9]{16}(?![A-Z0-9]))"),
    token("aws", "ABSK", r"ABSK[A-Za-z0-9+/]{100,}+={0,2}", near="around"),
    token("azure", "JQQJ99", r"[A-Za-z0-9]{52}JQQJ99[A-Za-z0-9]{26}" + AFTER, back=52, near="around"),
    token("azure", "Q~", r"[\w.~]{3}\dQ~[\w.~-]{31,34}(?![\w.~-])", back=4, near="lead"),
    token("digitalocean", "dop_ doo_ dor_", r"do[opr]_v1_[0-9a-f]{64}" + AFTER),
    token("databricks", "dapi", r"dapi[0-9a-f]{32}(?:-\d)?" + AFTER),
    token("terraform", ".atlasv1.", r"[A-Za-z0-9]{14}\.atlasv1\.[\w-]{60,}+", back=14, near="lead"),
    token("vault", "hvs. hvb.", r"hv[sb]\.[\w-]{24,}+", near="lead"),
    token("pulumi", "pul-", r"pul-[0-9a-f]{40}" + AFTER),
    token("supabase", "sbp_ sb_secret_", r"(?:sbp_[0-9a-f]{40}|sb_secret_[\w-]{20,40}+)" + AFTER),
    token("planetscale", "pscale_", r"pscale_(?:tkn|pw|oauth)_[\w-]{32,}+(?:\.[\w-]+)*+"),
    token("netlify", "nfp_ nfc_", r"nf[cp]_[A-Za-z0-9]{36,}+"),
    token("tailscale", "tskey-", r"tskey-[a-z]{2,10}-[A-Za-z0-9]{8,}+-[A-Za-z0-9]{16,}+"),
    token("prefect", "pnu_ pnb_", r"pn[ub]_[A-Za-z0-9]{36}" + AFTER),
    token("age", "AGE-SECRET-KEY-", r"AGE-SECRET-KEY-1[A-Z0-9]{58}" + AFTER),
    token("onepassword", "ops_", r"ops_eyJ[\w-]{100,}+={0,2}"),
    token("dynatrace", "dt0", r"dt0[a-z]\d\d\.[A-Z0-9]{24}\.[A-Z0-9]{64}" + AFTER, near="lead"),
    token("doppler", "dp.", r"dp\.(?:pt|st|ct|sa|scim|audit)\.(?:[a-z0-9_-]{2,35}\.)?[A-Za-z0-9]{40,44}" + AFTER,
        near="lead"),
)  # fmt: skip
_CODE_HOSTS = (
    token("github", "ghp_ gho_ ghu_ ghs_ ghr_", r"gh[opusr]_[A-Za-z0-9]{36,255}" + AFTER),
    token("github", "github_pat_", r"github_pat_\w{36,255}" + AFTER),
    token("gitlab", "glpat- gldt- glrt- glptt- glcbt- glsoat-",
        r"gl(?:pat|[dr]t|ptt|cbt|soat)-[\w-]{20,}+(?:\.[\w-]+)*+"),
    token("npm", "npm_", r"npm_[A-Za-z0-9]{36}" + AFTER),
    token("pypi", "pypi-", r"pypi-[\w-]{70,}+"),
    token("rubygems", "rubygems_", r"rubygems_[0-9a-f]{48}" + AFTER),
    token("docker", "dckr_", r"dckr_(?:pat|oat)_[\w-]{27,}+"),
    token("atlassian", "ATATT3 ATCTT3 ATBB", r"(?:AT[AC]TT3[\w-]{20}[\w=-]{80,}+|ATBB[A-Za-z0-9]{32}" + AFTER + ")"),
    token("postman", "PMAK-", r"PMAK-[0-9a-f]{24}-[0-9a-f]{34}" + AFTER),
    token("figma", "fig", r"fig[a-z]_[\w-]{40,}+", check=has_digit),
    token("linear", "lin_", r"lin_(?:api|oauth)_[A-Za-z0-9]{40,}+"),
    token("notion", "ntn_ secret_", r"(?:ntn_[A-Za-z0-9]{40,}+|secret_[A-Za-z0-9]{43}" + AFTER + ")"),
    token("airtable", "pat", r"pat[A-Za-z0-9]{14}\.[0-9a-f]{64}" + AFTER, near="lead"),
)  # fmt: skip
_BOT = r"(?:(?<![\w%])|(?<=/bot)|(?<=%[0-9A-Fa-f]{2})|(?<=\\[nrt]))"
_MESSAGING = (
    token("slack", " ".join([*(f"xox{letter}" for letter in ascii_lowercase), "xapp-", "xwfp-"]),
        r"(?:xox[a-z](?:\.xox[a-z])?|xapp|xwfp)-[A-Za-z0-9-]{15,}+", check=has_digit),
    token("slack_webhook", "hooks.slack.com/", r"hooks\.slack\.com/\w{4,20}/(?P<secret>T\w{5,20}/\w{5,20}/\w{16,40})",
        near="around"),
    token("discord_webhook", "webhooks/", r"webhooks/(?P<secret>\d{15,22}/[\w-]{50,100})", near="around"),
    *(Detector("telegram", (b":AA",), Lazy(_BOT + rf"\d{{{n}}}:AA[\w-]{{33}}(?![\w-])", re.ASCII), n, near="lead")
      for n in (8, 9, 10)),
    token("twilio", " ".join(f"SK{digit}" for digit in "0123456789abcdef"), r"SK[0-9a-f]{32}" + AFTER),
    token("sendgrid", "SG.", r"SG\.[\w-]{22}\.[\w-]{43}" + AFTER, near="lead"),
    token("mailgun", "key-", r"key-[0-9a-f]{32}" + AFTER),
    token("mailchimp", "-us", r"[0-9a-f]{32}-us\d{1,2}" + AFTER, back=32, near="around"),
)  # fmt: skip
_COMMERCE = (
    token("stripe", "sk_live_ sk_test_ rk_live_ rk_test_", r"[sr]k_(?:live|test)_[A-Za-z0-9]{16,}+"),
    token("webhook_secret", "whsec_", r"whsec_[A-Za-z0-9+/]{24,}+={0,2}", near="anywhere"),
    token("shopify", "shp", r"shp(?:at|ca|pa|ss|tka)_[0-9a-fA-F]{32}" + AFTER),
    token("square", "sq0", r"sq0[a-z]{3}-[\w-]{22,43}" + AFTER),
    token("square", "EAAA", r"EAAA[\w-]{60}" + AFTER),
)
_OBSERVABILITY = (
    token("grafana", "glc_ glsa_", r"gl(?:c|sa)_[A-Za-z0-9_+/]{32,}+={0,2}"),
    token("newrelic", "NRAK-", r"NRAK-[A-Z0-9]{27}" + AFTER),
    token("sentry", "sntrys_ sntryu_", r"(?:sntrys_[\w+/=-]{40,}+|sntryu_[0-9a-f]{64}" + AFTER + ")", near="around"),
)
_ENCODED, _CONTENT = Lazy(r"[A-Za-z0-9+/=]{16}"), Lazy(r"(?<!\\)[A-Za-z0-9+/=]")


def _is_pem(secret: str) -> bool:
    """Return True if there is a key in the armour, and no pseudonym; in examples it's empty."""
    cut_off = secret.rpartition("-----")[2]
    return (_CONTENT.search(cut_off) if cut_off else _ENCODED.search(secret)) is not None


PEM = Detector(
    "pem",
    (b"-----BEGIN ",),
    Lazy(
        r"-----BEGIN (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
        r"(?:(?:[^-]|-(?!----(?:BEGIN|END))){0,16384}+-----END [A-Z0-9 ]{0,40}-----|(?:[A-Za-z0-9+/=:,\s]|\\[nrt])*+)"
    ),
    check=_is_pem,
    near="anywhere",
)
r"""A private key in PEM armour (RFC 7468), also with `\\n` for line breaks, and cut off."""

_TOKENS = (
    token("jwt", "eyJ", r"eyJ[\w-]{8,}+\.eyJ[\w-]{8,}+\.[\w-]*+", near="around"),
    token("jwt", "eyJ", r"eyJ[\w-]{8,}+\.[\w-]*+\.[\w-]{8,}+\.[\w-]{8,}+\.[\w-]{8,}+", near="around"),
)  # fmt: skip

PROVIDER_KEYS: tuple[Detector, ...] = (
    _MODEL_PROVIDERS + _CLOUDS + _CODE_HOSTS + _MESSAGING + _COMMERCE + _OBSERVABILITY + _TOKENS + SERVICE_KEYS
)
"""Each of these secrets holds an unbroken run of `views.LONG` token characters, but for those `anywhere`."""
