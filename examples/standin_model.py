"""A stand-in for a model behind an OpenAI-compatible chat endpoint: no model, real HTTP.

    python examples/standin_model.py --port 8900 [--refuse N]

It answers `POST /v1/chat/completions`, streaming or not, with an outline of the task that it was
given, always the same for the same task, and counts words as tokens. With `--refuse N` it is a
provider on a bad day: it refuses N questions, before any output, and answers those after them.
"""

import argparse
import hashlib
import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PATH = "/v1/chat/completions"
DEFAULT_MODEL = "standin-1"
MAX_BODY_BYTES = 4 * 1024 * 1024
WORDS_PER_CHUNK = 5


def outline(question: dict[str, Any]) -> str:
    """Return the text that answers the last message of a question."""
    message = question["messages"][-1]["content"]
    try:
        task = json.loads(message)
        title, goal = task["title"], task["goal"]
        inputs = task.get("inputs") or {}
    except (ValueError, KeyError, TypeError):
        title, goal, inputs = "Answer", message, {}
    lines = [f"# {title}", "", goal, ""]
    lines += [f"- {name}: {value}" for name, value in sorted(inputs.items())]
    return "\n".join(lines).strip()


def usage_of(question: dict[str, Any], text: str) -> dict[str, Any]:
    """Return the usage that an endpoint would report, with words for tokens."""
    prompt_tokens = sum(len(message["content"].split()) for message in question["messages"])
    written = len(text.split())
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": written,
        "total_tokens": prompt_tokens + written,
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }


def response_id(question: dict[str, Any]) -> str:
    """Return the same id for the same question."""
    return "chatcmpl-" + hashlib.sha256(json.dumps(question).encode()).hexdigest()[:24]


def whole(question: dict[str, Any]) -> dict[str, Any]:
    """Return the answer as one document."""
    text = outline(question)
    return {
        "id": response_id(question),
        "object": "chat.completion",
        "model": question.get("model") or DEFAULT_MODEL,
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": text},
                "finish_reason": "stop",
            }
        ],
        "usage": usage_of(question, text),
    }


def chunks(question: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the answer as a stream of documents; the last one tells the usage."""
    text = outline(question)
    head = {
        "id": response_id(question),
        "object": "chat.completion.chunk",
        "model": question.get("model") or DEFAULT_MODEL,
    }
    words = text.split(" ")
    for start in range(0, len(words), WORDS_PER_CHUNK):
        piece = " ".join(words[start : start + WORDS_PER_CHUNK])
        content = piece if start == 0 else f" {piece}"
        yield head | {"choices": [{"index": 0, "delta": {"content": content}}]}
    yield head | {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    yield head | {"choices": [], "usage": usage_of(question, text)}


class Handler(BaseHTTPRequestHandler):
    """Answers one connection."""

    server: "Provider"

    def do_POST(self) -> None:
        """Answer a chat completion; anything else is an error as such endpoints tell it."""
        length = int(self.headers.get("Content-Length") or 0)
        if self.path != PATH or length > MAX_BODY_BYTES:
            self._answer(404, {"error": {"message": "there is only " + PATH}})
            return
        try:
            question = json.loads(self.rfile.read(length))
            if self.server.refuses():
                self._answer(503, {"error": {"message": "overloaded", "type": "server_error"}})
                return
            if question.get("stream"):
                self._stream(chunks(question))
            else:
                self._answer(200, whole(question))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            self._answer(400, {"error": {"message": f"not a chat completion request: {error}"}})

    def _answer(self, status: int, document: dict[str, Any]) -> None:
        content = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _stream(self, documents: Iterator[dict[str, Any]]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for document in documents:
            self.wfile.write(b"data: " + json.dumps(document).encode() + b"\n\n")
            self.wfile.flush()
        self.wfile.write(b"data: [DONE]\n\n")

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing for each request."""


class Provider(ThreadingHTTPServer):
    """The endpoint; it refuses so many questions before it answers one."""

    daemon_threads = True

    def __init__(self, port: int, refusals: int) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self._refusals = iter(range(refusals))

    def refuses(self) -> bool:
        """Return whether the question that has just come is refused."""
        return next(self._refusals, None) is not None


def serve(port: int, refusals: int = 0) -> Provider:
    """Return a server on a local port; 0 takes a free one."""
    return Provider(port, refusals)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8900)
    parser.add_argument("--refuse", type=int, default=0, help="so many questions, with 503")
    options = parser.parse_args()
    server = serve(options.port, options.refuse)
    print(f"standing in for a model at http://127.0.0.1:{server.server_port}{PATH}", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        server.server_close()
