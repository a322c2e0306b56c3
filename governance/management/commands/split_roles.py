"""Print or run what lets the service work in a database without owning its tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError, connection, transaction
from psycopg import sql

from governance.core.ownership import as_owner, owns_tables
from governance.local import roles

PASSWORD_CHARS_MIN = 16


class Command(BaseCommand):
    help = (
        "Print the SQL that makes a role which works in the tables and owns none. With --run, run "
        "it as the role of DATABASE_OWNER_URL, or of DATABASE_URL where that is the only one."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--service", required=True, metavar="ROLE", help="the service's role")
        parser.add_argument("--run", action="store_true", help="run it instead of printing it")
        parser.add_argument(
            "--password-file",
            type=Path,
            metavar="FILE",
            help="the password of the role, where --run has to make it",
        )

    def handle(
        self, *, service: str, run: bool, password_file: Path | None, **options: Any
    ) -> None:
        with as_owner():
            database, owner, owned = _where()
            if owner == service:
                raise CommandError(f"{service} owns the tables: name another role.")
            # Of a new database there are no tables yet.
            if not (owned or owns_tables()):
                raise CommandError(
                    f"{owner} does not own the database: give its owner in DATABASE_OWNER_URL."
                )
            password = _password(password_file) if run else ""
            made = roles.made(service, password=password)
            granted = roles.granted(owner=owner, service=service, database=database)
            if run:
                self._run([made, *granted], service)
            else:
                self._print(made, granted, owner)

    def _print(self, made: sql.Composed, granted: list[sql.Composed], owner: str) -> None:
        self.stdout.write("-- As a role that may make roles; give it a password afterwards.")
        self.stdout.write(f"{made.as_string()};")
        self.stdout.write(f"-- As {owner}.")
        for statement in granted:
            self.stdout.write(f"{statement.as_string()};")

    @transaction.atomic
    def _run(self, statements: list[sql.Composed], service: str) -> None:
        try:
            with connection.cursor() as cursor:
                for statement in statements:
                    cursor.execute(statement.as_string())
        except DatabaseError as error:
            raise CommandError(f"Nothing was changed: {' '.join(str(error).split())}") from error
        self.stdout.write(
            f"{service} may work in the tables. Give it in DATABASE_URL, and the owner in "
            "DATABASE_OWNER_URL."
        )


def _where() -> tuple[str, str, bool]:
    """Return the database, the role at work, and whether it owns the database."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT datname, current_user, pg_has_role(current_user, datdba, 'USAGE')"
            " FROM pg_database WHERE datname = current_database()"
        )
        database, role, owned = cursor.fetchone()
    return database, role, owned


def _password(file: Path | None) -> str:
    """Return the password in a file, "" without a file.

    :raises CommandError: it cannot be read, or is short.
    """
    if file is None:
        return ""
    try:
        password = file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{file} cannot be read: {error}") from error
    if len(password) < PASSWORD_CHARS_MIN:
        raise CommandError(f"A password has at least {PASSWORD_CHARS_MIN} characters.")
    return password
