"""Snapshots as agents have them: a conversation with tool calls, numbers, nested settings; of a given size, from a seed."""

from __future__ import annotations

from random import Random
from typing import Any

import orjson

_WORDS = (
    *("agent", "step", "file", "report", "error", "result", "value", "query", "table", "summary", "chapter", "measured"),
    *("verified", "path", "build", "test", "commit", "deploy", "the", "a", "of", "in", "to", "with", "from", "because"),
    *("then", "when", "until", "after", "before", "line.\n", "line.\n", "line.\n", '"quoted"', "C:\\temp"),
)
# One message in so many holds text that takes several bytes a character.
_FOREIGN = 8


def state(size: int, seed: int = 0) -> dict[str, Any]:
    """A state whose JSON has about `size` bytes."""
    random = Random(f"{size}:{seed}")  # noqa: S311 - a made-up conversation, no secret
    made = _frame(random, seed)
    messages = made["messages"]
    left = size - encoded_size(made) + 1  # the first message follows no comma
    while left > 0:
        message = _message(random, len(messages), min(left, 600))
        messages.append(message)
        left -= encoded_size(message) + 1
    return made


def encoded_size(value: Any) -> int:
    """Bytes of its JSON."""
    return len(orjson.dumps(value))


def encoded(value: Any) -> bytes:
    """Its JSON: the ready bytes that the raw baseline is given."""
    return orjson.dumps(value)


def _frame(random: Random, seed: int) -> dict[str, Any]:
    return {
        "iteration": seed,
        "goal": _text(random, 80),
        "done": [f"chapter-{number}" for number in range(4)],
        "budget": {"tokens": random.randrange(10**6), "dollars": round(random.random() * 10, 4), "left": True},
        "settings": {"model": {"name": "large", "temperature": 0.2, "stop": None}, "retries": {"most": 3, "pause_s": 0.5}},
        "messages": [],
    }


def _message(random: Random, number: int, room: int) -> dict[str, Any]:
    content = _text(random, max(20, room - 260)) + (" naïve café 数据" if number % _FOREIGN == _FOREIGN - 1 else "")
    if number % 3 != 1:
        return {"role": "user" if number % 3 == 0 else "tool", "content": content, "id": f"msg_{random.getrandbits(64):016x}"}
    arguments = {
        "path": f"out/{random.randrange(1000)}.md",
        "limit": random.randrange(500),
        "exact": False,
        "score": random.random(),
    }
    call = {"id": f"call_{random.getrandbits(48):012x}", "name": "read_file", "args": arguments}
    return {"role": "assistant", "content": content, "tool_calls": [call], "usage": {"in": random.randrange(9000), "out": 412}}


def _text(random: Random, size: int) -> str:
    words: list[str] = []
    length = 0
    while length < size:
        words.append(random.choice(_WORDS))
        length += len(words[-1]) + 1
    return " ".join(words)
