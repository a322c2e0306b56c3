"""Asks a model behind any OpenAI-compatible chat endpoint, streaming or not.

The model is the one that the control plane decided; what the answer says of its usage is what the
reservation is settled with.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx2

from fencepost_worker.adapters import RuntimeAdapter
from fencepost_worker.adapters.http import Endpoint, read_bounded, result_of, under_lease
from fencepost_worker.exchange import MAX_RESULT_BYTES, Request, Result, ResultRefused
from fencepost_worker.executor import ExternalAgentExecutor, Grant, OutcomeUnknown
from fencepost_worker.lease import Lease

INSTRUCTIONS = (
    "You are an agent that does one task. The user message is a JSON object with the task's title,"
    " goal and inputs, and, where it was tried before, what a reviewer wants changed and the story"
    " of the earlier attempts. Answer with the finished work only."
)
PROMPT_MEMBERS = ("title", "goal", "inputs", "rework", "story")
MAX_LINE_BYTES = 256 * 1024


@dataclass
class Completion:
    """The answer of a model, put together from one document or many."""

    text: str = ""
    finish_reason: str = ""
    response_id: str = ""
    model: str = ""
    usage: dict[str, int] | None = None

    def take(self, document: dict[str, Any]) -> None:
        """Add a document of the answer.

        Usage is cumulative: the last that was stated counts, and none is ever added up.

        :raises ResultRefused: it is not one of a chat completion, or says that the model failed.
        """
        if document.get("error"):
            raise ResultRefused(
                f"the model failed: {document['error']!s:.500}", code="MODEL_FAILED"
            )
        self.response_id = str(document.get("id") or self.response_id)[:200]
        self.model = str(document.get("model") or self.model)[:200]
        self.usage = read_usage(document.get("usage")) or self.usage
        choices = document.get("choices")
        if not isinstance(choices, list) or not all(isinstance(c, dict) for c in choices):
            raise ResultRefused("the answer is not a chat completion")
        for choice in choices[:1]:
            message = choice.get("delta") or choice.get("message") or {}
            self.text += message.get("content") or ""
            self.finish_reason = str(choice.get("finish_reason") or self.finish_reason)
        if len(self.text) > MAX_RESULT_BYTES:
            raise ResultRefused("the answer is too long")


def read_usage(usage: Any) -> dict[str, int] | None:
    """Return an answer's token counts under the control plane's names; None where they are missing.

    Cached, written and audio tokens are inside the input tokens, reasoning and audio tokens inside
    the output tokens.
    """
    if not isinstance(usage, dict):
        return None
    parts = [usage.get(f"{whole}_tokens_details") for whole in ("prompt", "completion")]
    inside, out = [each if isinstance(each, dict) else {} for each in parts]
    stated = {
        "input_tokens": usage.get("prompt_tokens"),
        "output_tokens": usage.get("completion_tokens"),
        "cached_input_tokens": inside.get("cached_tokens"),
        "cache_write_tokens": inside.get("cache_write_tokens"),
        "input_audio_tokens": inside.get("audio_tokens"),
        "reasoning_tokens": out.get("reasoning_tokens"),
        "output_audio_tokens": out.get("audio_tokens"),
    }
    counts = {name: n for name, n in stated.items() if type(n) is int and n >= 0}
    return counts if counts.keys() >= {"input_tokens", "output_tokens"} else None


class OpenAIAdapter(RuntimeAdapter):
    """The `openai` runtime."""

    runtime = "openai"

    def __init__(
        self,
        *,
        executor: ExternalAgentExecutor,
        endpoint: Endpoint,
        max_output_tokens: int,
        stream: bool = True,
    ) -> None:
        super().__init__(executor=executor)
        self._endpoint = endpoint
        self._max_output_tokens = max_output_tokens
        self._stream = stream

    def invoke(self, request: Request, *, lease: Lease, grant: Grant) -> Result:
        """Ask the model once; see `RuntimeAdapter.invoke`."""
        completion = Completion()

        def ask() -> Result:
            with self._endpoint.post(
                self._question(request, model=grant.model),
                request=request,
                lease=lease,
                grant=grant,
            ) as response:
                for document in _documents(response, streamed=self._stream):
                    completion.take(document)
            if not completion.finish_reason:
                raise OutcomeUnknown("the answer broke off")
            return _result(request, completion)

        def ask_and_count() -> Result:
            result = result_of(request, ask, name="MODEL")
            # A failure after the model began has cost what it had counted by then.
            return Result.of(request, result.document | {"usage": completion.usage})

        return under_lease(lease, ask_and_count)

    def _question(self, request: Request, *, model: str | None) -> dict[str, Any]:
        prompt = {name: request.document.get(name) for name in PROMPT_MEMBERS}
        question: dict[str, Any] = {
            "model": model,
            "messages": [
                {"role": "system", "content": INSTRUCTIONS},
                {"role": "user", "content": json.dumps(prompt, ensure_ascii=False)},
            ],
            "max_tokens": self._max_output_tokens,
        }
        if self._stream:
            question |= {"stream": True, "stream_options": {"include_usage": True}}
        return question


def _documents(response: httpx2.Response, *, streamed: bool) -> Iterator[dict[str, Any]]:
    """Yield the JSON documents of an answer: one, or those of its server-sent events.

    A server that does not stream although it was asked to is understood as well.

    Source: WHATWG HTML, 9.2 (server-sent events); the end mark is the OpenAI API's.
    """
    if not streamed or "text/event-stream" not in response.headers.get("Content-Type", ""):
        yield _object(read_bounded(response))
        return
    for line in response.iter_lines():
        if len(line) > MAX_LINE_BYTES:
            raise ResultRefused("a line of the answer is too long")
        name, _, value = line.partition(":")
        if name != "data":
            continue
        value = value.removeprefix(" ")
        if value == "[DONE]":
            return
        yield _object(value)


def _object(content: bytes | str) -> dict[str, Any]:
    try:
        document = json.loads(content)
    except ValueError as error:
        raise ResultRefused("the answer is not JSON") from error
    if not isinstance(document, dict):
        raise ResultRefused("the answer is not a JSON object")
    return document


def _result(request: Request, completion: Completion) -> Result:
    if completion.finish_reason == "content_filter":
        return Result.failed(
            request, code="CONTENT_FILTERED", message="the model refused", retryable=False
        )
    content = {
        "text": completion.text,
        "model": completion.model,
        "finish_reason": completion.finish_reason,
    }
    document = request.binding | {
        "outcome": "succeeded",
        "result": content,
        # Cut off at the limit: somebody should look at it before it counts.
        "needs_review": completion.finish_reason == "length",
        "provider_response_id": completion.response_id or None,
    }
    return Result.of(request, document)
