"""AgentTape for LlamaIndex: record a LlamaIndex run once, replay it forever: offline, free, identical."""

__all__: list[str] = []
