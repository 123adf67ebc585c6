"""The bytes of a cassette: records as YAML or JSON lines, and back. The format is decision 0001."""
