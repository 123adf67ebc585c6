"""A library's agent of LlamaIndex: it looks things up in an index, and reserves books."""
