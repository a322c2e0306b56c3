"""End what has run out, again and again; prune, seal and take newer prices from time to time."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import structlog
from django.core.management.base import BaseCommand, CommandParser
from django.db import InterfaceError, OperationalError, connection

from governance.console import activity, runs
from governance.evidence import checkpoints
from governance.money import catalogue, rollups, room
from governance.relay import pulse, retention
from jobs import executions, metrics, transitions
from jobs.models import Attempt
from jobs.transitions.sweeping import ACTOR
from jobs.waiting import SWEEPER

log = structlog.get_logger(__name__)

INTERVAL_SECONDS = 2.0
PRUNE_SECONDS = 3600.0
SEAL_SECONDS = 60.0
PRICES_SECONDS = 86_400.0
#: Batches of each kind that one round prunes; more is left to the next.
PRUNE_ROUNDS_MAX = 100
AWAY_SECONDS_MAX = 30.0


class Command(BaseCommand):
    help = (
        "End leases, attempts, queue waits and jobs whose time has run out; drop what is past "
        "its retention; seal the audit trail; take newer published prices. Any number may run. "
        "SIGTERM finishes the batch."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--once", action="store_true", help="one round of everything, then end")
        parser.add_argument("--interval", type=float, default=INTERVAL_SECONDS, help="seconds")
        parser.add_argument("--batch-size", type=int, default=transitions.sweeping.SWEEP_LIMIT)
        parser.add_argument(
            "--seal-interval", type=float, default=SEAL_SECONDS, help="seconds; 0: never"
        )
        parser.add_argument(
            "--prune-interval", type=float, default=PRUNE_SECONDS, help="seconds; 0: never"
        )
        parser.add_argument(
            "--prices-interval",
            type=float,
            default=PRICES_SECONDS,
            help="seconds between looks at the installed price list; 0: never",
        )
        parser.add_argument("--json", action="store_true", help="with --once: print the counts")

    def handle(self, **options: Any) -> None:
        self.stop = threading.Event()
        self.failures = transitions.Failures()
        self.untold = transitions.Failures()
        self.broken: set[str] = set()
        self.options = options
        if options["once"]:
            self._once()
        else:
            self._run()

    def _once(self) -> None:
        ended, failed = self._sweep()
        room.drop_ended()
        self._tell_doubts()
        self._serve_console()
        rollups.count_if_due()
        pruned = retention.prune() if self.options["prune_interval"] else retention.Pruned()
        sealed = self._seal() if self.options["seal_interval"] else 0
        if self.options["prices_interval"]:
            self._take_prices()
        if self.options["json"]:
            counts = {"ended": ended, "failed": failed, "pruned": vars(pruned), "sealed": sealed}
            self.stdout.write(json.dumps(counts))
        else:
            total = sum(ended.values())
            self.stdout.write(
                self.style.SUCCESS(f"{total} ended, {pruned} removed, {sealed} checkpoints.")
            )
        if failed:
            raise SystemExit(f"{len(failed)} jobs could not be handled: {', '.join(failed)}")

    def _run(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self.stop.set())
        self._retry_set_aside()
        self.stdout.write("Sweeping.")
        self._due = {"prune": 0.0, "seal": 0.0, "prices": 0.0}
        failures = 0
        while not self.stop.is_set():
            try:
                self._round()
                failures = 0
                self.stop.wait(self.options["interval"])
            except (OperationalError, InterfaceError) as error:
                failures += 1
                log.warning("sweep.database_away", error=str(error))
                connection.close()
                self.stop.wait(min(AWAY_SECONDS_MAX, 2.0 ** min(failures, 10)))
        self.stdout.write("Stopped.")

    def _retry_set_aside(self) -> None:
        """Try what is set aside again: a new release may read what the last one could not."""
        try:
            transitions.retry_all_set_aside(actor=ACTOR, reason="The sweeper was started.")
        except (OperationalError, InterfaceError) as error:
            log.warning("sweep.database_away", error=str(error))
            connection.close()

    def _round(self) -> None:
        self._sweep()
        self._do("room", room.drop_ended)
        self._do("doubts", self._tell_doubts)
        self._do("console", self._serve_console)
        self._do("spend", rollups.count_if_due)
        if self._is_due("prune") and not self.stop.is_set():
            self._do("prune", self._prune)
        if self._is_due("seal") and not self.stop.is_set():
            self._do("seal", self._seal)
        if self._is_due("prices") and not self.stop.is_set():
            self._do("prices", self._take_prices)

    def _do(self, chore: str, run: Callable[[], Any]) -> None:
        """Do a chore; one that fails is told of, and ends neither the round nor the process."""
        try:
            run()
            self.broken.discard(chore)
        except Exception:
            if not connection.is_usable():
                raise
            log.exception("sweep.chore_failed", chore=chore)
            self.broken.add(chore)

    def _prune(self) -> None:
        retention.prune(rounds_max=PRUNE_ROUNDS_MAX)
        activity.forget_minutes()

    def _is_due(self, chore: str) -> bool:
        interval = self.options[f"{chore}_interval"]
        if not interval or time.monotonic() < self._due[chore]:
            return False
        self._due[chore] = time.monotonic() + interval
        return True

    def _sweep(self) -> tuple[dict[str, int], dict[str, str]]:
        """Sweep until a batch is not full; a row that fails is left out, named and told."""
        ended: dict[str, int] = {}
        failed: dict[str, str] = {}
        limit = self.options["batch_size"]
        while not self.stop.is_set():
            report = transitions.sweep(limit=limit, failures=self.failures)
            failed |= report.failed
            for what, count in report.ended.items():
                ended[what] = ended.get(what, 0) + count
            metrics.EXPIRIES.inc(report.ended.get(Attempt.Outcome.LEASE_EXPIRED, 0))
            if report.total:
                counts = ", ".join(f"{count} {what}" for what, count in report.ended.items())
                self.stdout.write(f"ended: {counts}")
            # A batch without either has met only rows that others hold.
            if report.found < limit or not (report.total or report.failed):
                break
        pulse.beat(
            SWEEPER,
            ended=sum(ended.values()),
            failures=self.failures.as_json(),
            chores=sorted(self.broken),
        )
        return ended, failed

    def _tell_doubts(self) -> None:
        count = executions.tell_aged(failures=self.untold)
        if count:
            log.info("reservations.in_doubt_aged", count=count)

    def _serve_console(self) -> None:
        """Go on with an operator's run that nobody watches; count what the charts show."""
        runs.advance_abandoned()
        activity.count_minutes()

    def _seal(self) -> int:
        sealed = 0
        while not self.stop.is_set() and (row := checkpoints.seal()):
            sealed += 1
            log.info("audit.sealed", number=row.number, chains=row.leaf_count)
        return sealed

    def _take_prices(self) -> None:
        """Follow the installed price list, where a newer one came with an upgrade."""
        taken = catalogue.take_newer_list(
            actor="system:sweeper", reason="a newer genai-prices is installed"
        )
        if taken is not None:
            log.info("prices.taken", priced=len(taken.priced), unknown=len(taken.unknown))
