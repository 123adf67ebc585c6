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
        "diff": "Compare two cassettes or two folders, word by word.",
        "report": "Compare recordings with those of a git revision.",
    },
    "Guard": {
        "check": "Check recorded runs against your rules.",
        "validate": "Read cassettes to their end, with every asset.",
        "scan": "Find secrets in cassettes, assets and journals.",
        "stale": "List cassettes that are too old.",
        "coverage": "Show which tools, nodes and edges recorded runs have used.",
        "score": "Score recorded runs, or print their scores.",
        "review": "Walk through the recordings that wait for review.",
        "pending": "List the recordings that wait for review.",
        "accept": "Accept calls of a new recording.",
        "reject": "Drop calls of a new recording, and keep the recorded ones.",
        "verify": "Replay in varied environments, and compare the results.",
    },
    "Experiment": {
        "lab": "Vary something in each replay: faults, orders, mutants and more.",
    },
    "Exchange": {
        "import": "Read recordings of vcrpy, LangSmith or the older agenttape.",
        "export": "Write JSON, OpenTelemetry spans, or a tool oracle.",
        "serve": "Answer recorded calls of tools over HTTP on this machine.",
        "cassette": "Convert, migrate, recover, redact, seal or clean up files.",
    },
}
"""Each command is a function in a module of its name, imported when it is used (`import_` for `import`)."""
OF_CASSETTES: Mapping[str, str] = {
    "convert": "Convert a cassette to another format or compression.",
    "migrate": "Upgrade cassettes of older formats in place.",
    "prune": "List leftover files next to cassettes, or delete them.",
    "recover": "Recover recordings that were cut off.",
    "redact": "Replace secrets in cassettes with pseudonyms.",
    "schema": "Print the JSON Schema of a record.",
    "seal": "Keep a hash of each recorded call in a file for git.",
}
"""The commands of `agenttape cassette`."""
MEANT: Mapping[str, str] = {
    "compare": "diff",
    "grade": "check",
    "eval": "check",
    "ci": "check",
    "lint": "validate",
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
