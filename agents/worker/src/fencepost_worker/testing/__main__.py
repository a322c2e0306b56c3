"""Runs a stand-in provider until it is interrupted: `python -m fencepost_worker.testing`."""

from __future__ import annotations

import argparse
import signal
import threading
from collections.abc import Sequence

from fencepost_worker.testing.answers import Answer
from fencepost_worker.testing.provider import StandInProvider


def main(arguments: Sequence[str] | None = None) -> int:
    """Listen, print the addresses, and return 0 after SIGINT or SIGTERM; 1 if the port is taken."""
    parser = argparse.ArgumentParser(
        prog="python -m fencepost_worker.testing",
        description="A provider of models that stands in for a real one, on loopback.",
    )
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 (default) takes a free one")
    parser.add_argument("--key", help="the one key that it accepts; any without it")
    parser.add_argument(
        "--refuse", type=int, default=0, metavar="N", help="answer the first N calls with 503"
    )
    options = parser.parse_args(arguments)
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    provider = StandInProvider(host=options.host, port=options.port, key=options.key)
    refusal = Answer.error(503, "overloaded_error", "The stand-in was told to refuse this call.")
    provider.script(*[refusal] * options.refuse)
    try:
        provider.start()
    except OSError as error:
        print(f"cannot listen on {options.host}:{options.port}: {error}")
        return 1
    print(f"OPENAI_BASE_URL={provider.base_url_openai}")
    print(f"ANTHROPIC_BASE_URL={provider.base_url_anthropic}", flush=True)
    stopped.wait()
    provider.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
