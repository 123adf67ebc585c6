"""The commands of the `agenttape` command, a module each."""
