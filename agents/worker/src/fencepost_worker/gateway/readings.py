"""What a provider's answer says of itself, put together from one document or from many events."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from fencepost_worker.gateway.faces import Endpoint
from fencepost_worker.gateway.usages import count, merged

#: Names that an answer gives are no longer than this in what is reported.
MAX_NAME_CHARS = 200
MAX_TIER_CHARS = 60
MAX_ERROR_CHARS = 500
#: Members of a message that are no text which the model has written.
UNWRITTEN = frozenset(
    {
        "id",
        "type",
        "role",
        "index",
        "status",
        "call_id",
        "signature",
        "encrypted_content",
        "logprobs",
        "annotations",
        "extra_content",
        "data",
    }
)
#: What ends a stream of events of the Responses face.
LAST_EVENTS = ("response.completed", "response.incomplete", "response.failed")


@dataclass(frozen=True)
class ProviderError:
    """An error that the provider sent inside an answer of status 200."""

    code: str = ""
    kind: str = ""
    message: str = ""


@dataclass(frozen=True)
class Reading:
    """What an answer says of itself.

    :param usage: counters of the wire (and `service_tier`, `speed`, where it names them), the
        largest of each that any event stated; None where it states none that can be read.
    :param counted: the usage is the provider's last word and can be booked as it is.
    :param output_bytes: of the text that was seen: content, refusals, reasoning, and the names and
        arguments of tools.
    :param ended: the face's own end mark was seen, or the document was whole.
    :param finished: each answer said why it ended, though the end mark may be missing.
    :param began: any output was seen.
    :param error: an error inside the answer; the first thing in it, where `began` is False.
    :param blank: nothing came but white space and comments.
    :param reasoned: reasoning began, which is billed whole and shown in parts, or not at all.
    :param flags: what a person should look at.
    """

    usage: dict[str, Any] | None = None
    counted: bool = False
    response_id: str = ""
    model: str = ""
    output_bytes: int = 0
    ended: bool = False
    finished: bool = False
    began: bool = False
    error: ProviderError | None = None
    blank: bool = True
    reasoned: bool = False
    flags: tuple[str, ...] = ()


@dataclass
class Account:
    """An answer while it comes in. Its documents are given in their order; none is kept."""

    endpoint: Endpoint
    provider: str
    response_id: str = ""
    model: str = ""
    service_tier: str = ""
    output_bytes: int = 0
    ended: bool = False
    began: bool = False
    blank: bool = True
    reasoned: bool = False
    error: ProviderError | None = None
    flags: list[str] = field(default_factory=list)
    _usage: Any = None
    _final: bool = False
    _open_choices: set[int] = field(default_factory=set)
    _finished: bool = False
    _searches: set[str] = field(default_factory=set)

    def flag(self, name: str) -> None:
        """Note something that a person should look at."""
        if name not in self.flags:
            self.flags.append(name)

    def take_event(self, document: Any) -> None:
        """Add the document of one event of a stream."""
        self.blank = False
        if not isinstance(document, dict):
            self.flag("not_understood")
            return
        if self.endpoint is Endpoint.RESPONSES:
            self._take_response_event(document)
        elif self.endpoint is Endpoint.MESSAGES:
            self._take_message_event(document)
        else:
            self._take_chunk(document, "delta")

    def take_end_mark(self) -> None:
        """Note the end mark of a stream of chat completions."""
        self.blank = False
        self.ended = True

    def take_document(self, document: Any) -> None:
        """Take the whole of an answer that is not streamed."""
        self.blank = False
        if not isinstance(document, dict):
            self.flag("not_understood")
            return
        self._final = self.ended = True
        if self.endpoint is Endpoint.RESPONSES:
            self._take_response(document)
            self._take_last(document)
            # One that is made in the background has not ended with its first answer.
            self._final = self.ended = document.get("status") in (None, *_OVER)
            self._finished = self.ended
            self.began = self.began or not self.ended
        elif self.endpoint is Endpoint.MESSAGES and document.get("type") != "error":
            self._take_message(document)
            self._write(document.get("content"))
            self.began = self.began or bool(document.get("content"))
        else:
            self._take_chunk(document, "message")

    def take_usage(self, usage: Any, *, final: bool) -> None:
        """Add a statement of usage.

        :param final: the provider states no more of it after this.
        """
        if isinstance(usage, dict):
            self._usage = merged(self._usage, usage)
            self._final = self._final or final
        elif usage is not None:
            self.flag("usage_odd")

    def reading(self) -> Reading:
        """Return what is known by now."""
        counted = count(self.endpoint, self.provider, self._usage)
        flags = [*self.flags, *(counted.flags if counted else ())]
        usage: dict[str, Any] | None = dict(counted.counts) if counted and counted.counts else None
        sent = self._usage if isinstance(self._usage, dict) else {}
        if usage is not None:
            usage |= self._named(sent)
            if self._searches:
                usage["searches"] = max(usage.get("searches", 0), len(self._searches))
        if isinstance(sent.get("inference_geo"), str) and sent["inference_geo"] not in _NO_FACTOR:
            flags.append("unpriced_factor")
        return Reading(
            usage=usage,
            counted=counted is not None and counted.sure and self._is_final,
            response_id=self.response_id,
            model=self.model,
            output_bytes=self.output_bytes,
            ended=self.ended,
            finished=self.finished,
            began=self.began,
            error=self.error,
            blank=self.blank,
            reasoned=self.reasoned,
            flags=tuple(dict.fromkeys(flags)),
        )

    @property
    def finished(self) -> bool:
        """Return whether each answer said why it ended."""
        return self._finished and not self._open_choices

    @property
    def _is_final(self) -> bool:
        """Return whether no usage can follow: behind the end mark there is none."""
        return self._final or (self.endpoint is Endpoint.CHAT and self.ended)

    def _named(self, sent: dict[str, Any]) -> dict[str, str]:
        tier = sent.get("service_tier")
        tier = tier[:MAX_TIER_CHARS] if isinstance(tier, str) else self.service_tier
        speed = sent.get("speed")
        named = {"service_tier": tier, "speed": speed if isinstance(speed, str) else ""}
        return {name: value[:MAX_TIER_CHARS] for name, value in named.items() if value}

    def _take_names(self, document: dict[str, Any]) -> None:
        for name, member in (("response_id", "id"), ("model", "model")):
            value = document.get(member)
            if isinstance(value, str) and value:
                setattr(self, name, value[:MAX_NAME_CHARS])
        tier = document.get("service_tier")
        if isinstance(tier, str) and tier:
            self.service_tier = tier[:MAX_TIER_CHARS]

    def _take_error(self, error: Any) -> None:
        if self.error is not None or not error:
            return
        members = error if isinstance(error, dict) else {"message": error}
        code, kind, message = (
            str(members.get(name) or "")[:MAX_ERROR_CHARS] for name in ("code", "type", "message")
        )
        self.error = ProviderError(code, kind, message)

    def _write(self, *written: Any) -> None:
        """Count text that the model has written; a role and an empty text are no output yet."""
        for value in written:
            texts = [len(text.encode(errors="surrogatepass")) for text in texts_of(value)]
            self.output_bytes += sum(texts)
            self.began = self.began or any(texts)

    def _take_chunk(self, chunk: dict[str, Any], member: str) -> None:
        self._take_names(chunk)
        choices = chunk.get("choices")
        choices = choices if isinstance(choices, list) else []
        for choice in choices:
            if isinstance(choice, dict):
                self._take_choice(choice, member)
        self.take_usage(chunk.get("usage"), final=not choices or self.finished)
        groq = chunk.get("x_groq")
        if isinstance(groq, dict):
            self.take_usage(groq.get("usage"), final=True)
            self._take_error(groq.get("error"))
        if self.endpoint is Endpoint.EMBEDDINGS and chunk.get("data"):
            self.began = True
        self._take_error(chunk.get("error"))

    def _take_choice(self, choice: dict[str, Any], member: str) -> None:
        written = choice.get(member)
        if isinstance(written, dict):
            self._write(written)
            self.began = self.began or bool(written.get("audio") or written.get("tool_calls"))
        index = choice.get("index")
        index = index if isinstance(index, int) else 0
        if choice.get("finish_reason"):
            self._finished = True
            self._open_choices.discard(index)
            if choice.get("native_finish_reason") in ("network_error", "error"):
                self.flag("provider_failed")
        elif not self._finished:
            self._open_choices.add(index)

    def _take_response_event(self, event: dict[str, Any]) -> None:
        kind = event.get("type")
        kind = kind if isinstance(kind, str) else ""
        response = event.get("response")
        if kind == "error" or (not kind and event.get("error")):
            self._take_error(event.get("error") or event)
        elif kind.endswith(".delta"):
            self._write(event.get("delta"))
        elif kind == "response.output_item.added":
            self.began = True
            added = event.get("item")
            item: dict[str, Any] = added if isinstance(added, dict) else {}
            self.reasoned = self.reasoned or item.get("type") == "reasoning"
            self._write(item.get("name"))
        elif kind == "response.output_item.done":
            self._take_search(event.get("item"))
        elif isinstance(response, dict):
            self._take_response(response)
            if kind in LAST_EVENTS:
                self.ended = self._finished = True
                self._take_last(response)

    def _take_response(self, response: dict[str, Any]) -> None:
        self._take_names(response)
        self._take_error(response.get("error"))
        self.take_usage(response.get("usage"), final=response.get("status") in _OVER)

    def _take_last(self, response: dict[str, Any]) -> None:
        """Take the output of the last event, which says all of it again."""
        seen, self.output_bytes = self.output_bytes, 0
        output = response.get("output")
        for item in output if isinstance(output, list) else ():
            self._take_search(item)
            self._write(item)
        self.output_bytes = max(seen, self.output_bytes)

    def _take_search(self, item: Any) -> None:
        """Count a search that was made; usage of Responses counts none."""
        if isinstance(item, dict) and item.get("type") == "web_search_call":
            action = item.get("action")
            kind = action.get("type") if isinstance(action, dict) else "search"
            if kind == "search" and item.get("status") in (None, "completed"):
                self._searches.add(str(item.get("id") or len(self._searches)))

    def _take_message_event(self, event: dict[str, Any]) -> None:
        kind, message = event.get("type"), event.get("message")
        if kind == "error" or event.get("error"):
            self._take_error(event.get("error") or event)
        elif kind == "message_start" and isinstance(message, dict):
            self._take_message(message)
        elif kind == "content_block_start":
            self.began = True
            block = event.get("content_block")
            kind = block.get("type") if isinstance(block, dict) else ""
            self.reasoned = self.reasoned or kind in _THINKING
            self._write(block)
        elif kind == "content_block_delta":
            self._write(event.get("delta"))
        elif kind == "message_delta":
            delta = event.get("delta")
            self._finished = isinstance(delta, dict) and bool(delta.get("stop_reason"))
            self.take_usage(event.get("usage"), final=True)
        elif kind == "message_stop":
            self.ended = True
        metrics = event.get("amazon-bedrock-invocationMetrics")
        if isinstance(metrics, dict) and not self._final:
            self._take_invocation(metrics)

    def _take_message(self, message: dict[str, Any]) -> None:
        self._take_names(message)
        self.take_usage(message.get("usage"), final=False)
        self._finished = self._finished or bool(message.get("stop_reason"))

    def _take_invocation(self, metrics: dict[str, Any]) -> None:
        """Take Bedrock's own count where the message's is missing; never both."""
        names = {
            "inputTokenCount": "input_tokens",
            "outputTokenCount": "output_tokens",
            "cacheReadInputTokenCount": "cache_read_input_tokens",
            "cacheWriteInputTokenCount": "cache_creation_input_tokens",
        }
        usage = {ours: metrics.get(theirs) for theirs, ours in names.items()}
        self.take_usage(usage, final=True)


#: Blocks of a message of which less is shown than is billed.
_THINKING = ("thinking", "redacted_thinking")
#: States of a response after which its usage does not grow.
_OVER = ("completed", "incomplete", "failed", "cancelled")
#: Words for inference that costs what the list says.
_NO_FACTOR = ("", "global", "not_available")


def texts_of(value: Any) -> Iterator[str]:
    """Yield the texts that a model has written in a message or a part of one."""
    stack = [value]
    while stack:
        each = stack.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, list):
            stack += each
        elif isinstance(each, dict):
            stack += [inner for name, inner in each.items() if name not in UNWRITTEN]
