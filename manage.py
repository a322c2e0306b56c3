#!/usr/bin/env python
"""Run a management command of Fencepost."""

import os
import sys

#: Commands that need no database, or see to it themselves.
WITHOUT_DATABASE = {"test", "help", "version", "--help", "--version", "check"}


def main() -> None:
    if sys.version_info < (3, 11):  # noqa: UP036 - this is who says so
        sys.exit(f"Fencepost needs Python 3.11 or newer; this is {sys.version.split()[0]}.")
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "governance.settings")
    from governance.local import embedded, folder

    server = None
    try:
        folder.usable(folder.data_folder())
        command = sys.argv[1] if len(sys.argv) > 1 else "help"
        if command not in WITHOUT_DATABASE:
            server = embedded.provide()
        from django.core.management import execute_from_command_line

        execute_from_command_line(sys.argv)
    except folder.EmbeddedError as error:
        sys.exit(f"fencepost: {error}")
    finally:
        # Its listener would take the end of the database for a failure.
        if (wakeups := sys.modules.get("jobs.wakeups")) is not None:
            wakeups.close()
        if server is not None:
            server.release()


if __name__ == "__main__":
    main()
