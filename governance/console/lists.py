"""Lists that open at a million rows: keyset pages, bounded counts, searches that use an index.

What stock lists do and these do not: `COUNT(*)` over everything, OFFSET, `date_hierarchy`,
DISTINCT filters, `icontains`, sorting by any column.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, NamedTuple, cast

from django.contrib import admin
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import ValidationError
from django.db import connection
from django.db.models import Q, QuerySet, UUIDField
from django.http import HttpRequest

from governance.console.apart import reads_apart, showable
from governance.console.registry import now_of
from governance.console.wording import number
from governance.core.isolation import of_a_row

#: Rows are counted up to here; beyond it the list says "more than".
COUNT_MAX = 10_000
#: A search looks at no more matches than this.
MATCHES_MAX = 1000
PAGE_ROWS = 50
OLDER, NEWER = "older", "newer"
#: Ids are given before the row's time is read, so the two orders differ by a few rows.
ID_SLACK = 1000
#: UUIDs are made by the clocks of the web processes, times are read from the database's.
CLOCK_SLACK = timedelta(minutes=5)

# Locks: none. Index: the primary key; about 2 * log2(rows) probes.
FIND_ID_AT = """
WITH RECURSIVE halved (lo, hi) AS (
    SELECT min("{pk}"), max("{pk}") FROM "{table}"
    UNION ALL
    SELECT CASE WHEN probe.at < %(at)s THEN probe.id + 1 ELSE lo END,
           CASE WHEN probe.at < %(at)s THEN hi ELSE (lo + hi) / 2 END
      FROM halved, LATERAL (
           SELECT "{pk}" AS id, "{column}" AS at FROM "{table}"
            WHERE "{pk}" >= (lo + hi) / 2 ORDER BY "{pk}" LIMIT 1) AS probe
     WHERE lo < hi
)
SELECT lo FROM halved ORDER BY hi - lo, lo DESC LIMIT 1
"""


class Unreadable(NamedTuple):
    """What stands in a list for a row that cannot be read or shown."""

    pk: Any
    name: str


class KeysetChangeList(ChangeList):
    """A page of rows from the newest on, continued by key instead of by number."""

    keyset = True

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> QuerySet[Any]:
        if not hasattr(self, "older_than"):
            self.older_than = self._cursor(OLDER)
            self.newer_than = self._cursor(NEWER)
        if any("\0" in value for values in self.filter_params.values() for value in values):
            raise IncorrectLookupParameters
        return super().get_queryset(request, exclude_parameters)

    def get_ordering(self, request: HttpRequest, queryset: QuerySet[Any]) -> list[Any]:
        return ["-pk"]

    def get_results(self, request: HttpRequest) -> None:
        self.apart = reads_apart(request)
        rows = self.queryset
        size = self.list_per_page
        if self.newer_than is not None:
            page = self._rows(rows.filter(pk__gt=self.newer_than).order_by("pk")[: size + 1])
            more_newer, more_older = len(page) > size, True
            page = page[:size][::-1]
        else:
            if self.older_than is not None:
                rows = rows.filter(pk__lt=self.older_than)
            page = self._rows(rows[: size + 1])
            more_older, more_newer = len(page) > size, self.older_than is not None
            page = page[:size]
        self.result_list = [row for row in page if not isinstance(row, Unreadable)]
        self.unreadable = [row.name for row in page if isinstance(row, Unreadable)]
        self.older_link = self._link(OLDER, page[-1].pk) if page and more_older else ""
        self.newer_link = self._link(NEWER, page[0].pk) if page and more_newer else ""
        self.newest_link = self.get_query_string({}) if self._inside else ""
        self.without_query = self.get_query_string(remove=["q"])
        whole = not (self._inside or more_older)
        self.count_text = number(len(page)) if whole else self._count_text()
        self.result_count = len(page)
        self.full_result_count = None
        self.show_full_result_count = False
        self.show_admin_actions = True
        self.can_show_all = False
        self.multi_page = False

    def _rows(self, rows: QuerySet[Any]) -> list[Any]:
        """Return the rows in their order: keys first, so that no join is planned for many."""
        keys = list(rows.values_list("pk", flat=True))
        if self.apart:
            return [row for key in keys for row in self._by_itself(key)]
        found = self.queryset.order_by().in_bulk(keys)
        return [found[key] for key in keys if key in found]

    def _by_itself(self, key: Any) -> list[Any]:
        """Return the row of a key, or its name where it cannot be read or shown."""
        rows = self.queryset.order_by().filter(pk=key)
        try:
            return [
                row if showable(self, row) else Unreadable(row.pk, self._name_of(key))
                for row in rows
            ]
        except Exception as error:
            if not of_a_row(error):
                raise
            return [Unreadable(key, self._name_of(key))]

    def _name_of(self, key: Any) -> str:
        named = self.model._default_manager.filter(pk=key)
        return str(named.values_list(cast(Any, self.model_admin).key_field, flat=True).get())

    @property
    def _inside(self) -> bool:
        return self.older_than is not None or self.newer_than is not None

    def _cursor(self, name: str) -> Any:
        self.params.pop(name, None)
        given = self.filter_params.pop(name, [""])[-1]
        try:
            return self.lookup_opts.pk.to_python(given) if given else None
        except ValidationError:
            return None

    def _link(self, name: str, pk: Any) -> str:
        return self.get_query_string({name: pk})

    def _count_text(self) -> str:
        """Say how many rows there are, without counting many: an estimate, or up to the cap."""
        if not self.query and not self.filter_params:
            estimated = estimate(self.model._meta.db_table)
            if estimated > COUNT_MAX:
                return f"about {number(estimated)}"
        # In list order, so that the count walks the index of the list and no further.
        counted = self.queryset.order_by("-pk").values("pk")[: COUNT_MAX + 1].count()
        return f"more than {number(COUNT_MAX)}" if counted > COUNT_MAX else number(counted)


def estimate(table: str) -> int:
    """Return the planner's estimate of a table's rows; -1 when it was never analyzed."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT reltuples::bigint FROM pg_class WHERE oid = %s::regclass", [table])
        return int(cursor.fetchone()[0])


def id_at(model: Any, field: str, at: Any) -> int:
    """Return about the least primary key whose `field` is not before `at`.

    For tables whose keys grow with `field`, by bisection over the primary key.
    """
    meta = model._meta
    sql = FIND_ID_AT.format(
        pk=meta.pk.column, table=meta.db_table, column=meta.get_field(field).column
    )
    with connection.cursor() as cursor:
        cursor.execute(sql, {"at": at})
        row = cursor.fetchone()
    return max(0, (row[0] if row and row[0] is not None else 0) - ID_SLACK)


def uuid_at(at: datetime) -> uuid.UUID:
    """Return the least UUIDv7 of an instant. Source: RFC 9562, 5.7."""
    milliseconds = int(at.timestamp() * 1000)
    return uuid.UUID(int=milliseconds << 80)


class Since(admin.SimpleListFilter):
    """How far back: by the primary key, so that no index on the time is needed."""

    title = "since"
    parameter_name = "since"
    SPANS = {
        "15m": ("last 15 minutes", timedelta(minutes=15)),
        "1h": ("last hour", timedelta(hours=1)),
        "24h": ("last 24 hours", timedelta(hours=24)),
        "7d": ("last 7 days", timedelta(days=7)),
    }

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(key, name) for key, (name, _) in self.SPANS.items()]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any] | None:
        if self.value() not in self.SPANS:
            return None
        since = now_of(request) - self.SPANS[str(self.value())][1]
        field = self.model_admin_time_field(queryset)
        if isinstance(queryset.model._meta.pk, UUIDField):
            return queryset.filter(pk__gte=uuid_at(since - CLOCK_SLACK), **{f"{field}__gte": since})
        floor = id_at(queryset.model, field, since)
        return queryset.filter(pk__gte=floor, **{f"{field}__gte": since})

    @staticmethod
    def model_admin_time_field(queryset: QuerySet[Any]) -> str:
        return str(TIME_FIELDS[queryset.model._meta.label_lower])


#: The field of each model that grows with its primary key; filled by `OperatorAdmin`.
TIME_FIELDS: dict[str, str] = {}


def search(
    queryset: QuerySet[Any],
    term: str,
    *,
    prefixes: tuple[str, ...] = (),
    exacts: tuple[str, ...] = (),
    uuids: tuple[str, ...] = (),
) -> QuerySet[Any]:
    """Return the rows of which one of the fields begins with, or is, `term`, case and all.

    Each field is looked up by its own index first, so that the planner never walks the whole
    table in list order to find a handful of rows; at most `MATCHES_MAX` matches per field.
    """
    found: set[Any] = set()
    for condition in _conditions(term, prefixes, exacts, uuids):
        rows = queryset.order_by().filter(condition).values_list("pk", flat=True)
        found.update(rows[:MATCHES_MAX])
    return queryset.filter(pk__in=found)


def _conditions(
    term: str, prefixes: tuple[str, ...], exacts: tuple[str, ...], uuids: tuple[str, ...]
) -> Iterator[Q]:
    for name in prefixes:
        yield Q(**{f"{name}__startswith": term})
    for name in exacts:
        yield Q(**{name: term})
    digits = term.replace("-", "").lower()
    if digits and len(digits) <= 32 and all(c in "0123456789abcdef" for c in digits):
        low, high = uuid.UUID(digits.ljust(32, "0")), uuid.UUID(digits.ljust(32, "f"))
        for name in uuids:
            yield Q(**{f"{name}__range": (low, high)})
