"""An MCP server over stdio that talks between requests: each message that a client sends decides what it does next.

It notes that it was started in the file SEEN. Its messages have the number of its process, which no replay has.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

SAYINGS = ("server ready", "token=okd5ihu9lEmJcADwyQNeLnpT", "connected to the database")


def send(**message: Any) -> None:
    """Send a message."""
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def log(text: str) -> None:
    """Send a log message."""
    send(method="notifications/message", params={"level": "info", "data": f"{text} {os.getpid()}"})


def answer(request: dict[str, Any]) -> None:
    """Answer a request as the arguments of a tool ask for."""
    method, params = request["method"], request.get("params") or {}
    result: dict[str, Any] = {}
    if method == "initialize":
        told = {"protocolVersion": params["protocolVersion"], "serverInfo": {"name": "talker", "version": "1"}}
        result = {**told, "capabilities": {"tools": {}, "logging": {}}}
    if method == "tools/list":
        result = {"tools": [{"name": "talk", "inputSchema": {"type": "object"}}]}
    if method != "tools/call":
        send(id=request["id"], result=result)
        return
    then = params["arguments"].get("then", "")
    if then == "die":
        os._exit(3)
    if then == "mute":
        return
    if then == "babble":
        sys.stdout.write("This is no JSON.\n")
    send(id=request["id"], result={"content": [{"type": "text", "text": f"talked {os.getpid()}"}]})
    go_on(then)


def go_on(then: str) -> None:
    """Do after an answer what the arguments of a tool ask for."""
    if then == "log":
        log("after the answer")
    for text in SAYINGS if then == "say" else ():
        send(method="notifications/message", params={"level": "info", "data": text})
    if then == "ask":
        send(id="a question", method="ping")
    if then == "deep":
        send(method="notifications/message", params={"level": "info", "data": json.loads("[" * 120 + "]" * 120)})
    if then == "close":
        os.close(1)
    if then == "leave":
        os._exit(0)


if __name__ == "__main__":
    with Path(os.environ["SEEN"]).open("a") as seen:
        seen.write("started\n")
    for line in sys.stdin:
        received = json.loads(line)
        if received.get("method") == "notifications/initialized":
            log("ready")
        elif received.get("method") == "notifications/progress":
            time.sleep(60)  # it's ended before
        elif received.get("method") == "notifications/roots/list_changed":
            log("roots")
        elif "method" not in received:
            log("answered")
        elif "id" in received:
            answer(received)
