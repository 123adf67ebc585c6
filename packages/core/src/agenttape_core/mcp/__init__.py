"""Servers of the Model Context Protocol: what a client asks them is recorded, and replayed without them.

The transports of the official client are taped while sessions are open, whatever library uses them: `ClientSession`,
`langchain-mcp-adapters`, `llama-index-tools-mcp`. In a replay no process is started and no connection made, until a
request must really be sent.

- `ambient`: puts a taped transport in the place of each transport of the package.
- `links`: one connection, and what becomes of each request on it.
- `wire`: the messages of the client, as plain data and back.
- `requests`: a request as it is compared, and the answers that the user or a refusal puts in its place.
- `_compat`: what is relied on of the package beyond its public interface.
"""
