"""The commands in groups, each with the first sentence of its help: to show them, none is imported."""

from __future__ import annotations

from collections.abc import Mapping

GROUPS: Mapping[str, Mapping[str, str]] = {
    "Start": {
        "init": "Set up git for cassettes, and CI and hooks if you wish.",
        "doctor": "Find problems in this project.",
    },
    "Record": {
        "record": "Run a command, and record its calls of models and tools.",
        "replay": "Run a command again, answered from its cassettes.",
        "update": "Record only the calls that changed, and what depends on them.",
    },
    "Look": {
        "ls": "List cassettes with their age, calls, tokens, cost and size.",
        "show": "Show a run: tree, timeline, statistics, or a page for the browser.",
        "diff": "Compare two cassettes or folders, or a branch with its base.",
    },
    "Guard": {
        "check": "Check cassettes: readable, without secrets, and as your rules say.",
        "review": "Accept or reject new recordings, call by call.",
        "verify": "Replay in varied environments, and compare the results.",
    },
    "Experiment": {
        "lab": "Vary something in each replay: faults, orders, mutants and more.",
    },
    "Exchange": {
        "import": "Read recordings of vcrpy, LangSmith or the older agenttape.",
        "export": "Write JSON, OpenTelemetry spans, or a tool oracle.",
        "serve": "Answer recorded calls of tools over HTTP on this machine.",
        "cassette": "Convert, migrate, redact, recover, clean up or checksum files.",
    },
}
"""Each command is a function in a module of its name, imported when it is used (`import_` for `import`)."""
OF_CASSETTES: Mapping[str, str] = {
    "checksum": "Keep a checksum of each recorded call in a file for git.",
    "convert": "Convert a cassette to another format or compression.",
    "migrate": "Upgrade cassettes of older formats in place.",
    "prune": "Delete leftover files next to cassettes.",
    "recover": "Recover recordings that were cut off.",
    "redact": "Replace secrets in cassettes with pseudonyms.",
    "schema": "Print the JSON Schema of a record.",
}
"""The commands of `agenttape cassette`."""
MEANT: Mapping[str, str] = {
    "compare": "diff",
    "grade": "check",
    "eval": "check",
    "ci": "check",
    **dict.fromkeys(("lint", "validate"), "check"),
    "scan": "check --only secrets",
    "report": "diff --base",
    "seal": "cassette checksum",
    **{word: f"check --{word}" for word in ("stale", "coverage", "score")},
    "inspect": "show",
    "trace": "show",
    "tree": "show",
    **{word: f"show --{word}" for word in ("timeline", "stats")},
    **dict.fromkeys(("view", "open"), "show --open"),
    "run": "replay",
    "heal": "update",
    "fix": "update",
    **{name: f"lab {name}" for name in ("faults", "flaky", "mutants", "orders", "shrink", "why")},
    "list": "ls",
    "pending": "review list",
    **{word: f"review {word}" for word in ("accept", "reject")},
    "clean": "cassette prune",
    **{name: f"cassette {name}" for name in OF_CASSETTES},
    "gc": "cassette prune",
}
"""Words that other tools have for our commands."""
INSTEAD: Mapping[str, str] = {
    "test": "run your tests with: pytest --cassette-mode=once",
    "rm": "delete the file, then run: agenttape cassette prune",
}
"""Words for what other programs do."""
