"""The table of cases: what providers send, what the program must see, what the ledger must book.

Each is data, in `cases/*.toml`, under the number that it has had since it was collected. The tap
and the verdict play them here; the stand-in provider plays them to a whole gateway (`Case.answer`).

Members of a `[[case]]`:

`id`, `about`; `endpoint`; `provider` (default by the face); `status` (default 200);
`request`: the body, default one of 300 bytes, which are 100 tokens where nobody counts;
`events`: a JSON document a line, each sent as one event and one packet - a line that begins with
`:` is a comment, `[DONE]` the end mark; or `chunks`: the packets as they are, `hex:` before bytes
that are no text; or `body`: of an answer that is not streamed;
`repeat`: text in the answer that stands for many of it: `{of = "~", times = 1000, with = "A"}`;
`wanted_usage` (default true): the program asked for usage itself;
`cut`: why the answer was not read to its end; `output_limit`: what was sent as the limit;
`sees`: what passes on, default all of it; `without`: the number of the one event that does not;
`books`: `end`, `basis`, `usage`, `flags`, `fall_back`, `error_code`, as in `Verdict`.
"""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from fencepost_worker.gateway.faces import Endpoint, Face
from fencepost_worker.gateway.verdicts import Cut
from fencepost_worker.testing import Answer
from fencepost_worker.testing.answers import EVENTS, JSON

FOLDER = Path(__file__).parent / "cases"
REQUEST_BYTES = 300
NAMED = (Endpoint.MESSAGES, Endpoint.RESPONSES)


@dataclass(frozen=True)
class Case:
    """One case of the table."""

    id: str
    about: str
    endpoint: Endpoint
    provider: str
    request: bytes
    status: int
    stream: bool
    chunks: tuple[bytes, ...]
    sees: bytes
    books: dict[str, Any]
    wanted_usage: bool = True
    cut: Cut | None = None
    output_limit: int | None = None

    @property
    def body(self) -> bytes:
        """Return all that the provider sends."""
        return b"".join(self.chunks)

    @property
    def answer(self) -> Answer:
        """Return what the stand-in provider answers, as far as the provider has a part in it."""
        end = "cut" if self.cut is Cut.BROKEN_OFF else "hang" if self.cut else "complete"
        headers = EVENTS if self.stream else JSON
        return Answer(self.status, dict(headers), self.chunks, end=end)  # type: ignore[arg-type]


@cache
def cases() -> tuple[Case, ...]:
    """Return every case, in the order of the files."""
    return tuple(
        _case(each)
        for path in sorted(FOLDER.glob("*.toml"))
        for each in tomllib.loads(path.read_text(encoding="utf-8")).get("case", ())
    )


def requests() -> list[dict[str, Any]]:
    """Return the cases of requests: `endpoint, body, asked, rewrite, sent`."""
    return list(tomllib.loads((FOLDER / "requests.toml").read_text(encoding="utf-8"))["request"])


def default_request(endpoint: Endpoint, *, stream: bool) -> bytes:
    """Return a request of `REQUEST_BYTES`."""
    member = "messages" if endpoint in (Endpoint.CHAT, Endpoint.MESSAGES) else "input"

    def body(text: str) -> bytes:
        said: Any = [{"role": "user", "content": text}] if member == "messages" else text
        document = {"model": "m", member: said} | ({"stream": True} if stream else {})
        return json.dumps(document, separators=(",", ":")).encode()

    return body("x" * (REQUEST_BYTES - len(body(""))))


def _case(stated: dict[str, Any]) -> Case:
    endpoint = Endpoint(stated["endpoint"])
    stream = "events" in stated or "chunks" in stated
    chunks = _chunks(endpoint, stated)
    left_out = stated.get("without")
    seen = [chunk for number, chunk in enumerate(chunks) if number != left_out]
    usual = "anthropic" if endpoint.face is Face.ANTHROPIC else "openai"
    request = stated.get("request")
    return Case(
        id=stated["id"],
        about=stated["about"],
        endpoint=endpoint,
        provider=stated.get("provider", usual),
        request=request.encode() if request else default_request(endpoint, stream=stream),
        status=stated.get("status", 200),
        stream=stream,
        chunks=chunks,
        sees=stated["sees"].encode() if "sees" in stated else b"".join(seen),
        books={"flags": [], "fall_back": False, "error_code": ""} | stated["books"],
        wanted_usage=stated.get("wanted_usage", True),
        cut=Cut(stated["cut"]) if "cut" in stated else None,
        output_limit=stated.get("output_limit"),
    )


def _chunks(endpoint: Endpoint, stated: dict[str, Any]) -> tuple[bytes, ...]:
    if "body" in stated:
        texts = [stated["body"]] if stated["body"] else []
    elif "events" in stated:
        texts = [_event(endpoint, line) for line in stated["events"].strip("\n").splitlines()]
    else:
        texts = list(stated["chunks"])
    return tuple(_bytes(text, stated.get("repeat")) for text in texts)


def _event(endpoint: Endpoint, line: str) -> str:
    if line.startswith(":"):
        return f"{line}\n\n"
    if endpoint in NAMED and line.startswith("{"):
        return f"event: {json.loads(line).get('type')}\ndata: {line}\n\n"
    return f"data: {line}\n\n"


def _bytes(text: str, repeat: dict[str, Any] | None) -> bytes:
    if repeat is not None:
        text = text.replace(repeat["of"], repeat["with"] * repeat["times"])
    return bytes.fromhex(text[4:]) if text.startswith("hex:") else text.encode()
