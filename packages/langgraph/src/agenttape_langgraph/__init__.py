"""AgentTape for LangGraph: record a LangGraph run once, replay it forever, and travel in it at zero tokens."""

__all__: list[str] = []
