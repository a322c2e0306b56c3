"""Pages of a list: forth and back by key, each row once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db.models import QuerySet

from governance.core.errors import InvalidArgument
from governance.core.wire import ANSWER_BYTES_MAX
from governance.operations.pages import PAGE_SIZE, PAGE_SIZE_MAX, Page, page_of
from jobs.models import Job

pytestmark = pytest.mark.django_db

COUNT = 5


@pytest.fixture
def jobs(make_job: Callable[..., Job]) -> QuerySet[Job]:
    for _ in range(COUNT):
        make_job()
    return Job.objects.all()


def names(page: Page) -> list[str]:
    return [job.task_id.removeprefix("task-") for job in page.rows]


@pytest.mark.parametrize(("key", "expected"), [("-id", "54321"), ("id", "12345")])
@pytest.mark.parametrize("size", [1, 2, 4, 5, 6])
def test_pages_lead_forth_and_back_through_every_row_once(
    jobs: QuerySet[Job], key: str, expected: str, size: int
) -> None:
    page = page_of(jobs, {"page_size": str(size)}, key=key)
    assert page.previous is None
    forth = [names(page)]
    while page.next:
        page = page_of(jobs, {"page_size": str(size), "cursor": page.next}, key=key)
        forth.append(names(page))
    back = [names(page)]
    while page.previous:
        page = page_of(jobs, {"page_size": str(size), "cursor": page.previous}, key=key)
        back.append(names(page))

    assert "".join(name for found in forth for name in found) == expected
    assert list(reversed(back)) == forth
    assert page.next is not None or size >= COUNT


def test_a_page_ends_where_an_answer_is_full(
    jobs: QuerySet[Job],
) -> None:
    def weigh(rows: list[Any]) -> list[int]:
        return [ANSWER_BYTES_MAX // 2 if job.task_id != "task-3" else 2**40 for job in rows]

    def of(cursor: str | None) -> Page:
        return page_of(jobs, {"cursor": cursor} if cursor else {}, key="id", weigh=weigh)

    pages = [of(None)]
    while pages[-1].next:
        pages.append(of(pages[-1].next))
    # One that is larger than an answer may be has a page of its own.
    assert [names(page) for page in pages] == [["1", "2"], ["3"], ["4", "5"]]
    assert names(of(pages[-1].previous)) == ["3"]
    assert names(of(pages[1].previous)) == ["1", "2"]


def test_a_page_past_the_end_leads_nowhere(jobs: QuerySet[Job]) -> None:
    first = page_of(jobs, {"page_size": "4"}, key="-id")
    rest = jobs.exclude(task_id="task-1")

    assert page_of(rest, {"cursor": first.next or ""}, key="-id") == Page([], None, None)


@pytest.mark.parametrize(
    ("sent", "expected"), [(None, PAGE_SIZE), ("7", 7), ("201", PAGE_SIZE_MAX), ("9" * 30, 200)]
)
def test_a_page_has_its_bounds(sent: str | None, expected: int) -> None:
    class Counted(list[Any]):
        def order_by(self, *_: str) -> Counted:
            return self

        def __getitem__(self, piece: Any) -> Any:
            asked.append(piece.stop)
            return []

    asked: list[int] = []
    page_of(Counted(), {"page_size": sent} if sent else {}, key="-id")  # type: ignore[arg-type]
    assert asked == [expected + 1]


@pytest.mark.parametrize("query", [{"page_size": "0"}, {"page_size": "x"}, {"cursor": "x"}])
def test_what_no_page_has_given_is_refused(jobs: QuerySet[Job], query: dict[str, str]) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        page_of(jobs, query, key="-id")
    assert [fault.pointer for fault in refusal.value.errors] == [f"/{next(iter(query))}"]
