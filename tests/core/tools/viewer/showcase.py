"""Cassettes made record by record: a run worth looking at, another one of the same agent, a long one, a hostile one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from agenttape_core.schema import Interaction, Outcome, RecordedError, Step, StepTiming, Timing, Usage, Volatile

from ....kit.records import call, step, written

ROOT = "LangGraph"
QUESTION = "My parcel 4711 came with a broken lamp. Can I have my money back?"
SYSTEM = "You answer for a furniture shop. Look an order up before you promise anything. Be brief and kind."
ORDER = {"id": "4711", "item": "Desk lamp, brass", "price": 49.0, "delivered": "2026-11-18"}
POLICY = (
    (
        "Damaged goods are refunded in full within 14 days of delivery. No photo is needed below 100 euros.",
        "returns.md",
    ),
    ("A refund goes to the way of payment that was used. It takes two to three working days.", "payments.md"),
)
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "refund",
            "description": "Pay an order back.",
            "parameters": {
                "type": "object",
                "properties": {"order": {"type": "string"}, "amount": {"type": "number"}},
                "required": ["order", "amount"],
            },
        },
    }
]
REFUND = {"name": "refund", "args": {"order": "4711", "amount": 49.0}, "id": "call_refund"}
ANSWER = (
    "I am sorry about the lamp. Your 49 euros are on their way back to the card you paid with; "
    "that takes two to three working days. You need not send the lamp back."
)
OTHER_ANSWER = ANSWER.replace("two to three working days", "up to five days").replace(
    "You need not send the lamp back.", "Please keep the broken lamp for a week."
)


class Book:
    """Writes the records of a run, numbered, with their times."""

    def __init__(self) -> None:
        self.records: list[Interaction | Step] = []
        self.timings: dict[int, Timing] = {}
        self.steps: dict[int, StepTiming] = {}

    def step(self, kind: str, address: str, start: float, ms: float, **facts: Any) -> None:
        """Add a step."""
        number = len(self.steps) + 1
        name = address.rpartition("/")[2].partition("@")[0].partition("#")[0]
        self.steps[number] = StepTiming(start_ms=start, duration_ms=ms)
        self.records.append(step(number, address, kind=kind, **{"name": name, **facts}))

    def call(
        self,
        kind: str,
        address: str,
        span: tuple[float, float],
        request: dict[str, Any],
        outcome: Outcome,
        *,
        offsets: list[float] | None = None,
    ) -> None:
        """Add an interaction."""
        number = len(self.timings) + 1
        name = address.rpartition("/")[2].partition("#")[0]
        self.timings[number] = Timing(start_ms=span[0], duration_ms=span[1], offsets_ms=offsets or [])
        fingerprint = f"{abs(hash_of(request)):032x}"
        facts = {"name": name, "fingerprint": fingerprint, "request": request, "outcome": outcome}
        self.records.append(call(number, address, kind=kind, **facts))

    def write(self, path: Path, **header: Any) -> Path:
        """Write the cassette."""
        volatile = Volatile(created="2026-11-21T09:30:00Z", timings=self.timings, steps=self.steps)
        return written(path, *self.records, volatile=volatile, **header)


def hash_of(request: dict[str, Any]) -> int:
    """Return a number for a request that is the same in each run."""
    number = 7
    for char in repr(request):
        number = (number * 31 + ord(char)) % (1 << 120)
    return number


def returned(value: Any, usage: tuple[int, int] | None = None) -> Outcome:
    """Return an outcome with a value."""
    counted = Usage(input_tokens=usage[0], output_tokens=usage[1]) if usage is not None else None
    return Outcome(status="returned", value=value, usage=counted)


def said(content: str, *calls: dict[str, Any]) -> dict[str, Any]:
    """Return what LangChain's chat models return."""
    message = {"type": "ai", "content": content, **({"tool_calls": list(calls)} if calls else {})}
    return {"$chat_result": {"message": message, "generation_info": {"finish_reason": "stop"}}}


def streamed(text: str, usage: tuple[int, int]) -> tuple[Outcome, list[float]]:
    """Return the outcome of a stream of a few words a chunk, and when each of them came."""
    words = text.split(" ")
    pieces = [" ".join(words[at : at + 2]) + " " for at in range(0, len(words), 2)]
    pieces[-1] = pieces[-1].rstrip()
    chunks = [{"$chunk": {"content": piece}} for piece in pieces]
    counted = Usage(input_tokens=usage[0], output_tokens=usage[1])
    outcome = Outcome(status="streamed", chunks=chunks, ended="exhausted", usage=counted)
    return outcome, [380.0 + 46 * at + 25 * (at % 3) for at in range(len(pieces))]


def changed(items: int, kept: int) -> dict[str, Any]:
    """Return what a node's step says of a list of which it got new items."""
    return {"$changed": {"items": items, "kept": kept}}


def message(kind: str, content: str, **more: Any) -> dict[str, Any]:
    """Return a message as steps hold it."""
    return {"$message": {"type": kind, "content": content, **more}}


def write_showcase(path: Path, *, another: bool = False) -> Path:
    """Write a run of a graph with parallel nodes, a failed attempt, and streams; or another run of the same graph."""
    book = Book()
    system = SYSTEM.replace("Be brief and kind.", "Be brief, and never promise a date.") if another else SYSTEM
    asked = [{"role": "system", "content": system}, {"role": "user", "content": QUESTION}]
    started = {"messages": [message("human", QUESTION)], "order": None, "policy": []}
    book.step("agent", ROOT, 0, 3390 if another else 4010, input=started, metadata={"thread_id": "desk-17"})
    _look_around(book, asked)
    _pay_back(book, asked, another=another)
    return book.write(path)


def _look_around(book: Book, asked: list[dict[str, Any]]) -> None:
    triage = {"model": "gpt-5-mini", "messages": asked}
    node = f"{ROOT}/triage@1"
    book.step(
        "node",
        node,
        4,
        612,
        input={"messages": changed(1, 0)},
        output={"topic": "refund"},
        data={"route": ["order", "policy"]},
    )
    book.call("chat", f"{node}/ChatOpenAI", (9, 598), triage, returned(said("refund"), (61, 1)))
    node = f"{ROOT}/order@2"
    book.step("node", node, 620, 334, input={"topic": "refund"}, output={"order": ORDER}, data={"route": ["agent"]})
    book.call(
        "tool", f"{node}/get_order", (623, 326), {"name": "get_order", "arguments": {"order": "4711"}}, returned(ORDER)
    )
    node = f"{ROOT}/policy@2"
    found = [{"$document": {"page_content": text, "metadata": {"source": source}}} for text, source in POLICY]
    texts = [text for text, _ in POLICY]
    book.step("node", node, 621, 463, input={"topic": "refund"}, output={"policy": texts}, data={"route": ["agent"]})
    vector = [round((n * 37 % 101) / 101 - 0.5, 4) for n in range(256)]
    asks = {"model": "text-embedding-3-small", "input": QUESTION}
    retriever = f"{node}/VectorStoreRetriever"
    book.call("retrieval", retriever, (626, 451), {"query": QUESTION, "k": 2}, returned(found))
    book.call("embeddings", f"{retriever}/OpenAIEmbeddings", (631, 172), asks, returned(vector, (17, 0)))


def _pay_back(book: Book, asked: list[dict[str, Any]], *, another: bool) -> None:
    knows = {
        "role": "system",
        "content": f"Order: {ORDER['item']}, {ORDER['price']:.2f} euros. {POLICY[0][0]} {POLICY[1][0]}",
    }
    request = {"model": "gpt-5-mini", "messages": [*asked, knows], "tools": TOOLS, "temperature": 0.0}
    node = f"{ROOT}/agent@3"
    wrote = message("ai", "", tool_calls=[REFUND])
    given = {"order": ORDER, "policy": [text for text, _ in POLICY]}
    book.step("node", node, 1090, 871, input=given, output={"messages": [wrote]}, data={"route": ["tools"]})
    book.call("chat", f"{node}/ChatOpenAI", (1096, 858), request, returned(said("", REFUND), (204, 21)))
    error = RecordedError(
        type="builtins:ConnectionError", message="the bank does not answer", bases=["builtins:OSError"]
    )
    refund = {"name": "refund", "arguments": REFUND["args"]}
    node, start = f"{ROOT}/tools@4[0]", 1966.0
    if not another:
        book.step("node", node, start, 605, status="failed", error=error, input=[REFUND])
        book.call("tool", f"{node}/refund", (start + 3, 600), refund, Outcome(status="raised", error=error))
        node, start = f"{node}#2", start + 620
    paid = "49.00 euros are paid back to the card that ends in 0042."
    result = message("tool", paid, name="refund", tool_call_id="call_refund")
    book.step("node", node, start, 142, input=[REFUND], output={"messages": [result]}, data={"route": ["answer"]})
    book.call("tool", f"{node}/refund", (start + 4, 133), refund, returned(paid))
    told = [
        *request["messages"],
        {"role": "assistant", "content": "", "tool_calls": [REFUND]},
        {"role": "tool", "content": paid, "name": "refund", "tool_call_id": "call_refund"},
    ]
    answer = OTHER_ANSWER if another else ANSWER
    outcome, offsets = streamed(answer, (262, 44))
    node, start = f"{ROOT}/answer@5", start + 150
    book.step(
        "node",
        node,
        start,
        offsets[-1] + 40,
        input={"messages": changed(3, 1)},
        output={"messages": [message("ai", answer)]},
    )
    book.call(
        "chat",
        f"{node}/ChatOpenAI",
        (start + 5, offsets[-1] + 22),
        {**request, "messages": told},
        outcome,
        offsets=offsets,
    )


def write_long(path: Path, calls: int) -> Path:
    """Write a run of so many calls, whose requests continue one another."""
    book = Book()
    talk: list[dict[str, Any]] = []
    for turn in range(calls // 2):
        if turn % 10 == 0:
            talk = [{"role": "user", "content": f"Question {turn}: " + "what is it " * 20}]
        place, start = f"Agent#{turn // 10 + 1}/turn@{turn % 10}", 130.0 * turn
        outcome = returned(said(f"Thinking of {turn}."), (100, 12))
        book.call("chat", f"{place}/ChatOpenAI", (start, 100), {"model": "gpt-5", "messages": list(talk)}, outcome)
        asked = {"name": "search", "arguments": {"query": f"needle {turn}", "notes": "lorem " * 40}}
        book.call("tool", f"{place}/search", (start + 100, 30), asked, returned(f"result {turn} " * 20))
        talk = [
            *talk,
            {"role": "assistant", "content": f"Thinking of {turn}."},
            {"role": "tool", "content": f"result {turn}"},
        ]
    return book.write(path)


HOSTILE = (
    "</script><script>alert('ran')</script>",
    "<!-- <script> <img src=x onerror=alert('ran')>",
    "javascript:alert('ran')",
    "[click](javascript:alert('ran')) https://example.com/ping",
    "]]>\u2028\u2029\x00\x1b[31mred",
    "user\u202etxt.exe\u2066 \u200bhidden \U000e0041\U000e0042",
    "data:image/svg+xml;base64,PHN2ZyBvbmxvYWQ9ImFsZXJ0KCkiLz4=",
    "data:text/html,<script>alert('ran')</script>",
    "{{7*7}} ${alert('ran')} `alert('ran')`",
)


def write_hostile(path: Path) -> Path:
    """Write a cassette whose every field tries to be more than a text."""
    book = Book()
    for turn, text in enumerate(HOSTILE):
        request = {
            "model": text,
            "messages": [
                {"role": text, "content": text, "name": text},
                {
                    "role": "user",
                    "content": [{"type": "image_url", "image_url": {"url": text}}, {"type": "text", "text": text}],
                },
            ],
            "tools": [{"name": text}],
            "__proto__": {"polluted": text},
            "constructor": text,
            text: text,
        }
        value = {"html": text, "dangerouslySetInnerHTML": {"__html": text}, "$image": text, "props": {"onclick": text}}
        outcome = Outcome(
            status="streamed",
            chunks=[{"$chunk": {"content": text, "tool_call_chunks": [{"name": text, "args": text, "index": 0}]}}],
            ended="exhausted",
        )
        address = f"place <{turn}> {text}".replace("/", "|")
        book.step(
            "node",
            address,
            turn * 10.0,
            9,
            input={text: text},
            output={text: text},
            data={"route": [text]},
            metadata={text: text},
        )
        book.call("chat", f"{address}/{text}", (turn * 10.0, 5), request, outcome, offsets=[1.0])
        error = RecordedError(type=text, message=text, args=[text], bases=[text])
        book.call(
            "tool",
            f"{address}/tool {text}".replace("//", "|"),
            (turn * 10.0 + 5, 2),
            {"name": text, "arguments": {text: text}},
            Outcome(status="raised", error=error),
        )
        book.call(text, f"{address}/other", (turn * 10.0 + 7, 2), {"query": value}, returned(value))
    return book.write(path, input=HOSTILE[0], tags=list(HOSTILE))
