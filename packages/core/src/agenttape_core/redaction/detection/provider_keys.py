"""Keys that providers gave a form of their own.

Sources: the providers' documentation and the public pattern lists of secret scanners. Each pattern is anchored at a
literal and linear; see `detectors.BEFORE`.
"""

from __future__ import annotations

import re
from string import ascii_lowercase

from agenttape_core.redaction.detection.detector import AFTER, Detector, has_digit, token
from agenttape_core.redaction.detection.lazy import Lazy
from agenttape_core.redaction.detection.service_keys import SERVICE_KEYS

_MODEL_PROVIDERS = (
    token("anthropic", "sk-ant-", r"sk-ant-[\w-]{20,}+", check=has_digit),
    token("openrouter", "sk-or-", r"sk-or-(?:v\d-)?[A-Za-z0-9]{32,}+"),
    token("langfuse", "sk-lf-", r"sk-lf-[0-9a-f-]{36}" + AFTER),
    token(
        "openai",
        "sk-proj- sk-svcacct- sk-admin- sk-None-",
        r"sk-(?:proj|svcacct|admin|None)-[\w-]{20,}+",
        check=has_digit,
    ),
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
)
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
    token(
        "doppler",
        "dp.",
        r"dp\.(?:pt|st|ct|sa|scim|audit)\.(?:[a-z0-9_-]{2,35}\.)?[A-Za-z0-9]{40,44}" + AFTER,
        near="lead",
    ),
)
_CODE_HOSTS = (
    token("github", "ghp_ gho_ ghu_ ghs_ ghr_", r"gh[opusr]_[A-Za-z0-9]{36,255}" + AFTER),
    token("github", "github_pat_", r"github_pat_\w{36,255}" + AFTER),
    token(
        "gitlab", "glpat- gldt- glrt- glptt- glcbt- glsoat-", r"gl(?:pat|[dr]t|ptt|cbt|soat)-[\w-]{20,}+(?:\.[\w-]+)*+"
    ),
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
)
_BOT = r"(?:(?<![\w%])|(?<=/bot)|(?<=%[0-9A-Fa-f]{2})|(?<=\\[nrt]))"
_MESSAGING = (
    token(
        "slack",
        " ".join([*(f"xox{letter}" for letter in ascii_lowercase), "xapp-", "xwfp-"]),
        r"(?:xox[a-z](?:\.xox[a-z])?|xapp|xwfp)-[A-Za-z0-9-]{15,}+",
        check=has_digit,
    ),
    token(
        "slack_webhook",
        "hooks.slack.com/",
        r"hooks\.slack\.com/\w{4,20}/(?P<secret>T\w{5,20}/\w{5,20}/\w{16,40})",
        near="around",
    ),
    token("discord_webhook", "webhooks/", r"webhooks/(?P<secret>\d{15,22}/[\w-]{50,100})", near="around"),
    *(
        Detector(
            "telegram",
            (b":AA",),
            Lazy(_BOT + rf"\d{{{digits}}}:AA[\w-]{{33}}(?![\w-])", re.ASCII),
            digits,
            near="lead",
        )
        for digits in (8, 9, 10)
    ),
    token("twilio", " ".join(f"SK{digit}" for digit in "0123456789abcdef"), r"SK[0-9a-f]{32}" + AFTER),
    token("sendgrid", "SG.", r"SG\.[\w-]{22}\.[\w-]{43}" + AFTER, near="lead"),
    token("mailgun", "key-", r"key-[0-9a-f]{32}" + AFTER),
    token("mailchimp", "-us", r"[0-9a-f]{32}-us\d{1,2}" + AFTER, back=32, near="around"),
)
_COMMERCE = (
    token("stripe", "sk_live_ sk_test_ rk_live_ rk_test_", r"[sr]k_(?:live|test)_[A-Za-z0-9]{16,}+"),
    token("webhook_secret", "whsec_", r"whsec_[A-Za-z0-9+/]{24,}+={0,2}", near="base64"),
    token("shopify", "shp", r"shp(?:at|ca|pa|ss|tka)_[0-9a-fA-F]{32}" + AFTER),
    token("square", "sq0", r"sq0[a-z]{3}-[\w-]{22,43}" + AFTER),
    token("square", "EAAA", r"EAAA[\w-]{60}" + AFTER),
)
_OBSERVABILITY = (
    token("grafana", "glc_ glsa_", r"gl(?:c|sa)_[A-Za-z0-9_+/]{32,}+={0,2}"),
    token("newrelic", "NRAK-", r"NRAK-[A-Z0-9]{27}" + AFTER),
    token("sentry", "sntrys_ sntryu_", r"(?:sntrys_[\w+/=-]{40,}+|sntryu_[0-9a-f]{64}" + AFTER + ")", near="around"),
)
_TOKENS = (
    token("jwt", "eyJ", r"eyJ[\w-]{8,}+\.eyJ[\w-]{8,}+\.[\w-]*+", near="around"),
    token("jwt", "eyJ", r"eyJ[\w-]{8,}+\.[\w-]*+\.[\w-]{8,}+\.[\w-]{8,}+\.[\w-]{8,}+", near="around"),
)

PROVIDER_KEYS: tuple[Detector, ...] = (
    _MODEL_PROVIDERS + _CLOUDS + _CODE_HOSTS + _MESSAGING + _COMMERCE + _OBSERVABILITY + _TOKENS + SERVICE_KEYS
)
"""Each of these secrets holds an unbroken run of `views.LONG` token characters, but for those that are `base64`."""
