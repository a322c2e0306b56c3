"""Two roles for one database: the owner of its tables, and the service that works in them.

Whoever owns a table can disable its triggers, alter it and empty it; the service may do none of
that, so that nothing it runs can get past the rules that the database holds.  Migrations run as
the owner.
"""

from __future__ import annotations

from psycopg import sql

SCHEMA = "public"
#: What the service does to rows. Not TRUNCATE, and nothing that takes ownership.
ROWS = sql.SQL("SELECT, INSERT, UPDATE, DELETE")
SEQUENCES = sql.SQL("USAGE, SELECT")


def made(role: str, *, password: str = "") -> sql.Composed:
    """Return the statement that makes a role, unless it is there."""
    words = sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(role))
    if password:
        words += sql.SQL(" PASSWORD {}").format(sql.Literal(password))
    absent = sql.SQL("SELECT FROM pg_roles WHERE rolname = {}").format(sql.Literal(role))
    return sql.SQL("DO $$ BEGIN IF NOT EXISTS ({}) THEN {}; END IF; END $$").format(absent, words)


def granted(*, owner: str, service: str, database: str) -> list[sql.Composed]:
    """Return the statements that let the service work in what the owner owns, now and later.

    They may be run again. Whoever runs them is the owner or a superuser.
    """
    names = {
        "owner": sql.Identifier(owner),
        "service": sql.Identifier(service),
        "database": sql.Identifier(database),
        "schema": sql.Identifier(SCHEMA),
        "rows": ROWS,
        "sequences": SEQUENCES,
    }
    statements = (
        "GRANT CONNECT, TEMPORARY ON DATABASE {database} TO {service}",
        "GRANT USAGE ON SCHEMA {schema} TO {service}",
        "GRANT {rows} ON ALL TABLES IN SCHEMA {schema} TO {service}",
        "GRANT {sequences} ON ALL SEQUENCES IN SCHEMA {schema} TO {service}",
        "ALTER DEFAULT PRIVILEGES FOR ROLE {owner} IN SCHEMA {schema}"
        " GRANT {rows} ON TABLES TO {service}",
        "ALTER DEFAULT PRIVILEGES FOR ROLE {owner} IN SCHEMA {schema}"
        " GRANT {sequences} ON SEQUENCES TO {service}",
    )
    return [sql.SQL(statement).format(**names) for statement in statements]


def split(*, owner: str, service: str, database: str) -> list[sql.Composed]:
    """Return the statements by which a superuser takes a database from its service.

    What the service owned in it is the owner's from then on; the service works in it as before.
    """
    return [
        made(owner),
        sql.SQL("ALTER DATABASE {} OWNER TO {}").format(
            sql.Identifier(database), sql.Identifier(owner)
        ),
        sql.SQL("REASSIGN OWNED BY {} TO {}").format(
            sql.Identifier(service), sql.Identifier(owner)
        ),
        # What a schema's owner may do is the database owner's since PostgreSQL 15.
        sql.SQL("REVOKE CREATE ON SCHEMA {} FROM {}").format(
            sql.Identifier(SCHEMA), sql.Identifier(service)
        ),
        *granted(owner=owner, service=service, database=database),
    ]
