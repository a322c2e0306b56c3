"""A process with a gateway that makes one call and kills itself at a point of it.

Arguments: a JSON document with `plane`, `openai`, `folder`, `claim`, `point`.
"""

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2

from fencepost_worker.claim import Claim
from fencepost_worker.client import ControlPlane, Session
from fencepost_worker.gateway.marks import CallJournal
from fencepost_worker.gateway.providers import providers_of
from fencepost_worker.gateway.server import Gateway
from tests.worker.gateway.attempts import attempt_of

#: By the name of a point, what is left at once: whose method, and whether it was carried out.
POINTS: dict[str, tuple[Any, str, bool]] = {
    "before it is open": (CallJournal, "begin", False),
    "open": (CallJournal, "begin", True),
    "routed": (ControlPlane, "deliver", True),
    "sent": (CallJournal, "sent", True),
    "answered": (CallJournal, "settled", False),
    "settled": (CallJournal, "settled", True),
    "told": (ControlPlane, "report", True),
    "done": (CallJournal, "done", True),
}


def die_at(point: str) -> None:
    """Let this process be killed at the point; at none of them it lives on."""
    if point not in POINTS:
        return
    owner, name, carried_out = POINTS[point]
    carry_out: Callable[..., Any] = getattr(owner, name)

    def last(*args: Any, **kwargs: Any) -> Any:
        if carried_out:
            carry_out(*args, **kwargs)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(owner, name, last)


def main() -> None:
    """Make the call."""
    told = json.loads(sys.argv[1])
    claim = Claim.from_document(told["claim"])
    plane = ControlPlane(
        url=told["plane"], session=Session(worker_id="hermes@test", token=told["token"])
    )
    attempt = attempt_of(claim, Path(told["folder"]))
    providers = providers_of({"openai": {"api": "openai", "base_url": told["openai"]}})
    gateway = Gateway(plane, providers)
    gateway.start()
    admitted = gateway.admit(attempt)
    die_at(told["point"])
    asked = {"model": "large", "messages": [{"role": "user", "content": "Hello?"}]}
    asked |= {"max_tokens": 30, "stream": told["stream"]}
    httpx2.post(
        f"{gateway.address}/v1/chat/completions",
        headers={"authorization": f"Bearer {admitted.key}"},
        json=asked,
        timeout=30,
        trust_env=False,
    )
    admitted.end("done")


if __name__ == "__main__":
    main()
