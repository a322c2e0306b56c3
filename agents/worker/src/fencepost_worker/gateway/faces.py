"""What programs ask models for: the faces, their endpoints, and what must be known of a request.

A request is read only as far as its call has to be governed, and what has to be changed in it is
changed in place: prompt caches depend on the rest staying as it is, byte for byte.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from fencepost_worker.gateway.members import (
    Layout,
    NotAnObject,
    Text,
    added,
    edited,
    layout_of,
    texts_in,
    with_member,
    without,
)

CHAT_LIMITS = ("max_completion_tokens", "max_tokens")
#: The members by which a call is judged, held and booked.
DECIDING = frozenset(
    {
        "model", "stream", "stream_options", "n", *CHAT_LIMITS, "max_output_tokens", "background",
        "service_tier", "speed", "tools", "web_search_options", "reasoning", "reasoning_effort",
        "previous_response_id", "conversation", "container", "prompt", "mcp_servers",
    }
)  # fmt: skip
#: More tokens than the control plane takes for a number of them.
WHOLE_MAX = 1_000_000_000
#: More answers to one request than any provider gives.
CHOICES_MAX = 1024
#: The tool whose uses are counted, however its version is called.
WEB_SEARCH = "web_search"
#: Tools that the program runs itself: the provider only writes calls of them.
PROGRAMS_TOOLS = re.compile(
    r"(function|custom|local_shell|shell|apply_patch|computer(_use)?(_preview)?|computer_\d+"
    r"|bash_\d+|text_editor_\d+|memory_\d+|tool_search\w*|namespace)"
)
#: Bytes of a file that has no more than one page, about; those of pictures have more.
BYTES_PER_PAGE = 4_000
#: Of spoken audio at the lowest rate in use: 32 kbit/s.
BYTES_PER_AUDIO_SECOND = 4_000

#: The members whose texts are no part of the prompt's text, or name something elsewhere.
ELSEWHERE = ("file_id", "file_url", "server_url", "image_url", "url", "file_data", "data", "type")
#: A letter of a key written as its number: nobody writes that who does not hide something.
_HIDDEN_KEY = re.compile(
    rb'"[^"\\]{0,40}\\u00(?:[46][1-9a-f]|[57][0-9a]|5f)[^"]{0,80}"[ \t\r\n]*:', re.IGNORECASE
)
_PDF = b"JVBERi"
_BASE64 = re.compile(rb'"(?:[A-Za-z0-9+/_=-]|\\[/nr])*+"')
_DATA_ADDRESS = re.compile(rb'"data:([\w.+-]+/[\w.+-]+)?[^,"]{0,200},')


class RequestUnreadable(ValueError):
    """The body is no request of its endpoint. The message has one line for a person."""


class Face(StrEnum):
    """The two ways of calling a model that are governed."""

    OPENAI = "openai"
    ANTHROPIC = "anthropic"


class Endpoint(StrEnum):
    """The endpoints that are governed; `models` is of both faces."""

    CHAT = "chat"
    RESPONSES = "responses"
    EMBEDDINGS = "embeddings"
    MESSAGES = "messages"
    COUNT_TOKENS = "count_tokens"
    MODELS = "models"

    @property
    def face(self) -> Face:
        """Return the face that it is of; `openai` for `models`, where headers say it."""
        mine = (Endpoint.MESSAGES, Endpoint.COUNT_TOKENS)
        return Face.ANTHROPIC if self in mine else Face.OPENAI

    @property
    def spends(self) -> bool:
        """Return whether a call of it costs money, and needs a reservation."""
        return self not in (Endpoint.COUNT_TOKENS, Endpoint.MODELS)


PATHS = {
    "/v1/chat/completions": Endpoint.CHAT,
    "/v1/responses": Endpoint.RESPONSES,
    "/v1/embeddings": Endpoint.EMBEDDINGS,
    "/v1/messages": Endpoint.MESSAGES,
    "/v1/messages/count_tokens": Endpoint.COUNT_TOKENS,
}


#: What stands at Azure before the paths of the OpenAI face, in its newer API and in its older one.
_AZURE = re.compile(r"/openai(?:/v1|/deployments/(?P<deployment>[^/]+))?+(?=/(?!messages))")


def common_path(path: str) -> tuple[str, str]:
    """Return a path as it is at all providers, from `/v1` on, and the deployment that it names.

    Azure's have the deployment in the path, which is a model to everybody else; `""` is none.
    """
    found = _AZURE.match(path)
    if found is None:
        return path, ""
    return f"/v1{path[found.end() :]}", found["deployment"] or ""


def endpoint_of(method: str, path: str) -> Endpoint | None:
    """Return the governed endpoint of a request, None where it is of no such one.

    :param path: with or without its query, which coding agents send (`?beta=true`).
    """
    path = common_path(path.partition("?")[0])[0]
    if method == "GET" and (path == "/v1/models" or path.startswith("/v1/models/")):
        return Endpoint.MODELS
    return PATHS.get(path) if method == "POST" else None


def face_asked(path: str, headers: Mapping[str, str]) -> Face:
    """Return the face that a request is of, governed or not: by its path, else by its headers.

    :param headers: by name in lower case.
    """
    path = common_path(path)[0]
    if path.startswith("/v1/messages"):
        return Face.ANTHROPIC
    theirs = "anthropic-version" in headers or "x-api-key" in headers
    return Face.ANTHROPIC if theirs and path.startswith("/v1/models") else Face.OPENAI


@dataclass(frozen=True)
class ModelRequest:
    """What the gateway must know of a request.

    :param model: as it stands; None where none is named.
    :param max_output_tokens: the limit that is stated, the smaller of two; None where none is.
    :param choices: how many answers are asked for (`n`); each may have that many tokens.
    :param estimated_text_bytes: bytes of the body without pictures, files and sound.
    :param by_reference: some of the input is named by an id or an address, and is of unknown size.
    :param at_provider: some of that is kept by a provider, and no other one has it.
    :param previous: the response that it goes on from, if it names one.
    :param background: the answer is to be made after the request has ended.
    :param include_usage: usage is asked for in a stream of chat completions.
    :param hidden_output: it asks for reasoning that is billed and not shown.
    :param reasoning_off: it asks for none, of a model that may reason by itself.
    :param images: pictures in the input, inline or by address.
    :param pages: pages of files inline, at least; by their bytes.
    :param audio_seconds: seconds of sound inline, at most; by its bytes.
    :param requirements: the terms of the price that it names, as `POST /v1/routes` takes them.
    """

    model: str | None
    stream: bool = False
    max_output_tokens: int | None = None
    choices: int = 1
    estimated_text_bytes: int = 0
    by_reference: bool = False
    at_provider: bool = False
    previous: str = ""
    background: bool = False
    include_usage: bool = False
    hidden_output: bool = False
    reasoning_off: bool = False
    images: int = 0
    pages: int = 0
    audio_seconds: int = 0
    requirements: tuple[str, ...] = ()


def read_request(endpoint: Endpoint, body: bytes) -> ModelRequest:
    """Return what must be known of a request's body.

    :raises RequestUnreadable: it is no JSON object, or a member that decides over its call is not
        of its type.
    """
    try:
        layout = layout_of(body)
        _need_unambiguous(layout)
        parts = _parts_of(layout)
        refers = parts.at_provider or _refers(layout)
        return ModelRequest(
            model=_of_type(layout, "model", str, None),
            stream=_of_type(layout, "stream", bool, False),
            max_output_tokens=_limit(endpoint, layout),
            choices=_choices(layout),
            estimated_text_bytes=len(body) - parts.binary_bytes,
            by_reference=parts.by_reference or refers or bool(layout.value("mcp_servers")),
            at_provider=refers,
            previous=_previous(layout),
            background=_of_type(layout, "background", bool, False),
            include_usage=_includes_usage(layout),
            hidden_output=_effort(endpoint, layout) not in (None, "none"),
            reasoning_off=_effort(endpoint, layout) == "none",
            images=parts.images,
            pages=parts.pages,
            audio_seconds=parts.audio_seconds,
            requirements=tuple(_requirements(layout)),
        )
    except NotAnObject as error:
        raise RequestUnreadable(str(error)) from error


def rewritten(
    endpoint: Endpoint,
    body: bytes,
    *,
    model: str | None = None,
    max_output_tokens: int | None = None,
    max_tokens_member: str | None = None,
    include_usage: bool | None = None,
) -> bytes:
    """Return the body with these members set, and every other byte as it was.

    :param max_output_tokens: the limit to write; embeddings have none.
    :param max_tokens_member: what the model calls the limit of a chat completion (`max_tokens` or
        `max_completion_tokens`); one that stands under the other name is moved, and of two the
        smaller stays. None leaves the name that stands there.
    :param include_usage: True asks for usage in a stream of chat completions. It is only written
        where the body says `"stream": true`; anything else leaves the body's own word.
    :raises RequestUnreadable: it is no JSON object.
    """
    try:
        layout = layout_of(body)
        changes = [] if model is None else with_member(layout, "model", model)
        if endpoint is Endpoint.CHAT:
            changes += _chat_limit(layout, max_output_tokens, max_tokens_member)
            if include_usage and _of_type(layout, "stream", bool, False):
                changes += _asking_for_usage(layout)
        elif max_output_tokens is not None and endpoint in (Endpoint.RESPONSES, Endpoint.MESSAGES):
            name = "max_output_tokens" if endpoint is Endpoint.RESPONSES else "max_tokens"
            changes += with_member(layout, name, max_output_tokens)
    except NotAnObject as error:
        raise RequestUnreadable(str(error)) from error
    return _with_additions(layout, changes)


def _with_additions(layout: Layout, changes: list[tuple[int, int, bytes]]) -> bytes:
    """Apply changes; of members that are added to an empty object only later ones have a comma."""
    if not layout.members:
        start = layout.open_at + 1
        new = b",".join(new for _, _, new in changes)
        return edited(layout.body, [(start, start, new)])
    return edited(layout.body, changes)


def _chat_limit(
    layout: Layout, limit: int | None, wanted: str | None
) -> list[tuple[int, int, bytes]]:
    present = [each for each in layout.members if each.name in CHAT_LIMITS]
    if limit is None:
        if wanted is None or not present:
            return []
        limit = _limit(Endpoint.CHAT, layout)
    value = b"null" if limit is None else str(limit).encode()
    if not present:
        return [added(layout, wanted or CHAT_LIMITS[0], value)]
    first = present[0]
    name = wanted or first.name
    return [
        (first.key_start, first.key_end, b'"' + name.encode() + b'"'),
        (first.start, first.end, value),
        *without(layout, lambda each: each in present[1:]),
    ]


def _asking_for_usage(layout: Layout) -> list[tuple[int, int, bytes]]:
    found = layout.named("stream_options")
    changes = []
    for each in found:
        if layout.body[each.start : each.start + 1] != b"{":
            changes.append((each.start, each.end, b'{"include_usage":true}'))
            continue
        inner = layout_of(layout.body, start=each.start, whole=False)
        changes += with_member(inner, "include_usage", True)
    return changes or [added(layout, "stream_options", b'{"include_usage":true}')]


def _limit(endpoint: Endpoint, layout: Layout) -> int | None:
    """Return the smallest limit that the body states; one below 1 is none, but for Messages."""
    names = {
        Endpoint.CHAT: CHAT_LIMITS,
        Endpoint.RESPONSES: ("max_output_tokens",),
        Endpoint.MESSAGES: ("max_tokens",),
    }.get(endpoint, ())
    stated = [n for name in names if (n := _whole(layout, name)) is not None]
    # A Messages request for 0 tokens fills the cache; elsewhere servers take -1 for no limit.
    least = 0 if endpoint is Endpoint.MESSAGES else 1
    return min((n for n in stated if n >= least), default=None)


def _need_unambiguous(layout: Layout) -> None:
    """Refuse a request of which two readers may take different words for its own.

    Most parsers take the last of two members, some the first, and some know no case in their names.
    """
    seen = set()
    for each in layout.members:
        name = each.name.lower()
        if name not in DECIDING:
            continue
        if name in seen or name != each.name:
            raise RequestUnreadable(f"{name} is to stand there once, in small letters.")
        seen.add(name)


def _choices(layout: Layout) -> int:
    choices = max(1, _whole(layout, "n") or 1)
    if choices > CHOICES_MAX:
        raise RequestUnreadable(f"n is {CHOICES_MAX} at most.")
    return choices


def _whole(layout: Layout, name: str) -> int | None:
    value = layout.value(name)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if value is not None and type(value) is not int:
        raise RequestUnreadable(f"{name} is a whole number.")
    if value is not None and value > WHOLE_MAX:
        raise RequestUnreadable(f"{name} is {WHOLE_MAX} at most.")
    return value


def _of_type(layout: Layout, name: str, kind: type, default: Any) -> Any:
    value = layout.value(name)
    if value is None:
        return default
    if type(value) is not kind:
        words = {str: "a text", bool: "true or false"}
        raise RequestUnreadable(f"{name} is {words[kind]}.")
    return value


def _member_of(layout: Layout, name: str) -> dict[str, Any]:
    value = layout.value(name)
    return value if isinstance(value, dict) else {}


def _includes_usage(layout: Layout) -> bool:
    return _member_of(layout, "stream_options").get("include_usage") is True


def _effort(endpoint: Endpoint, layout: Layout) -> Any:
    """Return the effort of reasoning that is asked for; None where nothing says it."""
    if endpoint.face is not Face.OPENAI:
        return None
    return layout.value("reasoning_effort") or _member_of(layout, "reasoning").get("effort")


def _refers(layout: Layout) -> bool:
    """Return whether the request goes on from something that the provider keeps."""
    kept = ("previous_response_id", "conversation", "container")
    return any(layout.value(name) for name in kept) or "id" in _member_of(layout, "prompt")


def _previous(layout: Layout) -> str:
    value = layout.value("previous_response_id")
    return value if isinstance(value, str) else ""


def _requirements(layout: Layout) -> list[str]:
    found = []
    for name, usual in (("service_tier", ("auto", "default", "standard_only")), ("speed", ())):
        value = layout.value(name)
        if isinstance(value, str) and value and value not in usual:
            found.append(f"{name}={value[:40]}")
    tools, searches = _providers_tools(layout)
    found += [f"tool={name}" for name in sorted(tools)]
    return [*found, f"searches={min(searches, 9999)}"] if searches else found


def _providers_tools(layout: Layout) -> tuple[set[str], int]:
    """Return the tools that the provider runs, and how often it may search, 0 if not stated."""
    tools = layout.value("tools")
    searches, names = 0, set()
    if isinstance(layout.value("web_search_options"), dict):
        names.add(WEB_SEARCH)
    for tool in tools if isinstance(tools, list) else ():
        kind = tool.get("type") if isinstance(tool, dict) else None
        if not isinstance(kind, str) or not kind or PROGRAMS_TOOLS.fullmatch(kind):
            continue
        if kind.startswith(WEB_SEARCH):
            uses = tool.get("max_uses")
            searches += uses if type(uses) is int and uses > 0 else 0
            kind = WEB_SEARCH
        names.add(re.sub(r"_\d{6,}$", "", kind)[:40])
    return names, searches


@dataclass
class _Parts:
    """What of the input is no text."""

    binary_bytes: int = 0
    by_reference: bool = False
    at_provider: bool = False
    images: int = 0
    pages: int = 0
    audio_seconds: int = 0

    def take(self, body: bytes, text: Text) -> None:
        """Count one string of the request by the members that it stands in."""
        name, parent = text.name, text.parent
        if name == "file_id":
            self.at_provider = True
        elif name in ("file_url", "server_url"):
            self.by_reference = True
        elif (parent, name) == ("input_audio", "data"):
            self._add_binary(text)
            self.audio_seconds += -(-_decoded_bytes(text) // BYTES_PER_AUDIO_SECOND)
        elif (parent, name) == ("image_url", "url") or name == "image_url":
            self.images += 1
            self._take_address(body, text)
        elif parent == "source" and name == "url":
            self._take_address(body, text)
        elif name == "file_data" or (parent, name) == ("source", "data"):
            self._take_file(body, text)
        elif name == "type" and body[text.start : text.end] == b'"item_reference"':
            self.at_provider = True

    def _take_address(self, body: bytes, text: Text) -> None:
        if _DATA_ADDRESS.match(body, text.start, text.end):
            self._add_binary(text)
        else:
            self.by_reference = True

    def _take_file(self, body: bytes, text: Text) -> None:
        address = _DATA_ADDRESS.match(body, text.start, text.end)
        start = address.end() if address else text.start + 1
        if not address and not _BASE64.fullmatch(body, text.start, text.end):
            return  # a document as text
        self._add_binary(text)
        if body.startswith(_PDF, start) or text.name == "file_data":
            self.pages += max(1, _decoded_bytes(text) // BYTES_PER_PAGE)
        else:
            self.images += 1

    def _add_binary(self, text: Text) -> None:
        self.binary_bytes += text.end - text.start


def _decoded_bytes(text: Text) -> int:
    return (text.end - text.start) * 3 // 4


def _parts_of(layout: Layout) -> _Parts:
    parts = _Parts(by_reference=_HIDDEN_KEY.search(layout.body) is not None)
    for text in texts_in(layout, ELSEWHERE):
        parts.take(layout.body, text)
    return parts
