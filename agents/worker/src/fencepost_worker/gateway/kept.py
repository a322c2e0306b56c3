"""Answers that are kept under a program's `Idempotency-Key`, for as long as its attempt.

The same request under the same key is one call: who asks again gets the answer of before, or waits
for it, and no provider is asked a second time. What was refused before any provider was asked
leaves its key free. Everything here belongs to the gateway's loop.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from fencepost_worker.gateway.refusals import CallRefused
from fencepost_worker.gateway.wire import Headers, Reply

KEY_CHARS_MAX = 255
#: More keys of one attempt are refused: one that was forgotten would be called a second time.
KEYS_MAX = 2_000
#: Of one answer, and of all of an attempt; the oldest give way.
ANSWER_BYTES_MAX = 4 * 1024 * 1024
KEPT_BYTES_MAX = 16 * 1024 * 1024
REUSED, NOT_KEPT, INVALID = "IDEMPOTENCY_KEY_REUSED", "ANSWER_NOT_KEPT", "IDEMPOTENCY_KEY_INVALID"
TOO_MANY = "TOO_MANY_IDEMPOTENCY_KEYS"
REPLAYED = (b"idempotent-replayed", b"true")


@dataclass
class KeptAnswer:
    """The call of one key, and its answer as the program was given it.

    `over`: its answer has ended, whole or not; `free`: no provider was asked, and the key is open
    to the next who comes with it.
    """

    key: str
    digest: str
    status: int = 0
    headers: Headers = field(default_factory=list)
    content: bytearray = field(default_factory=bytearray)
    whole: bool = False
    lost: bool = False
    over: bool = False
    free: bool = False

    def start(self, status: int, headers: Headers) -> None:
        """Take status and headers."""
        self.status, self.headers = status, list(headers)

    def add(self, content: bytes) -> None:
        """Take a part of the body; an answer that is too large is not kept."""
        if len(self.content) + len(content) > ANSWER_BYTES_MAX:
            self.lose()
        elif not self.lost:
            self.content += content

    def finish(self) -> None:
        """Take the end of the body, by which the answer is whole."""
        self.whole = True

    def lose(self) -> None:
        """Keep no content; the key stays taken."""
        self.lost = True
        self.content = bytearray()

    async def replay(self, reply: Reply) -> None:
        """Give the answer once more.

        :raises CallRefused: it is not kept whole.
        """
        if self.lost or not self.whole:
            message = "The call of this key was made before, and its answer was not kept whole."
            raise CallRefused(409, NOT_KEPT, message)
        await reply.whole(self.status, [*self.headers, REPLAYED], bytes(self.content))


class KeptAnswers:
    """The keys of one attempt's calls."""

    def __init__(self, known: Mapping[str, str], *, on_over: Callable[[], None]) -> None:
        """Begin with the keys whose calls an earlier process has made: content by key.

        :param on_over: called when an answer has ended, for those that wait.
        """
        self._on_over = on_over
        self._by_key = {
            key: KeptAnswer(key, digest, lost=True, over=True) for key, digest in known.items()
        }

    def take(self, key: str, digest: str) -> tuple[KeptAnswer, bool]:
        """Return what is known of a key, and whether the caller is the first to come with it.

        :param key: as `key_of` names it.
        :param digest: of the request.
        :raises CallRefused: it is that of another request, or there are too many.
        """
        known = self._by_key.get(key)
        if known is not None and known.digest != digest:
            message = "This Idempotency-Key is that of another request of the attempt."
            raise CallRefused(422, REUSED, message)
        if known is not None:
            return known, False
        if len(self._by_key) >= KEYS_MAX:
            message = f"An attempt has {KEYS_MAX} calls with a key at most."
            raise CallRefused(429, TOO_MANY, message)
        kept = self._by_key[key] = KeptAnswer(key, digest)
        return kept, True

    def end(self, kept: KeptAnswer, *, reached: bool) -> None:
        """Note that an answer has ended.

        :param reached: a provider may have got the request; else the key is free again.
        """
        if kept.over:
            return
        kept.over, kept.free = True, not reached
        if kept.free:
            del self._by_key[kept.key]
        elif not kept.whole:
            kept.lose()
        self._make_room()
        self._on_over()

    def _make_room(self) -> None:
        """Let the oldest answers go, where all of them are too much."""
        held = sum(len(each.content) for each in self._by_key.values())
        for each in self._by_key.values():
            if held <= KEPT_BYTES_MAX:
                return
            if each.over:
                held -= len(each.content)
                each.lose()


def key_of(value: str) -> str:
    """Return the name under which a key is kept, of any key that a program sends.

    :raises CallRefused: it is longer than a key may be.
    """
    if len(value) > KEY_CHARS_MAX:
        raise CallRefused(400, INVALID, f"An Idempotency-Key has {KEY_CHARS_MAX} characters.")
    return hashlib.sha256(value.encode()).hexdigest()
