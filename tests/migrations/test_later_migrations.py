"""What came after the first release is of a kind that is done while work goes on.

`FIRST` is what an installation of the first release has.  No table is scanned under a lock by what
came later, and a CHECK on rows that are there already says what repairs those that break it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.postgres.operations import (
    AddConstraintNotValid,
    AddIndexConcurrently,
    ValidateConstraint,
)
from django.db import migrations
from django.db.migrations.loader import MigrationLoader
from django.db.models import CheckConstraint, Index, IntegerField, Q

FIRST = {"governance": "0003_triggers", "agents": "0002_triggers", "jobs": "0003_triggers"}
#: Tables that grow with the work. A lock on one of them is felt by everybody.
HOT = {
    ("jobs", name)
    for name in ("job", "task", "attempt", "lease", "execution", "permit", "reflection")
} | {
    ("governance", name)
    for name in ("auditevent", "fact", "idempotencyrecord", "reservation", "resolution")
}
Operations = list[tuple[str, Any]]


def later_operations() -> Operations:
    """Return the operations that came after `FIRST`, each with its app."""
    return [
        (app, operation)
        for (app, name), migration in sorted(MigrationLoader(None).disk_migrations.items())
        if app in FIRST and name > FIRST[app]
        for operation in migration.operations
    ]


def scanning(operations: Operations) -> Iterator[str]:
    """Yield what indexes or checks a hot table under a lock."""
    for app, operation in operations:
        table = (app, getattr(operation, "model_name", "").lower())
        scans = isinstance(operation, migrations.AddIndex | migrations.AddConstraint)
        aside = isinstance(operation, AddIndexConcurrently | AddConstraintNotValid)
        if table in HOT and scans and not aside:
            yield operation.describe()


def indexing_by_hand(operations: Operations) -> Iterator[str]:
    """Yield SQL that makes an index under a lock."""
    for _, operation in operations:
        if isinstance(operation, migrations.RunSQL):
            words = str(operation.sql).upper().replace("UNIQUE ", "")
            if words.count("CREATE INDEX") != words.count("CREATE INDEX CONCURRENTLY"):
                yield str(operation.sql)


def left_alone(operations: Operations) -> Iterator[str]:
    """Yield the checks of old columns that say no repair, and those that are never validated."""
    sql = [str(op.sql) for _, op in operations if isinstance(op, migrations.RunSQL)]
    validated = {op.name for _, op in operations if isinstance(op, ValidateConstraint)}
    added = {op.name for _, op in operations if isinstance(op, migrations.AddField)}
    for _, operation in operations:
        if isinstance(operation, AddConstraintNotValid):
            check = operation.constraint
            of_a_new_column = check.condition.referenced_base_fields & added
            repaired = any(f"ON CONSTRAINT {check.name} " in text for text in sql)
            if check.name not in validated or not (repaired or of_a_new_column):
                yield check.name


def test_no_later_migration_indexes_or_checks_a_hot_table_under_a_lock() -> None:
    assert list(scanning(later_operations())) == []


def test_no_later_migration_makes_an_index_by_hand_under_a_lock() -> None:
    assert list(indexing_by_hand(later_operations())) == []


def test_every_later_check_says_what_repairs_old_rows_and_is_validated() -> None:
    assert list(left_alone(later_operations())) == []


INDEX = Index(fields=["paused"], name="planted")
CHECK = CheckConstraint(condition=Q(attempt__gte=0), name="planted")
COMMENT = migrations.RunSQL("COMMENT ON CONSTRAINT planted ON jobs_job IS 'Ask for help.'")
VALIDATED = ValidateConstraint("job", "planted")
NEW_COLUMN = migrations.AddField("job", "attempt", IntegerField(null=True))


@pytest.mark.parametrize(
    ("rule", "operations", "found"),
    [
        (scanning, [migrations.AddIndex("job", INDEX)], 1),
        (scanning, [migrations.AddConstraint("job", CHECK)], 1),
        (scanning, [AddIndexConcurrently("job", INDEX), AddConstraintNotValid("job", CHECK)], 0),
        (scanning, [migrations.AddIndex("source", INDEX)], 0),
        (indexing_by_hand, [migrations.RunSQL("CREATE UNIQUE INDEX planted ON jobs_job (id)")], 1),
        (indexing_by_hand, [migrations.RunSQL("CREATE INDEX CONCURRENTLY p ON jobs_job (id)")], 0),
        (left_alone, [AddConstraintNotValid("job", CHECK)], 1),
        (left_alone, [AddConstraintNotValid("job", CHECK), COMMENT], 1),
        (left_alone, [AddConstraintNotValid("job", CHECK), VALIDATED], 1),
        (left_alone, [AddConstraintNotValid("job", CHECK), COMMENT, VALIDATED], 0),
        (left_alone, [NEW_COLUMN, AddConstraintNotValid("job", CHECK), VALIDATED], 0),
        (left_alone, [NEW_COLUMN, AddConstraintNotValid("job", CHECK)], 1),
    ],
)
def test_a_planted_violation_is_found(rule: Any, operations: list[Any], found: int) -> None:
    assert len(list(rule([("jobs", operation) for operation in operations]))) == found
