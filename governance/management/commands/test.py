from __future__ import annotations

import os
import sys
from pathlib import Path

from django.core.management.base import BaseCommand


class Command(BaseCommand):
    help = "Run the test suite with pytest; all arguments are pytest's."

    def run_from_argv(self, argv: list[str]) -> None:
        # The tests have settings of their own, and pytest is to find them in pyproject.toml.
        os.environ.pop("DJANGO_SETTINGS_MODULE", None)
        os.chdir(Path(__file__).resolve().parents[3])
        os.execv(sys.executable, [sys.executable, "-m", "pytest", *argv[2:]])  # noqa: S606
