"""The tap on an answer: reads beside the bytes that go to the program, and changes none.

Nothing is held but the event that is not complete yet, and that only where a chunk may have to be
taken out: the usage that the gateway asked for and the program did not. Nothing raises: what cannot
be read passes, and the call is booked as unknown.
"""

from __future__ import annotations

import json
import re
from typing import Any

from fencepost_worker.gateway.events import Event, Events
from fencepost_worker.gateway.faces import Endpoint
from fencepost_worker.gateway.readings import Account, Reading

#: Of an answer that is not streamed so much is parsed; of a longer one its beginning and its end.
MAX_DOCUMENT_BYTES = 4 * 1024 * 1024
#: Vectors are not looked at: usage stands before or behind them.
MAX_EMBEDDINGS_BYTES = 64 * 1024
TAIL_BYTES = 64 * 1024
#: A chunk of usage alone is short; an event that is longer passes before it is complete.
MAX_HELD_BYTES = 64 * 1024

_END_MARK = b"[DONE]"
_USAGE = re.compile(rb'"usage"\s*:\s*(?=\{)')
_BLANK = b" \t\r\n\xef\xbb\xbf"


class Tap:
    """Reads one answer. Fed with its bytes in any cut, it passes on and reads the same."""

    def __init__(
        self, endpoint: Endpoint, *, provider: str, stream: bool, wanted_usage: bool = True
    ) -> None:
        """Begin to read an answer.

        :param provider: its name in the catalogue.
        :param stream: it is a stream of events. One that is a JSON document all the same is read
            as that.
        :param wanted_usage: the program asked for usage in the stream itself; False takes out a
            chunk of a chat completion that has nothing but usage.
        """
        self._account = Account(endpoint, provider)
        self._stream = stream
        self._document = None if stream else _Document(endpoint)
        self._events = Events()
        self._takes_out = stream and not wanted_usage and endpoint is Endpoint.CHAT
        self._held = bytearray()
        self._held_from = 0
        #: The LF that follows belongs to what was taken out.
        self._took_out_cr = False
        self._begun = False
        self._closed = self._ended_between = False

    @property
    def at_boundary(self) -> bool:
        """Return whether what has passed ends between two events, so that one may be added."""
        if self._closed:
            return self._ended_between
        passed = self._held_from if self._takes_out else self._events.position
        return self._stream and self._document is None and passed == self._events.event_start

    def feed(self, raw: bytes) -> bytes:
        """Take the next bytes of the body, and return what to pass on to the program now."""
        if not raw or self._closed:
            return b""
        if self._stream and not self._begun:
            self._begin(raw)
        if self._document is not None:
            self._document.feed(raw)
            return self._let_go(len(self._held)) + raw
        events = self._events.feed(raw)
        if not self._takes_out:
            self._take(events)
            return raw
        self._held += raw
        if self._took_out_cr:
            self._took_out_cr = False
            self._let_go(int(raw.startswith(b"\n")))
        return self._released(events)

    def close(self, *, cut: bool = False) -> bytes:
        """Take the end of the body, and return what was held back of it.

        :param cut: it is not the end that the provider gave it: of an event that is held back in
            part nothing passes, so that an event of the gateway's may follow.
        """
        if self._closed:
            return b""
        # What was held back goes out with an end that is none of a cut.
        whole = self._stream and self._events.position == self._events.event_start
        self._ended_between = self.at_boundary if cut else whole and self._document is None
        self._closed = True
        if self._document is not None:
            self._document.read_into(self._account)
            return b""
        # Half an event of a stream that was cut is nothing that cannot be understood.
        events = [each for each in self._events.close() if not cut or _is_whole(each)]
        if cut or not self._takes_out:
            self._take(events)
            return b""
        return self._released(events) + self._let_go(len(self._held))

    def lose(self, flag: str) -> None:
        """Note that something came that cannot be read; what it was is unknown."""
        self._account.blank = False
        self._account.flag(flag)

    @property
    def account(self) -> Account:
        """Return what is known by now without counting it, which takes a millisecond."""
        return self._account

    def reading(self) -> Reading:
        """Return what the answer has said of itself by now."""
        return self._account.reading()

    def _begin(self, raw: bytes) -> None:
        """Tell a document from a stream by its first byte that is not white space."""
        first = raw.lstrip(_BLANK)[:1]
        if first:
            self._begun = True
            if first == b"{":
                self._document = _Document(self._account.endpoint)
                self._account.flag("not_a_stream")

    def _take(self, events: list[Event]) -> list[bool]:
        return [self._take_event(event) for event in events]

    def _take_event(self, event: Event) -> bool:
        """Read an event, and return whether it is one of usage alone."""
        if event.cut:
            self._account.blank = False
            self._account.flag("event_too_long")
            return False
        if event.data.strip() == _END_MARK:
            self._account.take_end_mark()
            return False
        document = _parsed(event.data)
        if isinstance(document, dict) and event.name and "type" not in document:
            # Some name the kind of an event outside of it only.
            document = {"type": event.name} | document
        if document is None:
            self.lose("not_understood")
            return False
        self._account.take_event(document)
        return _is_usage_alone(document)

    def _released(self, events: list[Event]) -> bytes:
        """Let go what is held up to the last complete event, without chunks of usage alone."""
        passed = bytearray()
        for event, alone in zip(events, self._take(events), strict=True):
            passed += self._let_go(event.start - self._held_from)
            whole = self._let_go(event.end - self._held_from)
            self._took_out_cr = alone and whole.endswith(b"\r")
            if not alone:
                passed += whole
        rest = self._events.event_start - self._held_from
        if len(self._held) > MAX_HELD_BYTES:
            rest = len(self._held)
        return bytes(passed + self._let_go(rest))

    def _let_go(self, length: int) -> bytes:
        length = max(0, length)
        passed = bytes(self._held[:length])
        del self._held[:length]
        self._held_from += length
        return passed


class _Document:
    """The body of an answer that is not streamed, as far as it is kept."""

    def __init__(self, endpoint: Endpoint) -> None:
        vectors = endpoint is Endpoint.EMBEDDINGS
        self._kept_max = MAX_EMBEDDINGS_BYTES if vectors else MAX_DOCUMENT_BYTES
        self._vectors = vectors
        self._head = bytearray()
        self._tail = bytearray()
        self._bytes = 0

    def feed(self, raw: bytes) -> None:
        """Keep the beginning, and the end of what does not fit."""
        self._bytes += len(raw)
        room = self._kept_max - len(self._head)
        self._head += raw[:room]
        self._tail += raw[room:] if room > 0 else raw
        if len(self._tail) > 2 * TAIL_BYTES:
            del self._tail[:-TAIL_BYTES]

    def read_into(self, account: Account) -> None:
        """Read what is kept: the document, or of a long one the usage at one of its ends."""
        whole = len(self._head) == self._bytes
        if whole and not self._head.strip(_BLANK):
            return
        account.blank = False
        document = _parsed(bytes(self._head)) if whole else None
        if document is not None:
            account.take_document(document)
            return
        tail = bytes(self._head if whole else self._tail)
        closed = tail.rstrip(_BLANK).endswith(b"}")
        if whole or not closed:
            account.flag("not_understood" if closed else "broken_off")
        elif not self._vectors:
            account.flag("document_too_long")
        account.began = True
        account.ended = closed and not whole
        # What was seen of the text of a long answer is all but its frame.
        account.output_bytes = 0 if self._vectors else self._bytes
        for usage in (_usage_in(bytes(self._head)), _usage_in(tail)):
            account.take_usage(usage, final=account.ended)


def _is_whole(event: Event) -> bool:
    return event.data.strip() == _END_MARK or _parsed(event.data) is not None


def _parsed(data: bytes) -> Any:
    """Return the JSON value, None where there is none."""
    try:
        return json.loads(data.decode(errors="replace").lstrip("\ufeff"))
    except (ValueError, RecursionError):
        return None


def _usage_in(part: bytes) -> dict[str, Any] | None:
    """Return the last usage object in a part of a document. No text can hold one unescaped."""
    for found in reversed(list(_USAGE.finditer(part))):
        rest = part[found.end() :].decode(errors="replace")
        try:
            usage, _ = json.JSONDecoder().raw_decode(rest)
        except (ValueError, RecursionError):
            continue
        if isinstance(usage, dict):
            return usage
    return None


def _is_usage_alone(document: Any) -> bool:
    return (
        isinstance(document, dict)
        and not document.get("choices")
        and isinstance(document.get("usage"), dict)
        and not document.get("error")
    )
