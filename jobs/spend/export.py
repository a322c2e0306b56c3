"""Spend as a file: what it is written of, and that it appears whole or not at all."""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import closing
from datetime import date
from pathlib import Path
from typing import Any

from governance.console.exports import FORMULA_STARTS
from governance.money.pricing import NAMED, text_of
from governance.money.published import COUNTERS
from jobs.spend import focus
from jobs.spend.rows import read_rows

#: One row for each that was booked, as it is in the books: a call, a use, a correction.
PLAIN = (
    "resolved_at", "reserved_at", "reservation_id", "task_id", "job_id", "attempt", "call",
    "submitted_by", "labels", "agent", "job_type", "provider", "model", "price_version",
    "ended_as", "cost_basis", "flags", "currency", "held", "cost", *COUNTERS, *NAMED,
    "provider_response_id", "use_id", "adjustment_id",
)  # fmt: skip
NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?")
COLUMNS = {"focus": focus.COLUMNS, "csv": PLAIN}


def write_spend(*, path: Path, form: str, since: date, until: date, account: str) -> int:
    """Write what was booked on the days of a range to a file, and return how many rows.

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
            with closing(read_rows(since=since, until=until)) as found:
                for booked in found:
                    for row in _rows(booked, form, account):
                        writer.writerow({name: _harmless(text) for name, text in row.items()})
                        count += 1
            out.flush()
            os.fsync(out.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return count


def _rows(booked: Mapping[str, Any], form: str, account: str) -> Iterator[dict[str, str]]:
    if form == "focus":
        yield from focus.focus_rows(booked, account=account)
    else:
        yield _plain(booked)


def _plain(booked: Mapping[str, Any]) -> dict[str, str]:
    held, reserved_at = booked["held"], booked["reserved_at"]
    worded = {
        "flags": " ".join(booked["flags"]),
        "labels": json.dumps(booked["labels"], ensure_ascii=False, sort_keys=True),
        "held": "" if held is None else text_of(held),
        "cost": text_of(booked["cost"]),
        "resolved_at": booked["resolved_at"].isoformat(),
        "reserved_at": "" if reserved_at is None else reserved_at.isoformat(),
    }
    others = {name: booked[name] for name in PLAIN if name not in worded}
    return worded | {name: "" if value is None else str(value) for name, value in others.items()}


def _harmless(text: str) -> str:
    """Return a text that a spreadsheet does not run as a formula. A number is none."""
    harmful = text.startswith(FORMULA_STARTS) and not NUMBER.fullmatch(text)
    return f"'{text}" if harmful else text
