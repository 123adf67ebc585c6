"""Servers of the Model Context Protocol: a client's requests are recorded, and replayed without the servers.

The transports of the official client are taped while sessions are open, whatever library uses them: `ClientSession`,
`langchain-mcp-adapters`, `llama-index-tools-mcp`. A connection is a call: a stream of messages between requests.

In a replay no process is started and no connection made, until a request must really be sent.

- `automatic`: replaces each transport of the package by a recorded one.
- `links`: one connection, and what becomes of each request on it.
- `streams`: messages that a server sends between requests, recorded and replayed.
- `connections`: the real connection to a server.
- `wire`: messages as plain data and back, the comparable form of a request, and the answers that replace a server's.
- `_compat`: the parts of the package's internals that this uses.
"""
