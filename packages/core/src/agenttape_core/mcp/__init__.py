"""Servers of the Model Context Protocol: a client's requests are recorded, and replayed without the servers.

The transports of the official client are taped while sessions are open, whatever library uses them: `ClientSession`,
`langchain-mcp-adapters`, `llama-index-tools-mcp`. In a replay no process is started and no connection made, until a
request must really be sent.

- `automatic`: replaces each transport of the package by a recorded one.
- `links`: one connection, and what becomes of each request on it.
- `wire`: the messages of the client, as plain data and back.
- `requests`: the comparable form of a request, and the answers that replace a server's.
- `_compat`: the parts of the package's internals that this uses.
"""
