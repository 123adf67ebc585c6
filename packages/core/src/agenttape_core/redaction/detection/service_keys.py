"""More keys that providers gave a form of their own: those of agents' tools, and of rules of gitleaks.

A table like that of `provider_keys`: a kind, the literals that each such key holds, and a pattern. `_GITLEAKS` are
those rules of https://github.com/gitleaks/gitleaks (config/gitleaks.toml) that need no context; the others are forms
that providers show in their documentation.
"""

from __future__ import annotations

from agenttape_core.redaction.detection.detector import AFTER, has_digit, token
from agenttape_core.redaction.detection.kinds import SECRET

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
_CLOUDS = (
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
    token(
        "putty",
        "Private-Lines:",
        r"Private-Lines:[ ]\d{1,3}(?:\r?\n|\\n)"
        r"(?P<secret>[A-Za-z0-9+/=]{40,64}(?:\r?\n|\\n)(?:[A-Za-z0-9+/=]{4,64}(?:\r?\n|\\n)?){1,64})",
        near="around",
    ),
    token(
        SECRET,
        "SSWS",
        r"SSWS[ \t]{1,4}(?P<secret>00[\w-]{28,60})(?![\w-])",
        check=has_digit,
        near="around",
    ),  # of Okta: https://developer.okta.com/docs/guides/create-an-api-token
    token("password_hash", "$2a$ $2b$ $2y$", r"\$2[aby]\$\d\d\$[./A-Za-z0-9]{53}(?![./A-Za-z0-9])", near="around"),
)
_BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_HEADS = ("5H", "5J", "5K", "Kw", "Kx", "Ky", "Kz", "L1", "L2", "L3", "L4", "L5")
_WIF = " ".join(f"{head}{char}" for head in _HEADS for char in _BASE58)
"""The beginnings of the private keys of Bitcoin's main network."""

_WALLETS = (
    token("wallet", "xprv yprv zprv tprv", r"[xyzt]prv[1-9A-HJ-NP-Za-km-z]{100,112}" + AFTER),  # BIP 32
    token(
        "wallet",
        _WIF,
        r"(?:5[HJK][1-9A-HJ-NP-Za-km-z]{49}|(?:K[w-z]|L[1-5])[1-9A-HJ-NP-Za-km-z]{50})" + AFTER,
        check=has_digit,
    ),
    token("nostr", "nsec1", r"nsec1[02-9ac-hj-np-z]{58}" + AFTER),  # NIP 19
    token("asana", "/12", r"[12]/12\d{8,18}:[0-9a-f]{32}" + AFTER, back=1, near="lead"),
)
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
    token(
        "teams_webhook",
        "webhookb2/",
        r"webhookb2/(?P<secret>[0-9a-f-]{36}@[0-9a-f-]{36}/IncomingWebhook/[0-9a-z]{32}/[0-9a-f-]{36})",
        near="around",
    ),
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
)

SERVICE_KEYS = _AGENTS + _CLOUDS + _WALLETS + _GITLEAKS
"""Each of these secrets holds an unbroken run of `views.LONG` token characters, or stands near one."""
