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
                self.stdout.write(f"  {watch.agent}: {watch.freshness}, {age}")
            for row in seen.inhibits:
                until = row.ends_at or "it is lifted"
                self.stdout.write(f"  {row}, by {row.owner}, until {until}")
        if seen.state == guard.DEGRADED:
            sys.exit(1)


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
            }
            for watch in seen.agents
        ],
        "inhibits": [
            {"inhibit_id": row.pk, "reason": row.reason, "owner": row.owner, "ends_at": row.ends_at}
            for row in seen.inhibits
        ],
    }
    return json.dumps(shown, default=str)
