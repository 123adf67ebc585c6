"""The cells of the table that are not equal yet: each is taken away as it becomes equal."""

from __future__ import annotations

PENDING: dict[str, str] = {
    "functional/stream_events v3": "the order of threads",
    "map_reduce/astream_events v3": "the order of event loops",
    "parallel_agents/ainvoke": "the order of event loops",
    "parallel_agents/astream": "the order of event loops",
    "parallel_agents/astream_events v1": "the order of event loops",
    "parallel_agents/astream_events v2": "the order of event loops",
    "custom_streams/astream_events v2": "the order of event loops",
    "interrupt_in_a_tool/astream_events v3": "the order of event loops",
    "parallel_tools/astream": "the order of event loops",
    "parallel_tools/astream_events v1": "the order of event loops",
    "parallel_tools/astream_events v2": "the order of event loops",
    "parallel_tools/astream_events v3": "the order of event loops",
    "supervisor/ainvoke": "the order of event loops",
    "supervisor/astream": "the order of event loops",
    "supervisor/astream_events v2": "the order of event loops",
    "supervisor/astream_events v3": "the order of event loops",
    "timeouts/ainvoke": "the order of event loops",
    "agent_with_tools_in_threads/asyncio": "the order of event loops",
    "custom_streams/stream": "the order of threads",
    "functional/invoke": "ids of tasks",
    "functional/stream": "ids of tasks",
    "parallel_agents/astream_events v3": "the order of event loops",
    "custom_streams/ainvoke": "the order of event loops",
    "interrupts_in_parallel_tools/ainvoke": "the order of event loops",
    "agents_as_parallel_tools/asyncio": "the order of what parallel tools do besides returning",
    "agents_over_indexes/asyncio": "the order of what parallel tools do besides returning",
    "parallel_tools_with_effects/asyncio": "the order of what parallel tools do besides returning",
    "conversations_at_once/asyncio": "the order in which threads of aiosqlite answer a loop",
}
