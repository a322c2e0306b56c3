"""What apps add to the console: overview sections, inbox kinds, banners, links."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.http import HttpRequest

from governance.core import clock


@dataclass(frozen=True)
class Link:
    """A page of everyday work, in the head of every page.

    :param view: the name of its address, `admin:jobs_job_changelist`.
    :param key: the letter that leads there after `g`.
    :param permission: who lacks it does not see the link.
    :param position: links stand in this order.
    """

    name: str
    view: str
    key: str
    permission: str
    position: int


@dataclass(frozen=True)
class Section:
    """A part of the overview. `load` returns the template's context, or None to show nothing.

    :param permission: who lacks it does not see the section.
    :param position: sections stand in this order.
    """

    name: str
    title: str
    template: str
    load: Callable[[HttpRequest], dict[str, Any] | None]
    permission: str
    position: int
    wide: bool = False


@dataclass(frozen=True)
class Waiting:
    """One thing that waits for a person."""

    title: str
    note: str
    url: str
    since: datetime
    marks: tuple[str, ...] = ()


@dataclass(frozen=True)
class InboxKind:
    """A kind of decision. `rows(limit)` are the oldest first."""

    name: str
    title: str
    permission: str
    position: int
    rows: Callable[[int], Iterable[Waiting]]
    empty: str = "Nothing waits."


@dataclass(frozen=True)
class Banner:
    """A line on top of every page."""

    text: str
    url: str = ""
    level: str = "warning"


@dataclass(frozen=True)
class ExportBook:
    """Where exports are noted: `begin` before the first row leaves, `end` after the last one."""

    begin: Callable[..., None]
    end: Callable[..., None]


#: A kind counts no further than this; beyond it the console says "more than".
INBOX_COUNT_MAX = 1000

sections: dict[str, Section] = {}
links: list[Link] = []
inbox_kinds: dict[str, InboxKind] = {}
#: Functions that count several kinds at once, by name, each no further than one past the maximum.
inbox_counters: list[Callable[[], dict[str, int]]] = []
banner_sources: dict[str, Callable[[HttpRequest], Iterable[Banner]]] = {}
export_books: list[ExportBook] = []


def now_of(request: HttpRequest) -> datetime:
    """Return the database's time as of this request, read once: what a page's ages count from."""
    if not hasattr(request, "console_now"):
        request.console_now = clock.now()  # type: ignore[attr-defined]
    return request.console_now  # type: ignore[attr-defined]


#: Functions that turn what an operator types into audit subjects (`job:<uuid>`).
subject_finders: list[Callable[[str], list[str]]] = []


def subjects_of(term: str) -> list[str]:
    """Return the audit subjects that `term` may mean: itself, and what the apps know it as."""
    return [term, *(subject for find in subject_finders for subject in find(term))]


#: Functions that give the pages of audit subjects: subject -> (what it is called, its address).
subject_pages: list[Callable[[list[str]], dict[str, tuple[str, str]]]] = []


def pages_of(subjects: list[str]) -> dict[str, tuple[str, str]]:
    """Return name and address of the page of each subject that has one."""
    return {subject: page for find in subject_pages for subject, page in find(subjects).items()}


def add_link(link: Link) -> None:
    links.append(link)


def links_for(request: HttpRequest) -> list[Link]:
    """Return the links that the user may follow, in their order."""
    seen = [link for link in links if request.user.has_perm(link.permission)]
    return sorted(seen, key=lambda link: link.position)


def add_section(section: Section) -> None:
    sections[section.name] = section


def add_inbox_kind(kind: InboxKind) -> None:
    inbox_kinds[kind.name] = kind


def inbox_counts() -> dict[str, int]:
    """Return how much of each kind waits; `INBOX_COUNT_MAX + 1` means more than the maximum."""
    return {name: count for counter in inbox_counters for name, count in counter().items()}


def add_banner_source(name: str, source: Callable[[HttpRequest], Iterable[Banner]]) -> None:
    banner_sources[name] = source


def sections_for(request: HttpRequest) -> list[Section]:
    """Return the sections that the user may see, in their order."""
    seen = [s for s in sections.values() if request.user.has_perm(s.permission)]
    return sorted(seen, key=lambda section: section.position)


def inbox_for(request: HttpRequest) -> list[InboxKind]:
    """Return the kinds that the user may see, in their order."""
    seen = [k for k in inbox_kinds.values() if request.user.has_perm(k.permission)]
    return sorted(seen, key=lambda kind: kind.position)
