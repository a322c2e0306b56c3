from __future__ import annotations

import json
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from agents import guard


class Command(BaseCommand):
    help = "Say whether every expected worker is fresh. Exit code 1 when the fleet is degraded."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *, json: bool, **options: Any) -> None:
        seen = guard.look()
        if json:
            self.stdout.write(_text(seen))
        else:
            self.stdout.write(seen.state)
            for watch in seen.agents:
                age = (
                    "never heard of" if watch.age_seconds is None else f"{watch.age_seconds:.0f} s"
                )
                self.stdout.write(f"  {watch.agent}: {watch.freshness}, {age}{_lacking(watch)}")
                for each in watch.not_asking:
                    self.stdout.write(
                        f"    does not ask for {each.task_type} until {each.until}: {each.reason}"
                    )
            for row in seen.inhibits:
                until = row.ends_at or "it is lifted"
                self.stdout.write(f"  {row}, by {row.owner}, until {until}")
        if seen.state == guard.DEGRADED:
            sys.exit(1)


def _lacking(watch: guard.Watch) -> str:
    """Return how many workers are missing, and which have fallen silent."""
    if not (watch.expected and watch.workers_missing and watch.workers_expected > 1):
        return ""
    named = ", ".join(f"{each.name} silent for {each.age_seconds:.0f} s" for each in watch.silent)
    count = f", {watch.workers_fresh} of {watch.workers_expected} workers"
    return f"{count} ({named})" if named else count


def _text(seen: guard.Guard) -> str:
    shown = {
        "state": seen.state,
        "missing": [watch.agent for watch in seen.missing],
        "agents": [
            {
                "agent": watch.agent,
                "freshness": watch.freshness,
                "age_seconds": watch.age_seconds,
                "expected": watch.expected,
                "workers_fresh": watch.workers_fresh,
                "workers_expected": watch.workers_expected,
                "silent": [
                    {"worker": worker.name, "age_seconds": worker.age_seconds}
                    for worker in watch.silent
                ],
                "not_asking": [each._asdict() for each in watch.not_asking],
            }
            for watch in seen.agents
        ],
        "inhibits": [
            {"inhibit_id": row.pk, "reason": row.reason, "owner": row.owner, "ends_at": row.ends_at}
            for row in seen.inhibits
        ],
    }
    return json.dumps(shown, default=str)
