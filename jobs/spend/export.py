"""Spend as a file: what it is written of, and that it appears whole or not at all."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Any

from governance.console.exports import FORMULA_STARTS
from governance.money.pricing import NAMED, text_of
from governance.money.published import COUNTERS
from jobs.spend import focus
from jobs.spend.rows import flags_of, read_calls

#: One row a call, as it is in the books.
PLAIN = (
    "resolved_at", "reserved_at", "reservation_id", "task_id", "job_id", "attempt", "call",
    "submitted_by", "labels", "agent", "job_type", "provider", "model", "price_version",
    "ended_as", "cost_basis", "flags", "currency", "held", "cost", *COUNTERS, *NAMED,
    "provider_response_id",
)  # fmt: skip
COLUMNS = {"focus": focus.COLUMNS, "csv": PLAIN}


def write_spend(*, path: Path, form: str, since: date, until: date, account: str) -> int:
    """Write the calls that ended on the days of a range to a file, and return how many rows.

    The file is written beside its place and renamed once it is whole and on the disk.

    :param form: a key of `COLUMNS`. :param account: as of `focus.focus_rows`.
    :raises OSError: the file cannot be written; what stood there stays.
    """
    part = path.with_name(path.name + ".part")
    count = 0
    try:
        with part.open("w", encoding="utf-8", newline="") as out:
            writer = csv.DictWriter(out, COLUMNS[form])
            writer.writeheader()
            for call in read_calls(since=since, until=until):
                for row in _rows(call, form, account):
                    writer.writerow({name: _harmless(text) for name, text in row.items()})
                    count += 1
            out.flush()
            os.fsync(out.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return count


def _rows(call: Mapping[str, Any], form: str, account: str) -> Iterator[dict[str, str]]:
    if form == "focus":
        yield from focus.focus_rows(call, account=account)
    else:
        yield _plain(call)


def _plain(call: Mapping[str, Any]) -> dict[str, str]:
    worded = {
        "flags": " ".join(flags_of(call)),
        "labels": json.dumps(call["labels"], ensure_ascii=False, sort_keys=True),
        "held": text_of(call["held"]),
        "cost": text_of(call["cost"]),
        "resolved_at": call["resolved_at"].isoformat(),
        "reserved_at": call["reserved_at"].isoformat(),
    }
    others = {name: call[name] for name in PLAIN if name not in worded}
    return worded | {name: "" if value is None else str(value) for name, value in others.items()}


def _harmless(text: str) -> str:
    """Return a text that a spreadsheet does not run as a formula. No amount here is negative."""
    return f"'{text}" if text.startswith(FORMULA_STARTS) else text
