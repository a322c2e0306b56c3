"""What the stand-in provider answers: by itself, or as a test puts it together."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from threading import Event
from typing import Any, Literal

from fencepost_worker.gateway.faces import Endpoint, Face

JSON = {"content-type": "application/json"}
EVENTS = {"content-type": "text/event-stream; charset=utf-8"}
VECTOR = [0.25, -0.5, 0.125]
CREATED = 1_767_225_600

#: A part of a body: bytes that go out as one packet, seconds to wait, or an event to wait for.
Part = bytes | float | Event


@dataclass(frozen=True)
class Counts:
    """Tokens that an answer says it has used."""

    input: int = 12
    output: int = 5


@dataclass(frozen=True)
class Answer:
    """One answer, as it goes over the wire.

    :param status: 0 sends nothing: the connection is broken off, or hangs where `end` says so.
    :param parts: the body: bytes, each sent by itself; seconds to wait before the next; or a
        `threading.Event` that the next waits for.
    :param framing: `chunked`; `length` states the length of the bytes in `parts`; `close` ends the
        body with the connection.
    :param end: `complete`; `cut` breaks off behind the parts, before the end that the framing
        promises; `hang` sends nothing more, until the client goes.
    """

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: dict(JSON))
    parts: tuple[Part, ...] = ()
    framing: Literal["chunked", "length", "close"] = "chunked"
    end: Literal["complete", "cut", "hang"] = "complete"

    @classmethod
    def json(cls, document: Any, *, status: int = 200, **headers: str) -> Answer:
        """Return an answer that is one JSON document.

        :param headers: more of them; underscores in their names stand for dashes.
        """
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return cls(status, {**JSON, **named}, (encoded(document),), "length")

    @classmethod
    def error(cls, status: int, kind: str, message: str, **headers: str) -> Answer:
        """Return an error that clients of both faces understand."""
        error = {"type": kind, "message": message, "param": None, "code": None}
        return cls.json({"type": "error", "error": error}, status=status, **headers)

    @classmethod
    def events(cls, *parts: Part, end: Literal["complete", "cut", "hang"] = "complete") -> Answer:
        """Return a stream of events, of the bytes that are given."""
        return cls(200, dict(EVENTS), parts, end=end)

    @classmethod
    def silence(cls) -> Answer:
        """Return an answer that never comes: the connection stays open."""
        return cls(status=0, end="hang")


def encoded(document: Any) -> bytes:
    """Return a document as providers send it."""
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def event(document: Any, *, name: str = "") -> bytes:
    """Return one event of a stream."""
    line = f"event: {name}\n".encode() if name else b""
    return line + b"data: " + encoded(document) + b"\n\n"


def usual(
    endpoint: Endpoint | None,
    document: Mapping[str, Any],
    *,
    face: Face,
    models: Iterable[str],
    text: str,
    counts: Counts,
) -> Answer:
    """Return what the stand-in answers by itself.

    :param document: the request's body, read.
    :param text: what the model says.
    """
    model = str(document.get("model") or "stand-in")
    if endpoint is Endpoint.MODELS:
        return Answer.json(_models(face, models))
    if endpoint is Endpoint.COUNT_TOKENS:
        return Answer.json({"input_tokens": counts.input})
    if endpoint is Endpoint.EMBEDDINGS:
        return Answer.json(embeddings(model, document.get("input"), counts=counts))
    streamed = document.get("stream") is True
    if endpoint is Endpoint.CHAT:
        options = document.get("stream_options")
        with_usage = isinstance(options, dict) and options.get("include_usage") is True
        if streamed:
            return Answer.events(*chat_events(model, text, counts=counts, with_usage=with_usage))
        return Answer.json(chat(model, text, counts=counts))
    if endpoint is Endpoint.RESPONSES:
        if streamed:
            return Answer.events(*response_events(model, text, counts=counts))
        return Answer.json(response(model, text, counts=counts))
    if endpoint is Endpoint.MESSAGES:
        if streamed:
            return Answer.events(*message_events(model, text, counts=counts))
        return Answer.json(message(model, text, counts=counts))
    return Answer.error(404, "not_found_error", "There is no such endpoint.")


def chat(model: str, text: str, *, counts: Counts) -> dict[str, Any]:
    """Return a chat completion."""
    choice: dict[str, Any] = {"index": 0, "finish_reason": "stop", "logprobs": None}
    written = {"role": "assistant", "content": text, "refusal": None}
    return {
        "id": "chatcmpl-stand-in",
        "object": "chat.completion",
        "created": CREATED,
        "model": model,
        "choices": [{**choice, "message": written}],
        "usage": chat_usage(counts),
    }


def chat_events(model: str, text: str, *, counts: Counts, with_usage: bool) -> list[bytes]:
    """Return the events of a streamed chat completion, word by word."""
    frame = {
        "id": "chatcmpl-stand-in",
        "object": "chat.completion.chunk",
        "created": CREATED,
        "model": model,
    }
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": word} for word in words(text)]
    choices: list[dict[str, Any]] = [
        {"index": 0, "delta": delta, "finish_reason": None} for delta in deltas
    ]
    choices.append({"index": 0, "delta": {}, "finish_reason": "stop"})
    found = [event({**frame, "choices": [choice]}) for choice in choices]
    if with_usage:
        found.append(event({**frame, "choices": [], "usage": chat_usage(counts)}))
    return [*found, b"data: [DONE]\n\n"]


def chat_usage(counts: Counts) -> dict[str, int]:
    """Return the usage of a chat completion."""
    return {
        "prompt_tokens": counts.input,
        "completion_tokens": counts.output,
        "total_tokens": counts.input + counts.output,
    }


def embeddings(model: str, texts: Any, *, counts: Counts) -> dict[str, Any]:
    """Return embeddings of as many texts as were asked for."""
    several = isinstance(texts, list) and bool(texts) and isinstance(texts[0], str)
    vectors = [
        {"object": "embedding", "index": number, "embedding": VECTOR}
        for number in range(len(texts) if several else 1)
    ]
    usage = {"prompt_tokens": counts.input, "total_tokens": counts.input}
    return {"object": "list", "data": vectors, "model": model, "usage": usage}


def response(model: str, text: str, *, counts: Counts) -> dict[str, Any]:
    """Return a response of the Responses face."""
    part = {"type": "output_text", "text": text, "annotations": []}
    item = {
        "id": "msg_stand-in",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [part],
    }
    usage = {
        "input_tokens": counts.input,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": counts.output,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": counts.input + counts.output,
    }
    return _response_frame(model) | {"status": "completed", "output": [item], "usage": usage}


def response_events(model: str, text: str, *, counts: Counts) -> list[bytes]:
    """Return the events of a streamed response, word by word."""
    whole = response(model, text, counts=counts)
    item = whole["output"][0]
    at = {"item_id": item["id"], "output_index": 0, "content_index": 0}
    part = item["content"][0]
    begun = _response_frame(model)
    documents: list[dict[str, Any]] = [
        {"type": "response.created", "response": begun},
        {"type": "response.in_progress", "response": begun},
        {
            "type": "response.output_item.added",
            "output_index": 0,
            "item": item | {"status": "in_progress", "content": []},
        },
        {"type": "response.content_part.added", **at, "part": part | {"text": ""}},
        *(
            {"type": "response.output_text.delta", **at, "delta": word, "logprobs": []}
            for word in words(text)
        ),
        {"type": "response.output_text.done", **at, "text": text, "logprobs": []},
        {"type": "response.content_part.done", **at, "part": part},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": whole},
    ]
    return [
        event(document | {"sequence_number": number}, name=document["type"])
        for number, document in enumerate(documents)
    ]


def _response_frame(model: str) -> dict[str, Any]:
    return {
        "id": "resp_stand-in",
        "object": "response",
        "created_at": CREATED,
        "status": "in_progress",
        "model": model,
        "output": [],
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": None,
    }


def message(model: str, text: str, *, counts: Counts) -> dict[str, Any]:
    """Return a message of the Messages face."""
    usage = {"input_tokens": counts.input, "output_tokens": counts.output}
    return {
        "id": "msg_stand-in",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [{"type": "text", "text": text}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": usage,
    }


def message_events(model: str, text: str, *, counts: Counts) -> list[bytes]:
    """Return the events of a streamed message, word by word."""
    begun = message(model, text, counts=Counts(counts.input, 1))
    documents: list[dict[str, Any]] = [
        {"type": "message_start", "message": begun | {"content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "ping"},
        *(
            {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "text_delta", "text": word},
            }
            for word in words(text)
        ),
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": "end_turn", "stop_sequence": None},
            "usage": {"output_tokens": counts.output},
        },
        {"type": "message_stop"},
    ]
    return [event(document, name=document["type"]) for document in documents]


def words(text: str) -> list[str]:
    """Return the text in its words, each with the space behind it."""
    parts = text.split(" ")
    return [f"{each} " for each in parts[:-1]] + parts[-1:]


def _models(face: Face, models: Iterable[str]) -> dict[str, Any]:
    if face is Face.ANTHROPIC:
        data: list[dict[str, Any]] = [
            {
                "type": "model",
                "id": each,
                "display_name": each,
                "created_at": "2026-01-01T00:00:00Z",
            }
            for each in models
        ]
        ids = [each["id"] for each in data]
        ends = {"first_id": ids[0] if ids else None, "last_id": ids[-1] if ids else None}
        return {"data": data, "has_more": False, **ends}
    listed = [
        {"id": each, "object": "model", "created": CREATED, "owned_by": "stand-in"}
        for each in models
    ]
    return {"object": "list", "data": listed}
