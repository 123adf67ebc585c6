"""The rules of prompt caches as providers publish them: a table with sources and dates.

Providers change these rules: a row says where it's from, and when it was read there. Add a model by a row.
"""

from __future__ import annotations

import re

from agenttape_core.lazy_patterns import Lazy
from agenttape_core.named_tuples import NamedTuple

_MINUTE, _HOUR = 60, 3600
_OPENAI = "https://developers.openai.com/api/docs/guides/prompt-caching"
_ANTHROPIC = "https://platform.claude.com/docs/en/build-with-claude/prompt-caching"
_GOOGLE = "https://ai.google.dev/gemini-api/docs/caching"
_DEEPSEEK = "https://api-docs.deepseek.com/guides/kv_cache"


class CacheRule(NamedTuple):
    """A provider's rules for prompts of some of its models."""

    provider: str  # as OpenTelemetry's GenAI conventions call it
    models: Lazy[str]  # the names of the models, without a provider in front
    minimum: int  # the length of the shortest prefix that is cached, in tokens
    block: int  # a cached prefix is a multiple of so many tokens long
    ends: str  # "tokens" if a prefix may end after any block; "breakpoints" if it ends only at marks in a request
    automatic: bool  # whether the end of each request is a breakpoint, without a mark
    lookback: int | None  # the parts before a breakpoint in which an earlier one is looked for; `None` for any
    lifetime: float  # the seconds for which a prefix is kept after its last use, at least
    long_lifetime: float  # the same for a request that asks for more; 0 if none can
    read: float  # the price of reading a token, as a share of the price of input; a price list goes first
    write: float  # the price of writing one, as such a share; a price list goes first
    long_write: float  # the same for the long lifetime
    source: str  # the page that says so
    checked: str  # the day on which it was read, ISO 8601


def _row(
    provider: str,
    models: str,
    minimum: int,
    *,
    source: str,
    block: int = 1,
    ends: str = "tokens",
    automatic: bool = True,
    lookback: int | None = None,
    lifetime: float = 5 * _MINUTE,
    long_lifetime: float = 0,
    read: float = 0.1,
    write: float = 1.0,
    long_write: float | None = None,
    checked: str = "2026-11-29",
) -> CacheRule:
    pattern = Lazy(models)
    return CacheRule(provider, pattern, minimum, block, ends, automatic, lookback, lifetime, long_lifetime, read, write,
                     write if long_write is None else long_write, source, checked)  # fmt: skip


def _openai(models: str, *, read: float = 0.1, lifetime: float = 5 * _MINUTE) -> CacheRule:
    return _row("openai", models, 1024, block=128, lifetime=lifetime, long_lifetime=24 * _HOUR, read=read,
                source=_OPENAI)  # fmt: skip


def _anthropic(models: str, minimum: int) -> CacheRule:
    return _row("anthropic", models, minimum, ends="breakpoints", automatic=False, lookback=20, long_lifetime=_HOUR,
                write=1.25, long_write=2.0, source=_ANTHROPIC)  # fmt: skip


RULES = (
    # From GPT-5.6 on, each request has one implicit breakpoint at its end, and writes cost.
    _row("openai", r"gpt-(?:5\.(?:[6-9]|\d\d)|[6-9])", 1024, ends="breakpoints", lifetime=30 * _MINUTE, write=1.25,
         source=_OPENAI),
    _openai(r"gpt-5\.5", lifetime=24 * _HOUR),  # its default is the extended retention
    _openai(r"gpt-5"),
    _openai(r"gpt-4\.1|o3|o4", read=0.25),
    _openai(r"gpt-4o|chatgpt-4o|o1", read=0.5),
    _anthropic(r"claude-(?:opus|fable|mythos)-5", 512),
    _anthropic(r"claude-opus-4-7", 2048),
    _anthropic(r"claude-(?:opus-4-[56]|haiku-4-5)", 4096),
    _anthropic(r"claude-(?:3-5-haiku|3-haiku|haiku-3)", 2048),
    _anthropic(r"claude-", 1024),
    # Google says of the lifetime only that requests should follow "in a short amount of time".
    _row("gcp.gemini", r"gemini-2\.5", 2048, source=_GOOGLE),
    _row("gcp.gemini", r"gemini-(?:[3-9]|\d\d)", 4096, source=_GOOGLE),
    # Entries are cleared after hours, up to days, without use.
    _row("deepseek", r"deepseek", 64, block=64, lifetime=_HOUR, read=0.25, source=_DEEPSEEK),
)  # fmt: skip


def rule_for(model: str) -> CacheRule | None:
    """Return the rule for a model; `None` if none is known.

    Its name may have the provider before it: `anthropic/claude-sonnet-4-5`, `us.anthropic.claude-sonnet-4-5-v1:0`,
    `openai:gpt-5`.
    """
    name = re.sub(r"^.*[/:](?=[a-z])|^(?:\w+\.)*?(?=claude)", "", model.lower()).replace("claude-3.", "claude-3-")
    return next((rule for rule in RULES if rule.models.match(name)), None)
