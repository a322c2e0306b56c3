"""The relay: brings waiting facts to the sinks, each stream in its order, none lost.

A fact is marked after its confirm.  Between the two it may be sent again, with the same id; it is
never skipped, and no fact overtakes an earlier one of its stream.  Streams are spread over
partitions, and whoever works on a partition holds its advisory lock, which dies with the
connection: many relays may run, and a killed one is in nobody's way.  No transaction is open
while something is sent.

A sink that gives no answer to a fact may be away, or this fact be at fault; so another stream's is
tried.  Where that is answered, the silence counts as a try of the fact that met it; where it is
not, the sink is away and nothing counts.  What met silence is tried after all else, so that it
holds up no other stream.  (The lock belongs to the session, so the relay connects to PostgreSQL
directly and not through a pooler in transaction mode.)
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import structlog
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent
from django.db import InterfaceError, OperationalError, connection, transaction

from governance.core import audit, clock, sql
from governance.core.errors import NotFound
from governance.core.fields import INSTANT_LAST, INSTANT_MIN
from governance.core.isolation import in_any_case, of_a_row
from governance.core.reasons import required
from governance.relay import pulse
from governance.relay.models import FactSink, StreamHold
from governance.relay.sinks import (
    Destination,
    FactRefused,
    Message,
    Sink,
    SinkAway,
    SinkSilent,
    configured,
)

log = structlog.get_logger(__name__)

#: Class of the advisory locks on (sink, partition); see the locking page.
LOCK_CLASS = 4
PARTITIONS = 16
FACTS_PER_BATCH = 500
#: Facts are marked at the latest after so many confirms: as many may be sent twice after a kill.
CONFIRMS_PER_MARK = 50
FACTS_LOOKED_AT_MAX = 10_000
TRIES_MAX = 12
RETRY_BASE_SECONDS = 1.0
RETRY_CAP_SECONDS = 600.0
AWAY_CAP_SECONDS = 30.0
#: So many streams in a row without an answer, and the sink is taken to be away.
SILENT_IN_A_ROW = 2
#: Streams that are remembered as such; of a sink that is silent for days it is every one.
SILENT_REMEMBERED_MAX = 1000
IDLE_MIN_SECONDS, IDLE_MAX_SECONDS = 0.05, 1.0
PULSE_SECONDS = 5.0
PULSE_PREFIX = "relay:"
ACTOR = "system:relay"

# What waits for the sink, without what its streams hold back. No lock. Index: fact_waiting_idx.
_WAITING = """
  FROM governance_fact f
  LEFT JOIN governance_streamhold h ON h.sink = %(sink)s AND h.stream = f.stream
 WHERE f.published_at IS NULL AND f.relayed AND NOT f.delivered_to ? %(sink)s
   AND (h.id IS NULL OR (h.parked_at IS NULL AND h.next_try_at <= clock_timestamp()))
"""
DUE_PARTITIONS = f"""
SELECT DISTINCT partition FROM (
    SELECT hashtext(f.stream) & {PARTITIONS - 1} AS partition {_WAITING}
     ORDER BY f.id LIMIT {FACTS_LOOKED_AT_MAX}) AS due
"""
BATCH = f"""
SELECT f.id, f.fact_id, f.principal, f.stream, f.sequence, f.type, f.data, f.receipt_id,
       f.recorded_at, h.fact_id AS held_fact, coalesce(h.tries, 0) AS tries {_WAITING}
   AND hashtext(f.stream) & {PARTITIONS - 1} = %(partition)s
 ORDER BY f.id LIMIT {FACTS_PER_BATCH}
"""
STILL_WAITS = f"SELECT coalesce(h.tries, 0) AS tries {_WAITING} AND f.id = %(id)s"
# Locks: the facts that it marks. Published once every configured sink has confirmed.
MARK = """
UPDATE governance_fact
   SET delivered_to = delivered_to || to_jsonb(%(sink)s::text),
       published_at = CASE WHEN (delivered_to || to_jsonb(%(sink)s::text)) @> %(sinks)s::jsonb
                           THEN clock_timestamp() END
 WHERE id = ANY(%(ids)s) AND published_at IS NULL AND NOT delivered_to ? %(sink)s
"""
# Facts that waited only for a sink that is no longer configured.
SETTLE = """
UPDATE governance_fact SET published_at = clock_timestamp()
 WHERE published_at IS NULL AND relayed AND delivered_to @> %(sinks)s::jsonb
"""
# No lock. Indexes: fact_waiting_idx, stream_hold_parked_idx; none is counted beyond `most`.
BACKLOG = """
SELECT (SELECT count(*) FROM (
            SELECT FROM governance_fact WHERE published_at IS NULL AND relayed
             LIMIT %(most)s) AS waiting) AS waiting,
       (SELECT recorded_at FROM governance_fact WHERE published_at IS NULL AND relayed
         ORDER BY id LIMIT 1) AS oldest_at,
       (SELECT count(*) FROM (
            SELECT FROM governance_streamhold WHERE parked_at IS NOT NULL
             LIMIT %(most)s) AS parked) AS parked_streams,
       (SELECT count(*) FROM (
            SELECT FROM governance_streamhold WHERE parked_at IS NULL
             LIMIT %(most)s) AS held) AS held_streams
"""
# No lock. Index: fact_waiting_idx; looks at the oldest facts, at `most` of them.
SINKS = """
SELECT s.name, k.id AS head_id, p.at AS heard_at, coalesce(w.waiting, 0) AS waiting
  FROM unnest(%(sinks)s::text[]) AS s(name)
  LEFT JOIN governance_factsink k ON k.name = s.name
  LEFT JOIN governance_pulse p ON p.name = %(pulse)s || s.name
  LEFT JOIN (
       SELECT t.name, count(*) AS waiting
         FROM (SELECT delivered_to FROM governance_fact WHERE published_at IS NULL AND relayed
                ORDER BY id LIMIT %(most)s) AS f
        CROSS JOIN unnest(%(sinks)s::text[]) AS t(name)
        WHERE NOT f.delivered_to ? t.name
        GROUP BY t.name) AS w ON w.name = s.name
"""
DROP_SETTLED_HOLDS = """
DELETE FROM governance_streamhold h USING governance_fact f
 WHERE f.id = h.fact_id AND f.published_at IS NOT NULL
"""
# Locks: the holds of one sink, in the order of their streams. Indexes: the unique one.
RELEASE_ALL = """
WITH held AS (
    SELECT id, parked_at FROM governance_streamhold WHERE sink = %(sink)s
     ORDER BY stream FOR NO KEY UPDATE),
released AS (
    UPDATE governance_streamhold h
       SET tries = 0, parked_at = NULL, next_try_at = clock_timestamp()
      FROM held WHERE h.id = held.id)
SELECT count(*)::int AS streams, count(parked_at)::int AS parked FROM held
"""
TRY_LOCK = "SELECT pg_try_advisory_lock(%s, hashtext(%s)) AS taken"
UNLOCK = "SELECT pg_advisory_unlock(%s, hashtext(%s))"
DROP_HOLDS = "DELETE FROM governance_streamhold WHERE sink = %s AND stream = ANY(%s)"


def message_of(row: dict[str, Any]) -> Message:
    """Return a fact as it goes out: a CloudEvent 1.0 whose `sequence` counts in its stream."""
    event = CloudEvent(
        {
            "id": row["fact_id"],
            "source": f"urn:fencepost:{row['principal']}",
            "type": row["type"],
            "subject": row["stream"],
            "time": row["recorded_at"],
            "datacontenttype": "application/json",
            "sequence": str(row["sequence"]),
            "partitionkey": row["stream"],
        },
        json.loads(row["data"]),
    )
    return Message(
        message_id=str(row["receipt_id"]),
        stream=row["stream"],
        type=row["type"],
        body=JSONFormat().write(event),
    )


def _sendable(row: dict[str, Any]) -> Message:
    """Return a fact as it goes out.

    :raises FactRefused: its row is at fault; it holds back its own stream, and no other.
    """
    try:
        if row["recorded_at"] in (INSTANT_MIN, INSTANT_LAST):
            raise ValueError("recorded_at is out of bounds")
        return message_of(row)
    except Exception as error:
        if not of_a_row(error):
            raise
        raise FactRefused(f"cannot be read: {type(error).__name__}") from error


@dataclass(frozen=True)
class Unanswered:
    """A fact that met silence: its row without what it says, and what was met."""

    partition: int
    row: dict[str, Any]
    error: str


class Relay:
    """Brings waiting facts to one sink, on one thread, until it is told to stop."""

    def __init__(
        self,
        destination: Destination,
        *,
        stop: threading.Event | None = None,
        tries_max: int = TRIES_MAX,
    ) -> None:
        self.destination = destination
        self.stop = stop or threading.Event()
        self.tries_max = tries_max
        self._sink: Sink | None = None
        self._sinks = _configured_names()
        self._beaten_at = 0.0
        #: What the sink has confirmed in the pass that is under way.
        self._confirmed = 0
        #: What it gave no answer to since it last gave one, by stream.
        self._silent: dict[str, Unanswered] = {}
        self._silent_in_a_row = 0
        #: What met it last, if nothing was answered since.
        self._silence: SinkSilent | None = None

    def run(self) -> None:
        """Relay until stopped; failures of sink or database are waited out, also the first ones."""
        pause, failures, begun = IDLE_MIN_SECONDS, 0, False
        while not self.stop.is_set():
            try:
                if not begun:
                    FactSink.objects.get_or_create(name=self.destination.name)
                    settle()
                    begun = True
                moved = self.relay_pass()
                failures = 0
            except SinkAway as error:
                # A sink that took something in between is not one that stays away.
                failures = 1 if self._confirmed else failures + 1
                log.warning("relay.sink_away", sink=self.destination.name, error=str(error))
                self.stop.wait(error.after_seconds or _backoff(failures, AWAY_CAP_SECONDS))
                continue
            except (OperationalError, InterfaceError) as error:
                failures += 1
                log.warning("relay.database_away", error=str(error))
                connection.close()
                self.stop.wait(_backoff(failures, AWAY_CAP_SECONDS))
                continue
            pause = IDLE_MIN_SECONDS if moved else min(pause * 2, IDLE_MAX_SECONDS)
            if not moved:
                self.stop.wait(pause)
        self.close()

    def relay_pass(self) -> int:
        """Bring what waits to the sink, one batch per partition, and return how many it took.

        :raises SinkAway: the sink is away; what it has confirmed is marked.
        """
        self._confirmed = 0
        sink = self._connected()
        sink.keep()
        [due] = sql.pipeline(sql.Statement(DUE_PARTITIONS, {"sink": self.destination.name}))
        partitions = [row["partition"] for row in due]
        # Several relays begin in different places.
        random.shuffle(partitions)
        silent_before = set(self._silent)
        self._silent_in_a_row, self._silence = 0, None
        moved = self._relay_partitions(partitions, lambda stream: stream not in silent_before)
        # Still there, since nothing else was answered: their turn comes last.
        if last := silent_before & self._silent.keys():
            moved += self._relay_partitions(partitions, last.__contains__)
        self._report(moved)
        if self._silence is not None:
            raise self._silence
        return moved

    def _relay_partitions(self, partitions: list[int], wanted: Callable[[str], bool]) -> int:
        moved = 0
        for partition in partitions:
            if self.stop.is_set():
                break
            with self._alone_on(partition) as alone:
                if alone:
                    moved += self._relay_batch(partition, wanted)
        return moved

    def close(self) -> None:
        """Drop the connection to the sink."""
        if self._sink is not None:
            self._sink.close()
            self._sink = None

    def _connected(self) -> Sink:
        if self._sink is None:
            self._sink = self.destination.connect()
            log.info("relay.connected", sink=self.destination.name)
        return self._sink

    @contextmanager
    def _alone_on(self, partition: int) -> Iterator[bool]:
        """Hold the partition's lock for the time of a batch; yields False when another has it."""
        key = f"{self.destination.name}:{partition}"
        [[row]] = sql.pipeline(sql.Statement(TRY_LOCK, (LOCK_CLASS, key)))
        if not row["taken"]:
            yield False
            return
        try:
            yield True
        finally:
            # A lost connection has dropped the lock already.
            if connection.connection is not None and not connection.connection.closed:
                sql.pipeline(sql.Statement(UNLOCK, (LOCK_CLASS, key)))

    def _relay_batch(self, partition: int, wanted: Callable[[str], bool]) -> int:
        params = {"sink": self.destination.name, "partition": partition}
        [rows] = in_any_case(lambda: sql.pipeline(sql.Statement(BATCH, params)))
        held_back: set[str] = set()
        confirmed: list[dict[str, Any]] = []
        moved = 0
        try:
            for row in rows:
                if self.stop.is_set():
                    break
                if row["stream"] in held_back or not wanted(row["stream"]):
                    continue
                try:
                    self._send(row)
                except FactRefused as refused:
                    held_back.add(row["stream"])
                    self._hold(row, str(refused))
                    if self._sink is not None and not self._sink.usable:
                        self.close()
                    continue
                except SinkSilent as silence:
                    held_back.add(row["stream"])
                    self._note_silence(partition, row, silence)
                    continue
                moved += 1
                self._confirmed += 1
                confirmed.append(row)
                if len(confirmed) == CONFIRMS_PER_MARK:
                    self._mark(confirmed)
                    confirmed = []
        except SinkAway:
            self.close()
            raise
        finally:
            if confirmed:
                self._mark(confirmed)
        return moved

    def _send(self, row: dict[str, Any]) -> None:
        message = _sendable(row)
        try:
            self._connected().send(message)
        except FactRefused:
            self._answered(row)
            raise
        self._answered(row)

    def _note_silence(self, partition: int, row: dict[str, Any], silence: SinkSilent) -> None:
        """Go on to another stream; what that meets tells whose fault it is.

        :raises SinkAway: this is such another stream, and met the same.
        """
        self.close()
        if len(self._silent) < SILENT_REMEMBERED_MAX:
            known = {name: value for name, value in row.items() if name != "data"}
            self._silent[row["stream"]] = Unanswered(partition, known, str(silence))
        self._silent_in_a_row, self._silence = self._silent_in_a_row + 1, silence
        if self._silent_in_a_row >= SILENT_IN_A_ROW:
            raise silence

    def _answered(self, row: dict[str, Any]) -> None:
        """Count a try of each fact that met silence where this one met an answer."""
        self._silent_in_a_row, self._silence = 0, None
        if not self._silent:
            return
        self._silent.pop(row["stream"], None)
        for stream, silence in list(self._silent.items()):
            with self._alone_on(silence.partition) as alone:
                # Whoever has the partition now finds out for itself.
                if alone and self._still_waits(silence.row):
                    self._hold(silence.row, f"no answer, while others got one: {silence.error}")
            del self._silent[stream]

    def _still_waits(self, row: dict[str, Any]) -> bool:
        """Return whether the fact waits as when it was sent: another relay may have acted."""
        params = {"sink": self.destination.name, "id": row["id"]}
        [found] = sql.pipeline(sql.Statement(STILL_WAITS, params))
        return bool(found) and found[0]["tries"] == row["tries"]

    def _mark(self, confirmed: list[dict[str, Any]]) -> None:
        params = {
            "sink": self.destination.name,
            "sinks": self._sinks,
            "ids": [row["id"] for row in confirmed],
        }
        statements = [sql.Statement(MARK, params)]
        if freed := [row["stream"] for row in confirmed if row["held_fact"] is not None]:
            statements.append(sql.Statement(DROP_HOLDS, (self.destination.name, freed)))
        with transaction.atomic():
            sql.pipeline(*statements)

    @transaction.atomic
    def _hold(self, row: dict[str, Any], error: str) -> None:
        """Let the stream wait, or park it when this fact has been tried often enough."""
        tries = 1 + (row["tries"] if row["held_fact"] == row["id"] else 0)
        now = clock.now()
        parked = tries >= self.tries_max
        StreamHold.objects.update_or_create(
            sink=self.destination.name,
            stream=row["stream"],
            defaults={
                "fact_id": row["id"],
                "tries": tries,
                "last_error": error,
                "failed_at": now,
                "next_try_at": now + timedelta(seconds=_backoff(tries, RETRY_CAP_SECONDS)),
                "parked_at": now if parked else None,
            },
        )
        log.warning(
            "relay.fact_refused",
            sink=self.destination.name,
            stream=row["stream"],
            sequence=row["sequence"],
            tries=tries,
            parked=parked,
            error=error,
        )
        if parked:
            _record(
                self.destination.name,
                action="stream.parked",
                actor=ACTOR,
                at=now,
                reason=error,
                details={"stream": row["stream"], "sequence": row["sequence"], "tries": tries},
            )

    def _report(self, moved: int) -> None:
        if time.monotonic() - self._beaten_at >= PULSE_SECONDS:
            self._beaten_at = time.monotonic()
            pulse.beat(PULSE_PREFIX + self.destination.name, address=self.destination.address)
        if moved:
            log.info("relay.moved", sink=self.destination.name, facts=moved)


@transaction.atomic
def settle() -> int:
    """Publish facts that every configured sink has, as after a sink was taken away.

    What was held back of them is held no more: nobody waits for them.
    """
    names = _configured_names()
    if names == "[]":
        return 0
    with connection.cursor() as cursor:
        cursor.execute(SETTLE, {"sinks": names})
        settled = cursor.rowcount
        cursor.execute(DROP_SETTLED_HOLDS)
        return settled


@transaction.atomic
def release(*, sink: str, stream: str, actor: str, reason: str) -> None:
    """Let a parked or waiting stream be tried again at once, with all its tries.

    :raises InvalidArgument: there is no reason.
    :raises NotFound: the sink does not hold that stream.
    """
    reason = required(reason)
    hold = (
        StreamHold.objects.select_for_update(no_key=True, of=("self",))
        .filter(sink=sink, stream=stream)
        .first()
    )
    if hold is None:
        raise NotFound("That sink does not hold that stream.")
    now = clock.now()
    hold.tries, hold.parked_at, hold.next_try_at = 0, None, now
    hold.save(update_fields=["tries", "parked_at", "next_try_at"])
    _record(
        sink,
        action="stream.released",
        actor=actor,
        at=now,
        reason=reason,
        details={"stream": stream, "fact_id": hold.fact_id},
    )


@transaction.atomic
def release_all(*, sink: str, actor: str, reason: str) -> int:
    """Let all streams that a sink holds be tried again at once, with all their tries.

    :returns: how many; the sink's audit chain has one event of them all.
    :raises InvalidArgument: there is no reason.
    :raises NotFound: the sink holds no stream.
    """
    reason = required(reason)
    [[row]] = sql.pipeline(sql.Statement(RELEASE_ALL, {"sink": sink}))
    if not row["streams"]:
        raise NotFound("That sink holds no stream.")
    details = {"streams": row["streams"], "parked": row["parked"]}
    _record(
        sink,
        action="streams.released",
        actor=actor,
        at=clock.now(),
        reason=reason,
        details=details,
    )
    return int(row["streams"])


@dataclass(frozen=True)
class Backlog:
    """What waits: how many facts and streams, since when; none is counted beyond one past
    `FACTS_LOOKED_AT_MAX`."""

    sinks: list[str]
    waiting: int
    oldest_at: datetime | None
    parked_streams: int
    held_streams: int


def backlog() -> Backlog:
    """Return what waits to be relayed, in one statement."""
    [[row]] = sql.pipeline(sql.Statement(BACKLOG, {"most": FACTS_LOOKED_AT_MAX + 1}))
    return Backlog(sinks=[destination.name for destination in configured()], **row)


@dataclass(frozen=True)
class SinkState:
    """A configured sink: what waits for it, and when its relay last finished a round.

    `head_id` is the key of its `FactSink`, once there is one.  `waiting` is counted among the
    oldest facts that wait, of which one past `FACTS_LOOKED_AT_MAX` are looked at.
    """

    name: str
    address: str
    waiting: int
    head_id: int | None
    heard_at: datetime | None


def sinks() -> list[SinkState]:
    """Return the configured sinks as they are now, in one statement."""
    addresses = {destination.name: destination.address for destination in configured()}
    params = {"sinks": list(addresses), "most": FACTS_LOOKED_AT_MAX + 1, "pulse": PULSE_PREFIX}
    [rows] = sql.pipeline(sql.Statement(SINKS, params))
    states = {row["name"]: SinkState(address=addresses[row["name"]], **row) for row in rows}
    return [states[name] for name in addresses]


def _record(sink: str, **event: Any) -> None:
    head, _ = FactSink.objects.get_or_create(name=sink)
    audit.record(FactSink.objects.select_for_update(no_key=True).get(pk=head.pk), **event)


def _configured_names() -> str:
    names = ", ".join(f'"{destination.name}"' for destination in configured())
    return f"[{names}]"


def _backoff(tries: int, cap_seconds: float) -> float:
    """Return the seconds to wait after so many failures: doubled each time, half of it drawn."""
    whole = min(cap_seconds, RETRY_BASE_SECONDS * 2 ** min(tries - 1, 30))
    return whole / 2 + random.uniform(0, whole / 2)
