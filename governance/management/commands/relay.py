"""Bring waiting facts to the configured sinks."""

from __future__ import annotations

import signal
import threading
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connection

from governance.core import audit
from governance.core.errors import InvalidArgument, NotFound
from governance.relay import relay
from governance.relay.sinks import Destination, SinkAway, configured

THREADS_MAX = 16


class Command(BaseCommand):
    help = (
        "Relay facts to RabbitMQ (BROKER_URL) and to a webhook (WEBHOOK_URL). Any number may "
        "run. Stops on SIGTERM after the message that is under way."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--sink", help="only this sink")
        parser.add_argument("--threads", type=int, default=1, help="threads per sink")
        parser.add_argument("--tries-max", type=int, default=relay.TRIES_MAX)
        parser.add_argument("--once", action="store_true", help="relay what waits, then end")
        parser.add_argument("--release", metavar="STREAM", help="try a parked stream again")
        parser.add_argument(
            "--release-all", action="store_true", help="try all streams that are held again"
        )
        parser.add_argument("--reason", default="", help="why a stream is released")
        parser.add_argument("--actor", default="", help="who releases it")

    def handle(self, *, sink: str | None, threads: int, **options: Any) -> None:
        destinations = [found for found in configured() if sink in (None, found.name)]
        if not destinations:
            raise CommandError("No sink is configured (BROKER_URL, WEBHOOK_URL): facts wait.")
        if options["release"]:
            self._release(destinations, **options)
        elif options["release_all"]:
            self._release_all(destinations, **options)
        elif options["once"]:
            self._once(destinations, options["tries_max"])
        else:
            self._run(destinations, min(max(threads, 1), THREADS_MAX), options["tries_max"])

    def _release(self, destinations: list[Destination], **options: Any) -> None:
        stream, released = options["release"], 0
        for destination in destinations:
            try:
                with audit.at_a_shell(options["actor"]) as actor:
                    relay.release(
                        sink=destination.name,
                        stream=stream,
                        actor=actor,
                        reason=options["reason"],
                    )
            except NotFound:
                # Another sink may hold it.
                continue
            except InvalidArgument as refused:
                raise CommandError(refused.detail) from refused
            released += 1
            self.stdout.write(f"{stream} goes to {destination.name} again.")
        if not released:
            raise CommandError(f"No sink holds {stream}.")

    def _release_all(self, destinations: list[Destination], **options: Any) -> None:
        released = 0
        for destination in destinations:
            try:
                with audit.at_a_shell(options["actor"]) as actor:
                    streams = relay.release_all(
                        sink=destination.name, actor=actor, reason=options["reason"]
                    )
            except NotFound:
                continue
            except InvalidArgument as refused:
                raise CommandError(refused.detail) from refused
            released += streams
            self.stdout.write(f"{streams} streams go to {destination.name} again.")
        if not released:
            raise CommandError("No sink holds a stream.")

    def _once(self, destinations: list[Destination], tries_max: int) -> None:
        relay.settle()
        for destination in destinations:
            runner = relay.Relay(destination, tries_max=tries_max)
            moved = 0
            try:
                while batch := runner.relay_pass():
                    moved += batch
            except SinkAway as error:
                raise CommandError(f"{destination.name} is away: {error}") from error
            finally:
                runner.close()
            self.stdout.write(self.style.SUCCESS(f"{moved} facts to {destination.name}."))

    def _run(self, destinations: list[Destination], threads: int, tries_max: int) -> None:
        stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        running = [
            threading.Thread(
                target=_relay_on_thread, args=(destination, stop, tries_max), name=destination.name
            )
            for destination in destinations
            for _ in range(threads)
        ]
        for thread in running:
            thread.start()
        names = ", ".join(f"{found.name} at {found.address}" for found in destinations)
        self.stdout.write(f"Relaying to {names}.")
        for thread in running:
            thread.join()
        self.stdout.write("Stopped.")


def _relay_on_thread(destination: Destination, stop: threading.Event, tries_max: int) -> None:
    try:
        relay.Relay(destination, stop=stop, tries_max=tries_max).run()
    finally:
        # One thread that ends by a defect ends the process: whoever supervises it starts anew.
        stop.set()
        connection.close()
