"""What a lost process left open of an attempt's model calls is booked; nothing is called again."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fencepost_worker.client import ControlPlane, Problem, Refused
from fencepost_worker.gateway.attempts import Spent
from fencepost_worker.gateway.booking import End, not_sent, routed_of, settlement, tell
from fencepost_worker.gateway.marks import FILE_NAME, SENT, CallJournal, CallMarks
from fencepost_worker.gateway.running import Books

log = logging.getLogger("fencepost_worker")

LOST = "WORKER_LOST"


def recover(
    folder: Path,
    plane: ControlPlane,
    binding: dict[str, Any],
    *,
    wait: Callable[[float], bool],
) -> Spent:
    """Book every call that the journal in `folder` holds as open.

    One that was sent and whose end is not known is settled as an unknown call; one that was routed
    and not sent has failed at no cost; an end that was decided is told again under its key.

    :param binding: of the attempt, as its calls named it.
    :param wait: waits so many seconds; returns False when there is no use in going on.
    :raises GaveUp: `wait` said so; the rest is booked by the next recovery.
    """
    if not (folder / FILE_NAME).exists():
        return Spent()
    journal, books = CallJournal(folder), Books()
    try:
        for number, marks in sorted(journal.calls.items()):
            _book(journal, number, marks, books, plane=plane, binding=binding, wait=wait)
    finally:
        journal.close()
    return books.spent()


def _book(
    journal: CallJournal,
    number: int,
    marks: CallMarks,
    books: Books,
    *,
    plane: ControlPlane,
    binding: dict[str, Any],
    wait: Callable[[float], bool],
) -> None:
    """Book one call, if it is open; note it, if it came to anything."""
    call = marks.settlement
    if call is None and not marks.done:
        reservation_id, end = _end_of(number, marks, plane=plane, wait=wait)
        if reservation_id is None or end is None:
            journal.done(number)
            return
        call = settlement(reservation_id, end, binding=binding)
        journal.settled(number, call)
    if call is None:
        return
    if not marks.done:
        log.info("%s: a model call that was left open is booked", binding["task_id"])
        tell(journal, number, call, plane=plane, carry_on=wait)
    body = call.body or {}
    books.routed()
    books.booked(costs=body.get("cost_basis") != "none", usage=body.get("usage"))


def _end_of(
    number: int, marks: CallMarks, *, plane: ControlPlane, wait: Callable[[float], bool]
) -> tuple[str | None, End | None]:
    """Return the reservation of an open call and how it is to end; nothing where it has none."""
    if (sent := marks.marks.get(SENT)) is not None:
        usage = dict(marks.lost_usage)
        return sent["reservation_id"], End("settled", "estimate", usage, error_code=LOST)
    # Whether it got its route is not known: under its key the same question has the same answer.
    route = marks.route
    try:
        answer = plane.deliver(route, wait=wait)
    except Refused:
        return None, None
    routed = routed_of(number, str((route.body or {})["route_request_id"]), answer)
    if isinstance(routed, Problem):
        return None, None
    return routed.reservation_id, not_sent(LOST, started=routed.started)
