"""What a request holds beside its text, and how many tokens of input all of it may have.

The service does not see a request. Who sends it states its parts among the requirements of its
route, where they are kept with the decision: `images=2`, `pages=10`, `audio_seconds=30`, and
`content=by_reference` where it names content that is not in it (an earlier response, a file, an
address), of which nobody knows how much it is; `content=at_provider` says so of what one provider
keeps, and no other one has. Source: money, rule 3, and step 3 of the gateway.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from governance.core.errors import FieldFault, InvalidArgument

#: Text has no more tokens than a third of its bytes.
BYTES_PER_TOKEN = 3
#: The most that one part of a kind is counted at, as the providers document it. An image has up to
#: 4784 tokens (Anthropic, of high resolution; OpenAI: 1536 patches, times 2.46 at most); a page of
#: a document up to 3000 of text, and those of its image (Anthropic); a second of audio 32 (Google;
#: OpenAI: 10).
IMAGE_TOKENS = 4_784
PAGE_TOKENS = 3_000 + IMAGE_TOKENS
AUDIO_SECOND_TOKENS = 32
TOKENS_OF = {"images": IMAGE_TOKENS, "pages": PAGE_TOKENS, "audio_seconds": AUDIO_SECOND_TOKENS}
#: More parts than any request has.
PARTS_MAX = 99_999
BY_REFERENCE = "content=by_reference"
AT_PROVIDER = "content=at_provider"


@dataclass(frozen=True)
class Contents:
    """The parts of a request beside its text.

    :param tokens: that they have at most.
    :param by_reference: there is content that is not in the request.
    :param at_provider: a provider keeps some of it, and the call cannot go to another one.
    """

    tokens: int = 0
    by_reference: bool = False
    at_provider: bool = False

    @classmethod
    def read(cls, requirements: Iterable[str]) -> Contents:
        """Return what requirements say of contents.

        :raises InvalidArgument: a kind is stated twice, or its count is no number.
        """
        stated = [each for each in set(requirements) if is_content(each)]
        named = {BY_REFERENCE, AT_PROVIDER}
        counts = [each.partition("=")[::2] for each in stated if each not in named]
        if len(dict(counts)) != len(counts):
            raise InvalidArgument(errors=[FieldFault("/requirements", "each content once")])
        if not all(name in TOKENS_OF and _is_count(count) for name, count in counts):
            kinds = ", ".join(f"{name}=N" for name in TOKENS_OF)
            detail = f"{BY_REFERENCE}, {AT_PROVIDER}, or {kinds} with N from 0 to {PARTS_MAX}"
            raise InvalidArgument(errors=[FieldFault("/requirements", detail)])
        tokens = sum(TOKENS_OF[name] * int(count) for name, count in counts)
        return cls(tokens, not named.isdisjoint(stated), AT_PROVIDER in stated)

    def input_of(self, request_bytes: int) -> int:
        """Return the most tokens of input that they have with so many bytes of text."""
        return -(-request_bytes // BYTES_PER_TOKEN) + self.tokens


#: Of a request that is text alone.
NOTHING_MORE = Contents()


def is_content(requirement: str) -> bool:
    """Tell whether a requirement is about the contents of the request."""
    name, equals, _ = requirement.partition("=")
    return bool(equals) and (name in TOKENS_OF or name == "content")


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit() and int(text) <= PARTS_MAX
