"""How cassettes live in a git repository: readable differences, merges by record, what `agenttape init` sets up."""
