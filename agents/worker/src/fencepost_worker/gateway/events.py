"""Reads server-sent events from the bytes of a stream, however these are cut into packets.

Lines end with CR, LF or CRLF and with nothing else: a text may hold U+2028 or half a character at
the end of a packet. What is read is bounded; what cannot be read is passed over, and nothing is
raised.

Source: WHATWG HTML, 9.2 (server-sent events).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

#: The last event of a stream may hold the whole answer, with an image in it.
MAX_EVENT_BYTES = 8 * 1024 * 1024

_LINE_END = re.compile(rb"\r\n|\n|\r")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class Event:
    """One event: what it is called (`""` where it is not), its data, and where it stood.

    :param start: offset in the stream of its first byte, comments before it included.
    :param end: offset behind the blank line that ends it.
    :param cut: it was longer than `MAX_EVENT_BYTES`, and its data is not kept.
    """

    name: str
    data: bytes
    start: int
    end: int
    cut: bool = False


class Events:
    """The events of one stream. Fed byte by byte or all at once, it finds the same."""

    def __init__(self, *, event_bytes_max: int = MAX_EVENT_BYTES) -> None:
        self._event_bytes_max = event_bytes_max
        self._line = bytearray()
        self._line_bytes = 0
        self._data: list[bytes] = []
        self._data_bytes = 0
        self._name = b""
        self._cut = False
        self._after_cr = False
        self._first = True
        #: Offset behind the last byte that was fed.
        self.position = 0
        #: Offset at which the event begins that is not complete yet.
        self.event_start = 0

    def feed(self, raw: bytes) -> list[Event]:
        """Take the next bytes and return the events that they complete."""
        found: list[Event] = []
        at = 0
        if self._after_cr and raw:
            self._after_cr = False
            if raw[:1] == b"\n":
                at = 1
                if self.event_start == self.position:
                    self.event_start += 1
        for mark in _LINE_END.finditer(raw, at):
            self._add(raw[at : mark.start()])
            at = mark.end()
            event = self._end_line(self.position + at)
            if event is not None:
                found.append(event)
        self._add(raw[at:])
        # The LF of a CRLF may be the first byte of the next packet.
        self._after_cr = raw.endswith(b"\r") if raw else self._after_cr
        self.position += len(raw)
        return found

    def close(self) -> list[Event]:
        """Return the last event where the stream ended without a blank line behind it."""
        found = [self._end_line(self.position), self._dispatched(self.position)]
        return [event for event in found if event is not None]

    def _add(self, part: bytes) -> None:
        self._line_bytes += len(part)
        if self._line_bytes + self._data_bytes > self._event_bytes_max:
            self._cut = True
            self._line.clear()
            self._data.clear()
        elif not self._cut:
            self._line += part

    def _end_line(self, end: int) -> Event | None:
        line, blank = bytes(self._line), not self._line_bytes
        self._line.clear()
        self._line_bytes = 0
        if self._first:
            self._first = False
            blank = blank or line == _BYTE_ORDER_MARK
            line = line.removeprefix(_BYTE_ORDER_MARK)
        if blank:
            return self._dispatched(end)
        self._end_field(line)
        return None

    def _end_field(self, line: bytes) -> None:
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data" and not self._cut:
            self._data.append(value)
            self._data_bytes += len(value) + 1
        elif field == b"event":
            self._name = value

    def _dispatched(self, end: int) -> Event | None:
        start, self.event_start = self.event_start, end
        event = None
        if self._data or self._cut:
            name = self._name.decode(errors="replace")
            event = Event(name, b"\n".join(self._data), start, end, self._cut)
        self._data, self._data_bytes, self._name, self._cut = [], 0, b"", False
        return event
