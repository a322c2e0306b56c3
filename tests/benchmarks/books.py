"""How long `verify_ledger` takes over many calls, and how much memory of this process, as JSON.

`python -m tests.benchmarks.books --calls 1000000`.  Each call is a decision, a reservation and its
end, with the events of both, on a throwaway server; every value is the one that its event states,
no two neighbours have the same counts, and of every thousandth the library computes the price.
Ends with 1 where the books differ, or where it takes longer than two minutes per million rows.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import time
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from tests.benchmarks import throwaway_server

SECONDS_PER_MILLION_MAX = 120
ACT = {"actor": "command:bench", "reason": "Measured."}
ID = "('018f0000-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid"
FILL = f"""
INSERT INTO governance_routedecision (decision_id, route_request_id, external_request_id, call,
       task_id, job_id, attempt, fencing_token, agent, job_type, risk_tier, runtime,
       estimated_input_tokens, max_output_tokens, requirements, content_sha256, decision, reason,
       policy_id, position, model_id, price_id, price_version, considered, decided_at)
SELECT {ID}, 'xr_' || n || ':model', 'xr_' || n, 1, 'task-' || n, {ID}, 1, 1, 'hermes',
       'content_prep', 'low', 'command', 1000, 1000,
       CASE n %% 1000 WHEN 0 THEN '["service_tier=default"]' ELSE '[]' END::jsonb,
       repeat('ab', 32), 'issued', '', y.id, 1, m.id, p.id, p.version, '[]', now()
  FROM generate_series(1, %(calls)s) n, governance_routepolicy y, governance_languagemodel m
  JOIN governance_price p ON p.model_id = m.id;
INSERT INTO governance_reservation (reservation_id, decision_id, route_request_id,
       external_request_id, task_id, job_id, attempt, fencing_token, agent, amount, currency,
       state, reserved_at)
SELECT decision_id, decision_id, route_request_id, external_request_id, task_id, job_id, 1, 1,
       agent, 0.003, 'USD', 'held', decided_at FROM governance_routedecision;
INSERT INTO governance_resolution (reservation_id, ended_as, cost, cost_basis, input_tokens,
       cached_input_tokens, output_tokens, reasoning_tokens, overrun, usage_missing,
       provider_response_id, error_code, content_sha256, resolved_by, reason, resolved_at)
SELECT reservation_id, 'settled', (i + 2 * o) / 1000000.0, 'usage', i, i / 3, o, o / 2, false,
       false, '', '', repeat('cd', 32), 'agent:hermes', '', now()
  FROM governance_reservation, LATERAL (SELECT substr(external_request_id, 4)::int AS n) c,
       LATERAL (SELECT 1 + n %% 997 AS i, n %% 991 AS o) u;
UPDATE governance_reservation SET state = 'settled';
"""
EVENTS = """
INSERT INTO governance_auditevent (subject, seq, at, action, actor, reason, request_id, body,
       prev_hash, hash)
SELECT subject, {seq}, now(), '{action}', 'agent:hermes', '', '', convert_to((
       jsonb_build_object('subject', subject, 'seq', {seq}, 'action', '{action}', 'reason', '',
       'actor', 'agent:hermes', 'details', row || jsonb_build_object('{key}', id)))::text, 'UTF8'),
       '', ''
  FROM ({rows}) r;
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=1_000_000)
    calls = parser.parse_args().calls
    os.environ["DJANGO_SETTINGS_MODULE"] = "governance.settings"
    os.environ["FENCEPOST_LOG_LEVEL"] = "ERROR"
    os.environ.pop("DATABASE_URL", None)
    with throwaway_server():
        found = _measured(calls)
    print(json.dumps(found, indent=2))
    seconds = found["counters_seconds"] + found["events_seconds"]
    slow = seconds > SECONDS_PER_MILLION_MAX * found["rows"] / 1_000_000
    return 1 if found["differences"] or slow else 0


def _measured(calls: int) -> dict[str, Any]:
    import django
    from django.core.management import call_command

    django.setup()
    call_command("migrate", verbosity=0)
    from governance.money import ledger, proofs

    _fill(calls)
    counters, differing = _timed(ledger.verify())
    events, others = _timed(proofs.verify())
    return {
        "calls": calls,
        "rows": 2 * calls,
        "counters_seconds": round(counters, 1),
        "events_seconds": round(events, 1),
        "differences": differing + others,
        "memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def _fill(calls: int) -> None:
    from django.db import connection

    from governance.money import catalogue, proofs
    from governance.money.pricing import RateSet

    catalogue.set_model(provider="local", name="stand-in", **ACT)
    rates = [RateSet(0, Decimal(1), Decimal(2))]
    catalogue.set_price(provider="local", name="stand-in", rates=rates, **ACT)
    catalogue.set_policy(models=[("local", "stand-in")], **ACT)
    decided, ended = proofs.CALLS
    with connection.cursor() as cursor:
        cursor.execute("SET statement_timeout = 0")
        cursor.execute(FILL % {"calls": calls})
        for seq, compared in ((1, decided), (2, ended)):
            action = compared.actions[0]
            rows = compared.rows
            cursor.execute(EVENTS.format(seq=seq, action=action, key=compared.key, rows=rows))
        cursor.execute("ANALYZE")


def _timed(differences: Iterable[object]) -> tuple[float, int]:
    started = time.monotonic()
    count = sum(1 for _ in differences)
    return time.monotonic() - started, count


if __name__ == "__main__":
    sys.exit(main())
