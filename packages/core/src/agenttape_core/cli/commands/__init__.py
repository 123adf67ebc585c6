"""The commands of the `agenttape` command, a module each; `agent_tools` has the tools of `agenttape mcp`."""
