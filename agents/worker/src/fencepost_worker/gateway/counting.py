"""Counts of tokens: asked of the provider, and passed on; they cost nothing and reserve nothing."""

import asyncio

import httpx2

from fencepost_worker.gateway import refusals
from fencepost_worker.gateway.booking import Desk
from fencepost_worker.gateway.calls import Incoming, answer_refusal
from fencepost_worker.gateway.catalogue import Catalogue
from fencepost_worker.gateway.faces import RequestUnreadable, read_request, rewritten
from fencepost_worker.gateway.forwarding import Forwarding
from fencepost_worker.gateway.links import Links
from fencepost_worker.gateway.providers import KeyMissing
from fencepost_worker.gateway.refusals import CallRefused
from fencepost_worker.gateway.running import RunningAttempt
from fencepost_worker.gateway.tap import Tap
from fencepost_worker.gateway.wire import Reply


class CountTokens:
    """A request for a count; as `GovernedCall`, and without route and settlement."""

    def __init__(
        self, incoming: Incoming, *, running: RunningAttempt, desk: Desk, links: Links, reply: Reply
    ) -> None:
        self._incoming = incoming
        self._running = running
        self._links = links
        self._reply = reply
        self._forwarding: Forwarding | None = None
        self.answered = asyncio.Event()

    @property
    def gone(self) -> bool:
        """Return whether its program went away."""
        return self._reply.gone

    def cut(self, why: str) -> None:
        """Break it off now."""
        if self._forwarding is not None:
            self._forwarding.cut(why)

    def leave(self) -> None:
        """Take its program for gone, and stop."""
        if not self._reply.finished:
            self._reply.gone = True
            self.cut("the program went away")

    async def run(self) -> None:
        """Ask the provider, and pass its answer on."""
        self._running.open_counts.add(self)
        try:
            self._running.check()
            way = await self._request()
            # What happened meanwhile had no request to cut.
            self._running.check()
            if not self.gone:
                await self._passed_on(*way)
        except CallRefused as refusal:
            await answer_refusal(self._reply, self._incoming.face, refusal)
        finally:
            self._running.open_counts.discard(self)
            self.answered.set()

    async def _request(self) -> tuple[httpx2.AsyncClient, httpx2.Request]:
        incoming = self._incoming
        catalogue = Catalogue(self._running.attempt.models, self._links.providers)
        try:
            wanted = await self._links.over_body(
                incoming.body, lambda body: read_request(incoming.endpoint, body)
            )
            served = catalogue.provider_of(wanted.model, incoming.face)
            provider = None if served is None else self._links.providers.get(served[1])
            if served is None or provider is None:
                message = "The policy allows no model of this face."
                raise CallRefused(403, "MODEL_NOT_ALLOWED", message)
            model = None if served[0] == wanted.model else served[0]
            body = await self._links.over_body(
                incoming.body, lambda body: rewritten(incoming.endpoint, body, model=model)
            )
            client = self._links.client(provider)
            return client, incoming.request_to(provider, client, body, model=served[0])
        except RequestUnreadable as error:
            raise CallRefused(400, "REQUEST_UNREADABLE", str(error)) from error
        except KeyMissing as error:
            message = "The provider's key cannot be read."
            raise CallRefused(502, refusals.NOT_CONFIGURED, message) from error

    async def _passed_on(self, client: httpx2.AsyncClient, request: httpx2.Request) -> None:
        endpoint = self._incoming.endpoint
        tap = Tap(endpoint, provider="", stream=False, wanted_usage=True)
        forwarding = self._forwarding = Forwarding(
            client, request, endpoint=endpoint, stream=False, reply=self._reply, tap=tap
        )
        await forwarding.run()
        if forwarding.passed:
            return
        if forwarding.status is None or not forwarding.whole:
            raise CallRefused(502, refusals.NOT_REACHED, "The provider gave no whole answer.")
        if forwarding.status >= 300:
            await forwarding.pass_back()
        else:
            await forwarding.finish_held()
