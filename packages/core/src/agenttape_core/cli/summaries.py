"""The verbs of the command, each with the first sentence of its help: to show them, none is imported."""

from __future__ import annotations

from collections.abc import Mapping

SUMMARIES: Mapping[str, str] = {
    "accept": "Let calls of a new recording take the place of the recorded ones.",
    "check": "Check recorded runs: which tools, in which order, for how many tokens, with which answer.",
    "convert": "Convert a cassette to the layout and packing of TARGET's suffix, without loss.",
    "coverage": "Show the parts of a program that recorded runs have exercised: tools, their errors, "
    "nodes, edges, interrupts.",
    "diff": "Compare two cassettes: print the first divergence, then each record that differs, word by word.",
    "doctor": "Examine the project: settings, packages, the guard, cassettes, and what was left behind beside them.",
    "export": "Export cassettes for other tools, as JSON, as OpenTelemetry spans or as a tool oracle.",
    "gc": "Find unneeded files beside cassettes. Exits with 1 if there are any, unless they were removed.",
    "heal": "Execute only those calls that have changed, with what depends on them, and keep all others as they are.",
    "import": "Import recordings of vcrpy, LangSmith or agenttape 0.1 as cassettes; from a folder, all "
    "that are recognised.",
    "init": "Set git up to compare and merge the cassettes of this project, and to ignore working files beside them.",
    "lab": "Run a recorded program again and again, each time with something varied, and show what came of it.",
    "ls": "List cassettes with their age, calls, tokens, cost, size, models and last access.",
    "migrate": "Migrate cassettes of older formats in place.",
    "pending": "List the recordings that wait for review beside their cassettes, and the calls that have "
    "changed in them.",
    "record": "Run a command, and record the calls of models and tools in its Python processes.",
    "recover": "Recover recordings that were cut off: of a journal, of a cassette by its path or name, or "
    "of all below a folder.",
    "redact": "Replace secrets in cassettes and their assets with pseudonyms, and prove that they are gone.",
    "reject": "Drop calls of a new recording, and keep the recorded ones.",
    "replay": "Run a command again, and answer its Python processes from their cassettes.",
    "report": "Compare the recordings of the working tree with those of a revision: paths first, words "
    "second, tokens last.",
    "review": "Walk through the recordings that wait for review, call by call: other paths first, then "
    "words, then tokens.",
    "scan": "Look for secrets in cassettes, their assets, journals of interrupted recordings, and files of TapeSaver.",
    "schema": "Print the JSON Schema of a record of a cassette: a line of the JSON layout, a document of "
    "the YAML layout.",
    "score": "Score recorded runs, add to their scores, replace or remove them; without an option, print them.",
    "seal": "Seal cassettes: keep a hash of all that a recording says, record by record, in a file for git.",
    "serve": "Answer calls of tools as they were recorded, over HTTP on this machine, until Ctrl-C.",
    "show": "Show the tree of a run with requests, answers, chunks, tokens and times, or one record in full.",
    "stale": "List stale cassettes. Exits with 1 if there are any.",
    "stats": "Sum up cassettes: calls by kind, model and tool, errors, tokens, cost, time.",
    "timeline": "Show when each call ran, as bars on one scale: bars of parallel calls lie below each other.",
    "validate": "Read cassettes to their end: header, every record, every asset.",
    "verify": "Replay FUNCTION in processes with varied environments, and compare the results.",
    "view": "Write one HTML file that shows a run, or two runs side by side with their differences marked.",
}
"""Each verb is a function in a module of its name, imported when it is used (`import_` for `import`)."""
