"""Contexts: what a function is given beside its job.

`Context` is that of a plain function; what waits in it blocks its thread. `AsyncContext` is that of
an async function; what waits in it is awaited.
"""

from __future__ import annotations

import asyncio
import mimetypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias, TypedDict

from fencepost_worker.functions.jobs import Skill
from fencepost_worker.functions.outcomes import AttemptOver
from fencepost_worker.functions.recorded import Recorded
from fencepost_worker.gateway.environment import GATEWAY_ADDRESS, OPENAI_KEY
from fencepost_worker.lease import Lease, LeaseEnded
from fencepost_worker.uploads import Postponed
from fencepost_worker.workspace import DEFAULT_MEDIA_TYPE

#: A file by its path, or what is to be in one.
Content: TypeAlias = str | PathLike[str] | bytes


class ModelsUnavailable(Exception):
    """The attempt cannot call models: the worker has no providers, or the job's type has none."""


class ClientOptions(TypedDict):
    """What the client of a provider's SDK is made with: `AsyncOpenAI(**ctx.model.openai)`."""

    base_url: str
    api_key: str


class AzureClientOptions(TypedDict):
    """What Azure's client in OpenAI's SDK is made with, beside an `api_version`."""

    azure_endpoint: str
    api_key: str


@dataclass(frozen=True)
class ModelGateway:
    """Where models are called under this attempt, with a key that dies with it."""

    address: str
    key: str = field(repr=False)

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> ModelGateway:
        """Read the variables that an attempt is given."""
        return cls(environment[GATEWAY_ADDRESS], environment[OPENAI_KEY])

    @property
    def openai(self) -> ClientOptions:
        """Return the options of a client of OpenAI's SDK."""
        return {"base_url": f"{self.address}/v1", "api_key": self.key}

    @property
    def azure(self) -> AzureClientOptions:
        """Return the options of the client for Azure in OpenAI's SDK."""
        return {"azure_endpoint": self.address, "api_key": self.key}

    @property
    def anthropic(self) -> ClientOptions:
        """Return the options of a client of Anthropic's SDK."""
        return {"base_url": self.address, "api_key": self.key}


@dataclass(frozen=True)
class Artifact:
    """An artifact that was taken over: `pointer` is `artifact:<id>` once the store has it."""

    name: str
    media_type: str
    size_bytes: int
    sha256: str
    pointer: str


#: Takes an artifact over: its name, content and media type.
Keep: TypeAlias = Callable[[str, Content, str], dict[str, Any]]
#: Takes a kept artifact to the store: its number and description.
Store: TypeAlias = Callable[[int, dict[str, Any]], dict[str, Any]]


@dataclass(frozen=True)
class Place:
    """What the worker gives an attempt. `no_models` says why it can call none, if it cannot."""

    lease: Lease
    recorded: Recorded
    workspace: Path
    environment: Mapping[str, str]
    models: Mapping[str, str]
    no_models: str
    keep: Keep
    store: Store | None = None


class AttemptContext:
    """What plain and async functions are given alike."""

    def __init__(self, place: Place) -> None:
        self._place = place

    @property
    def workspace(self) -> Path:
        """Return an empty folder of the attempt's own, which is removed after its report."""
        return self._place.workspace

    @property
    def environment(self) -> dict[str, str]:
        """Return a ready environment for child processes.

        It has what programs of the `command` runtime are given: `PATH` and the like, the
        coordinates of the attempt, and where and by which key models are called; none of the
        worker's own secrets. Pass it on: `subprocess.run(..., env=ctx.environment)`.
        """
        return dict(self._place.environment)

    @property
    def model(self) -> ModelGateway:
        """Return where models are called under this attempt.

        :raises ModelsUnavailable: nowhere; the message says what is missing.
        """
        if self._place.no_models:
            raise ModelsUnavailable(self._place.no_models)
        return ModelGateway.of(self._place.models)

    @property
    def paused(self) -> bool:
        """Return whether an operator has paused the job; `check` waits until that is over."""
        return self._place.lease.paused

    @property
    def over(self) -> bool:
        """Return whether the attempt is not this worker's any more."""
        return self._place.lease.ended is not None

    def progress(self, progress: dict[str, Any]) -> None:
        """Tell how far the work is: a JSON object of 64 KiB at most; heartbeats carry the last one.

        :raises ValueError: it cannot be sent; the message says where and why.
        :raises AttemptOver: nobody waits for it any more.
        """
        self._place.recorded.tell_progress(progress)
        self._need_authority()

    def fact(self, fact_type: str, data: dict[str, Any], *, fact_id: str = "") -> None:
        """State a fact that the control plane relays to the outside, at the end of the attempt.

        :param fact_type: a CloudEvents type, as `com.example.report.published`.
        :param fact_id: the agent's for ever: under the same id the same fact is stated once, over
            attempts too. Without one the attempt states it as its own.
        :raises ValueError: it cannot be sent; the message says where and why.
        """
        self._place.recorded.add_fact(fact_type, data, fact_id)

    def reflect(self, **reflection: Any) -> None:
        """Say what was learnt: `what_worked`, `what_failed`, `pattern_observed`, `context_type`,
        `tool_sequence`, `success_signal`, `failure_signal`, `sensitivity_level`.

        :raises ValueError: another member, or one that cannot be sent.
        """
        self._place.recorded.reflect(reflection)

    def rate_skill(self, skill: Skill | int, *, success: bool, note: str = "") -> None:
        """Say how one of `job.skills` served; it is trusted more or less for it.

        It is told at the end of the attempt, whether that succeeded or failed; an attempt that is
        deferred tells nothing. Of one skill the last word stands.

        :param skill: the skill, or its id.
        :raises ValueError: it cannot be sent; the message says where and why.
        """
        skill_id = skill.skill_id if isinstance(skill, Skill) else skill
        self._place.recorded.rate_skill(skill_id, success, note)

    def ask_review(self) -> None:
        """Ask that a person accepts the result before it counts."""
        self._place.recorded.ask_review()

    def without_model(self, reason: str) -> None:
        """Say why no model was called where the job's type demands a call; a person reviews it."""
        self._place.recorded.without_model(reason)

    def _need_authority(self) -> None:
        ended = self._place.lease.ended
        if ended is not None:
            raise AttemptOver(ended)

    def _wait_while_paused(self) -> None:
        try:
            self._place.lease.wait_while_paused()
        except LeaseEnded as error:
            raise AttemptOver(error.why) from error

    def _take_over(self, name: str, content: Content, media_type: str) -> Artifact:
        self._need_authority()
        place = self._place
        guessed = media_type or mimetypes.guess_type(name)[0] or DEFAULT_MEDIA_TYPE
        described = place.keep(name, content, guessed)
        number = place.recorded.add_artifact(described)
        if place.store is not None:
            try:
                described = place.store(number, described)
            except Postponed as error:
                self._need_authority()
                raise AssertionError("postponed under a lease that lasts") from error
            place.recorded.note_stored(number, described)
        return Artifact(**described)


class Context(AttemptContext):
    """What a plain function is given beside its job."""

    def check(self) -> None:
        """Wait while the job is paused, and stop when it is over: call it between steps.

        :raises AttemptOver: the attempt is not this worker's any more.
        """
        self._wait_while_paused()

    def artifact(self, name: str, content: Content, *, media_type: str = "") -> Artifact:
        """Deliver a file: it is kept, granted, uploaded and confirmed when this returns.

        :param name: a relative path; the same name again has to be the same content.
        :param content: the path of a file, or bytes.
        :param media_type: default what the name suggests.
        :raises ArtifactRefused: it is no regular file, too large, or its name none.
        :raises Undelivered: the store did not take it.
        :raises AttemptOver: the attempt is not this worker's any more.
        """
        return self._take_over(name, content, media_type)


class AsyncContext(AttemptContext):
    """What an async function is given beside its job. It is cancelled when the attempt is over."""

    async def check(self) -> None:
        """Wait while the job is paused: await it between steps.

        :raises AttemptOver: the attempt is not this worker's any more.
        """
        self._need_authority()
        if self.paused:
            await asyncio.to_thread(self._wait_while_paused)

    async def artifact(self, name: str, content: Content, *, media_type: str = "") -> Artifact:
        """Deliver a file; see `Context.artifact`."""
        return await asyncio.to_thread(self._take_over, name, content, media_type)
