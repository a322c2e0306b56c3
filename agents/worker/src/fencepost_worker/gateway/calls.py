"""One governed call of a model: its route, its request to the provider, its settlement.

    wait for a place -> route (and start, where it is the first) -> provider -> settle
                          ^                                          |
                          +--- refused, and another model may ------+

The call belongs to a task of its own: it goes on to its settlement whatever becomes of the program
or of the connection that it came by.
"""

import asyncio
import hashlib
import logging
from dataclasses import dataclass
from typing import Any

import httpx2

from fencepost_worker import rules
from fencepost_worker.client import GaveUp, Refused
from fencepost_worker.gateway import refusals
from fencepost_worker.gateway.attempts import ProviderRefusal
from fencepost_worker.gateway.booking import Desk, End, Routed, StartRefused, not_sent, too_late
from fencepost_worker.gateway.faces import (
    Endpoint,
    Face,
    ModelRequest,
    RequestUnreadable,
    read_request,
    rewritten,
)
from fencepost_worker.gateway.forwarding import CLIENT_LEFT, Forwarding
from fencepost_worker.gateway.kept import KeptAnswer, key_of
from fencepost_worker.gateway.links import Links
from fencepost_worker.gateway.origins import Origin
from fencepost_worker.gateway.problems import error_answer
from fencepost_worker.gateway.providers import KeyMissing, Provider
from fencepost_worker.gateway.refusals import CallRefused, ClientGone
from fencepost_worker.gateway.running import PLACE_SECONDS, RunningAttempt
from fencepost_worker.gateway.tap import Tap
from fencepost_worker.gateway.verdicts import BYTES_PER_TOKEN, verdict
from fencepost_worker.gateway.wire import Headers, Reply, passed_on
from fencepost_worker.lease import LeaseEnded

log = logging.getLogger("fencepost_worker")

#: What a call may use where its request states no limit and nobody names one; money, rule 3.
OUTPUT_TOKENS_LOST = 16_384
#: More parts of a kind than a route is told of.
PARTS_MAX = 99_999
#: By which a program says that no other model is to be asked in the place of one that fails.
FALLBACK_HEADER = b"x-fencepost-fallback"
#: Statuses that say that a key or an account is at fault, or that there is no room for now.
NOTED_STATUSES = frozenset({401, 402, 403, 429, 503, 522, 529})


@dataclass(frozen=True)
class Incoming:
    """A program's request, as it came; its path is that of all providers.

    `deployment`: the model that an address of Azure's names, which counts before the body's.
    """

    endpoint: Endpoint
    face: Face
    path: str
    query: str
    headers: Headers
    body: bytes
    deployment: str = ""

    @property
    def idempotency_key(self) -> str:
        """Return the key under which its answer is kept; empty where it has none."""
        return self._header(b"idempotency-key")

    @property
    def stays(self) -> bool:
        """Return whether the program forbids that another model is asked in the place of one.

        :raises CallRefused: it says what is not known.
        """
        word = self._header(FALLBACK_HEADER).lower()
        if word not in ("", "none"):
            raise CallRefused(400, "REQUEST_UNREADABLE", "x-fencepost-fallback is `none`.")
        return word == "none"

    def digest(self, body_sha256: str) -> str:
        """Return what names the content of the request: where it goes, and its body."""
        return _sha256("\0".join([self.path, self.deployment, self.query, body_sha256]).encode())

    def _header(self, name: bytes) -> str:
        found = (value for each, value in self.headers if each == name)
        return next(found, b"").decode("latin-1").strip()

    def request_to(
        self, provider: Provider, client: httpx2.AsyncClient, body: bytes, *, model: str
    ) -> httpx2.Request:
        """Return the request as the provider gets it, with this body and the provider's key.

        :param model: the one that is asked; some providers have it in their address.

        :raises KeyMissing: the key cannot be read.
        """
        headers = passed_on(self.headers) + list(provider.headers().items())
        url = provider.url_of(self.path, query=self.query, model=model)
        return client.build_request("POST", url, headers=headers, content=body)


@dataclass(frozen=True)
class Outcome:
    """What one request to a provider came to."""

    routed: Routed
    end: End
    fall_back: bool = False
    forwarding: Forwarding | None = None
    refusal: CallRefused | None = None


class GovernedCall:
    """A call; `run` is its task. `answered` is set once the program has its answer, or none."""

    def __init__(
        self, incoming: Incoming, *, running: RunningAttempt, desk: Desk, links: Links, reply: Reply
    ) -> None:
        self._incoming = incoming
        self._running = running
        self._desk = desk
        self._links = links
        self._reply = reply
        self._forwarding: Forwarding | None = None
        self._provider: Provider | None = None
        self._wanted = ModelRequest(model=None)
        self._sha256 = ""
        #: Who keeps what the request goes on from, where that is known.
        self._origin: Origin | None = None
        self._made_by: Origin | None = None
        self._cut_by = ""
        #: Where its answer is kept, if it came with a key; and whether a provider was asked.
        self._kept: KeptAnswer | None = None
        self._reached = False
        self._stays = False
        self.answered = asyncio.Event()

    @property
    def gone(self) -> bool:
        """Return whether its program went away."""
        return self._reply.gone

    def cut(self, why: str) -> None:
        """Break it off now, wherever it is."""
        self._cut_by = self._cut_by or why
        if self._forwarding is not None:
            self._forwarding.cut(why)

    def leave(self) -> None:
        """Take its program for gone: what is streamed is cut where that ends what it costs."""
        if self._reply.finished:
            self._reply.release()
            return
        self._reply.gone = True
        self._running.bell.ring()
        if self._awaited:
            return
        if self._wanted.stream and self._provider and self._provider.on_disconnect == "cut":
            if self._forwarding is not None:
                self._forwarding.cut(CLIENT_LEFT)

    @property
    def _awaited(self) -> bool:
        """Return whether its program may come again for the answer, which is read to its end."""
        return self._kept is not None and not self._running.barred

    async def run(self) -> None:
        """Make the call, answer the program, and settle."""
        try:
            await self._governed()
        except ClientGone:
            log.debug("a program went away before its call was made")
        except CallRefused as refusal:
            await answer_refusal(self._reply, self._incoming.face, refusal)
        except GaveUp:
            log.warning("a model call is left to be booked at the next start")
        except Exception:
            # What breaks off without an answer is asked again by official clients.
            log.exception("a fault of the gateway; its call is booked at the end of the attempt")
            await answer_refusal(self._reply, self._incoming.face, _fault())
        finally:
            self._end_kept()
            self.answered.set()

    async def _governed(self) -> None:
        await self._read()
        if self._incoming.idempotency_key and not await self._is_first():
            return
        await self._running.enter(self)
        try:
            await self._chain()
        finally:
            self._running.exit(self)

    async def _read(self) -> None:
        incoming = self._incoming
        self._stays = incoming.stays
        try:
            self._wanted, self._sha256 = await self._links.over_body(
                incoming.body, lambda body: (read_request(incoming.endpoint, body), _sha256(body))
            )
        except RequestUnreadable as error:
            raise CallRefused(400, "REQUEST_UNREADABLE", str(error)) from error
        if self._wanted.previous:
            self._origin = self._origin_of(self._wanted.previous)
        if self._wanted.background:
            message = "An answer in the background is not governed: ask without `background`."
            raise CallRefused(403, refusals.NOT_GOVERNED, message)

    async def _is_first(self) -> bool:
        """Take the request's key; return False where its answer was given from what is kept.

        :raises CallRefused: the key is another request's, or the answer is not kept.
        :raises ClientGone: the program did not wait.
        """
        key, running = key_of(self._incoming.idempotency_key), self._running
        while True:
            kept, first = running.kept.take(key, self._incoming.digest(self._sha256))
            if first:
                self._kept = self._reply.record = kept
                return True
            await self._until_over(kept)
            if kept.over and not kept.free:
                await kept.replay(self._reply)
                return False
            self._check()

    async def _until_over(self, kept: KeptAnswer) -> None:
        running = self._running
        await running.bell.until(lambda: kept.over or self.gone or bool(running.barred))

    def _end_kept(self) -> None:
        if self._kept is not None:
            self._running.kept.end(self._kept, reached=self._reached)

    def _origin_of(self, response_id: str) -> Origin | None:
        """Return who made a response, or makes it: a program has its id before it is at its end."""
        known = self._links.origins.of(response_id)
        making = (
            call._made_by
            for call in self._running.open
            if isinstance(call, GovernedCall) and call._response_id == response_id
        )
        return known or next(making, None)

    @property
    def _response_id(self) -> str:
        return "" if self._forwarding is None else self._forwarding.response_id

    async def _chain(self) -> None:
        """Make the call with one model after the other, until one answers or none is left."""
        first: Outcome | None = None
        before: Routed | None = None
        while True:
            try:
                routed = await self._route(before)
            except CallRefused:
                if first is None:
                    raise
                # No other model: the program gets what the first one's provider said.
                await self._answer(first)
                return
            outcome = await self._attempt_safely(routed)
            if not self._may_fall_back(outcome):
                await self._answer(outcome if first is None or not outcome.refusal else first)
                self._end_kept()
                self.answered.set()
                await self._settle(outcome)
                return
            await self._settle(outcome)
            first, before = first or outcome, outcome.routed

    def _may_fall_back(self, outcome: Outcome) -> bool:
        passed = outcome.forwarding is not None and outcome.forwarding.passed
        over = self.gone or self._cut_by or self._running.barred
        stays = self._stays or self._wanted.by_reference
        return outcome.fall_back and not passed and not over and not stays

    # The route --------------------------------------------------------------------------------

    async def _route(self, before: Routed | None) -> Routed:
        """Return the decision for the call, waiting where a limit is free again soon.

        :raises CallRefused, ClientGone: it is not made.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + PLACE_SECONDS
        while True:
            try:
                return await self._routed_once(before)
            except Refused as error:
                problem = error.problem
                after = problem.after_seconds or 0.0
                soon = problem.reason == refusals.RATE_LIMITED and loop.time() + after < until
                if not soon:
                    self._running.books.refused(problem)
                    raise refusals.of_problem(problem) from error
            await self._running.bell.until(lambda: self.gone or bool(self._running.barred), after)
            self._check()

    async def _routed_once(self, before: Routed | None) -> Routed:
        needs = self._needs(before)
        async with self._running.routing:
            self._check()
            try:
                routed = await self._links.blocking(
                    self._desk.route, needs, lost_usage=self._lost_usage(None)
                )
            except StartRefused as error:
                self._note_start(error)
                raise _of_start(error.why) from error
            except (GaveUp, LeaseEnded) as error:
                raise CallRefused(503, refusals.UNREACHABLE, str(error)) from error
        self._running.books.routed()
        return routed

    def _note_start(self, error: StartRefused) -> None:
        books = self._running.books
        books.routed()
        books.booked(costs=False, usage=None)
        if isinstance(error.why, Refused):
            books.refused(error.why.problem)

    def _needs(self, before: Routed | None) -> dict[str, Any]:
        """Return what the route is asked for; contract, section 9."""
        wanted = self._wanted
        needs: dict[str, Any] = {
            "api": str(self._incoming.face),
            "request_sha256": self._sha256,
            "requirements": _requirements(wanted),
            "request_bytes": wanted.estimated_text_bytes,
        }
        if self._origin is not None:
            needs["wanted_model"] = self._origin.wanted(self._named, self._running.attempt.models)
        elif self._named:
            needs["wanted_model"] = self._named
        if wanted.max_output_tokens:
            needs["max_output_tokens"] = wanted.max_output_tokens * wanted.choices
        if before is not None:
            needs["fallback_of"] = before.route_request_id
        taken: dict[str, Any] = rules.mended(needs)[0]
        return taken

    @property
    def _named(self) -> str | None:
        """Return the model that the program names, in its address or in the body."""
        return self._incoming.deployment or self._wanted.model

    def _check(self) -> None:
        if self.gone:
            raise ClientGone
        self._running.check()

    # The provider -----------------------------------------------------------------------------

    async def _attempt_safely(self, routed: Routed) -> Outcome:
        """Make the call that was decided; a fault of ours leaves it unknown, and booked."""
        try:
            return await self._attempt(routed)
        except Exception:
            log.exception("a fault of the gateway in a call of %s", routed.model)
            refusal = _fault()
            usage = self._lost_usage(routed)
            end = End("settled", "estimate", dict(usage), error_code="GATEWAY_FAULT")
            return Outcome(routed, end, refusal=refusal)

    async def _attempt(self, routed: Routed) -> Outcome:
        """Make the call that was decided, once."""
        if self._origin is not None and routed.provider != self._origin.provider:
            message = f"What the request goes on from is kept by {self._origin.provider} alone."
            refusal = CallRefused(403, refusals.STATE_ELSEWHERE, message)
            return Outcome(routed, not_sent(refusals.STATE_ELSEWHERE), refusal=refusal)
        provider = self._links.providers.get(routed.provider)
        if provider is None or provider.api is not self._incoming.face:
            message = f"This worker has no provider {routed.provider} of this face."
            refusal = CallRefused(502, refusals.NOT_CONFIGURED, message)
            return Outcome(routed, not_sent(refusals.NOT_CONFIGURED), True, refusal=refusal)
        self._provider = provider
        try:
            request = await self._request(provider, routed)
        except KeyMissing as error:
            log.error("%s", error)
            self._running.books.provider_refused(ProviderRefusal(provider.name, routed.model, 401))
            message = f"The key of provider {provider.name} cannot be read."
            refusal = CallRefused(502, refusals.NOT_CONFIGURED, message)
            return Outcome(routed, not_sent("KEY_MISSING"), True, refusal=refusal)
        await self._links.blocking(
            self._running.journal.sent,
            routed.number,
            reservation_id=routed.reservation_id,
            lost_usage=self._lost_usage(routed),
            **self._key_mark(),
        )
        if self.gone or self._running.barred or too_late(routed):
            refusal = CallRefused(403, refusals.ATTEMPT_ENDED, "The time to begin was over.")
            return Outcome(routed, not_sent("NOT_BEGUN"), refusal=refusal)
        return await self._exchange(provider, routed, request)

    def _key_mark(self) -> dict[str, Any]:
        """Return what the journal keeps of the key: a later process makes no second call of it."""
        return {} if self._kept is None else {"key": [self._kept.key, self._kept.digest]}

    async def _exchange(
        self, provider: Provider, routed: Routed, request: httpx2.Request
    ) -> Outcome:
        endpoint, wanted = self._incoming.endpoint, self._wanted
        tap = Tap(
            endpoint,
            provider=provider.name,
            stream=wanted.stream,
            wanted_usage=wanted.include_usage,
        )
        forwarding = Forwarding(
            self._links.client(provider),
            request,
            endpoint=endpoint,
            stream=wanted.stream,
            reply=self._reply,
            tap=tap,
        )
        self._forwarding, self._made_by = forwarding, Origin(provider.name, routed.model)
        try:
            await forwarding.run()
        finally:
            self._reached = self._reached or forwarding.sent
        if not forwarding.sent:
            message = f"Provider {provider.name} was not reached."
            refusal = CallRefused(502, refusals.NOT_REACHED, message)
            return Outcome(routed, not_sent(refusals.NOT_REACHED), True, refusal=refusal)
        reading = forwarding.reading
        found = verdict(
            endpoint,
            forwarding.status,
            forwarding.head,
            reading,
            wanted=wanted,
            output_limit=self._limit(routed),
            cut=forwarding.cut_kind,
            model=routed.model,
        )
        self._note_refusal(provider, routed, forwarding)
        if endpoint is Endpoint.RESPONSES:
            self._links.origins.note(reading.response_id, self._made_by)
        if found.flags:
            log.info("a call of %s: %s", routed.model, ", ".join(found.flags))
        end = End(
            found.end,
            found.basis,
            found.usage,
            reading.response_id or None,
            found.error_code or None,
        )
        return Outcome(routed, end, found.fall_back, forwarding)

    def _note_refusal(self, provider: Provider, routed: Routed, forwarding: Forwarding) -> None:
        if forwarding.status in NOTED_STATUSES:
            log.warning("provider %s answered %s", provider.name, forwarding.status)
            self._running.books.provider_refused(
                ProviderRefusal(
                    provider.name, routed.model, forwarding.status, forwarding.retry_after
                )
            )

    async def _request(self, provider: Provider, routed: Routed) -> httpx2.Request:
        """Return the request as the provider gets it: the program's, but for what is set.

        :raises KeyMissing: the provider's key cannot be read.
        """
        incoming, wanted, limit = self._incoming, self._wanted, self._limit(routed)
        body = await self._links.over_body(
            incoming.body,
            lambda body: rewritten(
                incoming.endpoint,
                body,
                model=None if routed.model == wanted.model else routed.model,
                max_output_tokens=None if limit == wanted.max_output_tokens else limit,
                max_tokens_member=provider.max_tokens_member,
                include_usage=provider.include_usage or None,
            ),
        )
        return incoming.request_to(provider, self._links.client(provider), body, model=routed.model)

    def _limit(self, routed: Routed) -> int | None:
        """Return the limit of output that the request is sent with, for each choice."""
        stated, held = self._wanted.max_output_tokens, routed.max_output_tokens
        if held is None:
            return stated
        each = max(1, held // self._wanted.choices)
        return each if stated is None else min(stated, each)

    # The end ----------------------------------------------------------------------------------

    def _lost_usage(self, routed: Routed | None) -> dict[str, int]:
        """Return what the call is booked at where its answer is lost altogether."""
        wanted = self._wanted
        limit = wanted.max_output_tokens if routed is None else self._limit(routed)
        spends_output = self._incoming.endpoint is not Endpoint.EMBEDDINGS
        return {
            "input_tokens": max(1, -(-wanted.estimated_text_bytes // BYTES_PER_TOKEN)),
            "output_tokens": (limit or OUTPUT_TOKENS_LOST) * wanted.choices * spends_output,
        }

    async def _settle(self, outcome: Outcome) -> None:
        await self._links.blocking(self._desk.settle, outcome.routed, outcome.end)
        self._running.books.booked(costs=outcome.end.costs, usage=outcome.end.usage)

    async def _answer(self, outcome: Outcome) -> None:
        """Give the program what it has not got yet; whether it gets it changes no settlement."""
        try:
            await self._answer_by(outcome)
        except Exception:
            log.exception("an answer of %s could not be given on", outcome.routed.model)
            await answer_refusal(self._reply, self._incoming.face, _fault())

    async def _answer_by(self, outcome: Outcome) -> None:
        forwarding = outcome.forwarding
        if outcome.refusal is not None:
            await answer_refusal(self._reply, self._incoming.face, outcome.refusal)
        elif forwarding is None or forwarding.passed:
            return
        elif forwarding.status is None or not forwarding.whole:
            why = forwarding.cut_by
            status, reason = (403, refusals.ATTEMPT_ENDED) if why else (502, refusals.ANSWER_LOST)
            message = f"The call was cut: {why}." if why else "The provider gave no whole answer."
            await answer_refusal(
                self._reply, self._incoming.face, CallRefused(status, reason, message)
            )
        elif 300 <= forwarding.status < 400:
            message = "The provider answered with another address, which is not followed."
            await answer_refusal(
                self._reply,
                self._incoming.face,
                CallRefused(502, refusals.ANSWER_LOST, message),
            )
        elif forwarding.status >= 400:
            await forwarding.pass_back()
        else:
            await forwarding.finish_held()


async def answer_refusal(reply: Reply, face: Face, refusal: CallRefused) -> None:
    """Give the program a refusal in its provider's own shape; it is not to be repeated."""
    if reply.started or reply.gone:
        return
    status, named, body = error_answer(
        face,
        status=refusal.status,
        reason=refusal.reason,
        message=refusal.message,
        retry_after=refusal.after_seconds,
    )
    headers = [(name.encode(), value.encode("latin-1")) for name, value in named.items()]
    await reply.whole(status, headers, body)


def _fault() -> CallRefused:
    return CallRefused(502, "GATEWAY_FAULT", "A fault of the gateway; see its log.")


def _requirements(wanted: ModelRequest) -> list[str]:
    """Return the terms of the price, and what the request holds beside its text.

    Source: contract, section 6, "What a call is held at".
    """
    parts = {"images": wanted.images, "pages": wanted.pages, "audio_seconds": wanted.audio_seconds}
    counted = [f"{name}={min(count, PARTS_MAX)}" for name, count in parts.items() if count]
    if wanted.by_reference:
        counted.append(f"content={'at_provider' if wanted.at_provider else 'by_reference'}")
    return [*wanted.requirements, *counted]


def _of_start(why: Exception) -> CallRefused:
    if isinstance(why, Refused):
        return refusals.of_problem(why.problem)
    return CallRefused(403, refusals.ATTEMPT_ENDED, f"The attempt's start was not given: {why}")


def _sha256(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()
