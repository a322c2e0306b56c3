"""How long a lease may be trusted, on a clock that the test holds."""

import threading

import pytest

from fencepost_worker import lease as lease_module
from fencepost_worker.heartbeats import HeartbeatLoop
from fencepost_worker.lease import Ended, Lease, LeaseEnded, Terms, trusted_until
from fencepost_worker.timing import retry_delay_s, steady_now


@pytest.fixture
def clock(monkeypatch):
    """The lease's clock: `clock[0]` seconds."""
    now = [1000.0]
    monkeypatch.setattr(lease_module, "steady_now", lambda: now[0])
    return now


def make_lease(requested_at=1000.0, attempt=1, ttl_seconds=100.0):
    return Lease(
        task_id="task-1",
        attempt=attempt,
        fencing_token=attempt,
        terms=Terms(ttl_seconds, 10.0),
        requested_at=requested_at,
    )


@pytest.mark.parametrize(("ttl_seconds", "until"), [(100.0, 95.0), (10.0, 9.0), (900.0, 895.0)])
def test_trust_is_counted_from_the_question_and_ends_before_the_lease(ttl_seconds, until):
    assert trusted_until(requested_at=0.0, ttl_seconds=ttl_seconds) == until


def test_a_lease_ends_by_itself_at_its_trusted_time(clock):
    lease = make_lease()
    clock[0] = 1094.9
    assert lease.ended is None
    clock[0] = 1095.0
    assert lease.ended is Ended.EXPIRED
    with pytest.raises(LeaseEnded):
        lease.check()


def test_a_renewal_after_the_end_revives_nothing(clock):
    lease = make_lease()
    clock[0] = 1095.0
    assert lease.ended is Ended.EXPIRED
    lease.renew(requested_at=1095.0, ttl_seconds=100.0, control="continue")

    assert lease.ended is Ended.EXPIRED


def test_a_late_answer_to_an_old_question_shortens_nothing(clock):
    lease = make_lease()
    lease.renew(requested_at=1050.0, ttl_seconds=100.0, control="continue")
    lease.renew(requested_at=1010.0, ttl_seconds=100.0, control="continue")
    clock[0] = 1144.0

    assert lease.ended is None


def test_a_lease_of_unknown_age_waits_for_a_heartbeat(clock):
    lease = make_lease(requested_at=None)
    granted = threading.Event()

    def wait():
        lease.wait_until_granted()
        granted.set()

    waiter = threading.Thread(target=wait, daemon=True)
    waiter.start()
    assert not granted.is_set()
    lease.renew(requested_at=1000.0, ttl_seconds=100.0, control="continue")

    assert granted.wait(5)


def test_who_watches_a_lease_is_told_of_each_change_until_it_stops_to(clock):
    lease = make_lease()
    told = []
    unwatch = lease.on_change(lambda: told.append((lease.paused, lease.ended)))
    lease.renew(requested_at=1000.0, ttl_seconds=100.0, control="pause")
    lease.end(Ended.STOPPED)
    unwatch()
    unwatch()
    lease.end(Ended.LOST)

    assert told == [(True, None), (True, Ended.STOPPED)]


def test_a_lease_says_for_how_long_it_can_be_relied_on(clock):
    lease = make_lease()
    assert lease.left_seconds == 95.0
    assert make_lease(requested_at=None).left_seconds == lease_module.MAX_NAP_SECONDS
    clock[0] = 1095.0
    assert lease.left_seconds == 0.0


def test_the_first_reason_for_an_end_stands(clock):
    lease = make_lease()
    lease.end(Ended.STOPPED)
    lease.end(Ended.LOST)

    assert lease.ended is Ended.STOPPED


def test_work_waits_while_it_is_paused(clock):
    lease = make_lease()
    lease.renew(requested_at=1000.0, ttl_seconds=100.0, control="pause")
    assert lease.paused
    threading.Timer(
        0.05, lambda: lease.renew(requested_at=1000.0, ttl_seconds=100.0, control="continue")
    ).start()
    lease.wait_while_paused()

    assert not lease.paused


def test_the_end_of_a_paused_lease_ends_the_wait(clock):
    lease = make_lease()
    lease.renew(requested_at=1000.0, ttl_seconds=100.0, control="pause")
    threading.Timer(0.05, lambda: lease.end(Ended.STOPPED)).start()
    with pytest.raises(LeaseEnded):
        lease.wait_while_paused()


@pytest.mark.parametrize(
    ("ttl", "interval", "expected"), [(90, 60, 30.0), (900, 60, 60.0), (0, 0, 0.05)]
)
def test_an_interval_too_long_for_its_lease_is_shortened(ttl, interval, expected):
    terms = Terms.from_document({"ttl_seconds": ttl, "heartbeat_interval_seconds": interval})

    assert terms.interval_seconds == expected


@pytest.mark.parametrize("value", [None, "60", True, -1])
def test_a_lease_without_durations_is_none(value):
    with pytest.raises(ValueError, match="durations"):
        Terms.from_document({"ttl_seconds": value, "heartbeat_interval_seconds": 1})


def test_a_newer_attempt_of_the_same_task_ends_the_older_lease(client):
    loop = HeartbeatLoop(plane=client)
    older, newer = make_lease(steady_now()), make_lease(steady_now(), attempt=2)
    loop.add(older)
    loop.add(newer)

    assert older.ended is Ended.LOST
    assert newer.ended is None


def test_one_heartbeat_speaks_for_all_leases_and_each_is_answered_by_itself(plane, client):
    for name in ("kept", "stopped", "lost"):
        plane.add_job(name)
        plane.grant(name)
    plane.controls["stopped"] = "stop"
    plane.jobs["lost"]["fencing_token"] = 9
    leases = [
        Lease(
            task_id=name,
            attempt=1,
            fencing_token=1,
            terms=Terms(60.0, 5.0),
            requested_at=steady_now(),
        )
        for name in ("kept", "stopped", "lost")
    ]
    assert HeartbeatLoop(plane=client).beat(leases)

    assert [lease.ended for lease in leases] == [None, Ended.STOPPED, Ended.LOST]
    assert len(plane.calls("/heartbeat")) == 1


@pytest.mark.parametrize(
    ("failures", "ceiling"), [(1, 0.5), (2, 1.0), (3, 2.0), (50, 30.0), (10_000, 30.0)]
)
def test_a_delay_doubles_up_to_its_cap_with_full_jitter(failures, ceiling):
    assert retry_delay_s(failures, draw=lambda: 0.0) == 0.0
    assert retry_delay_s(failures, draw=lambda: 1.0) == ceiling


def test_a_delay_before_any_failure_is_a_mistake():
    with pytest.raises(ValueError, match="count from 1"):
        retry_delay_s(0)
