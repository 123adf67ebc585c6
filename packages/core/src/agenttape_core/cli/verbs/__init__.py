"""The verbs of the `agenttape` command, a module each."""
