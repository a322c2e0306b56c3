"""Write the evidence of one job to a file that can be verified without this installation."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from agents.management.acting import add_actor
from governance.core.audit import shell_actor
from governance.core.errors import NotFound
from jobs import evidence


class Command(BaseCommand):
    help = (
        "Export the evidence of a job as a ZIP file: its signed envelope, its audit chain with the "
        "proof to a signed checkpoint, attempts, decisions, executions and money. The verifier "
        "goes along; --verifier prints it alone."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("task_id", nargs="?", help="the job's task id")
        parser.add_argument("--out", type=Path, help="the file to write; replaced as a whole")
        parser.add_argument(
            "--with-payloads", action="store_true", help="inputs and results too, not only digests"
        )
        add_actor(parser)
        parser.add_argument(
            "--verifier", action="store_true", help="print verify_evidence.py, and export nothing"
        )

    def handle(
        self,
        *,
        task_id: str | None,
        out: Path | None,
        with_payloads: bool,
        actor: str,
        verifier: bool,
        **options: Any,
    ) -> None:
        if verifier:
            self.stdout.write(evidence.verifier().decode(), ending="")
            return
        if not task_id or out is None:
            raise CommandError("TASK_ID and --out FILE are needed, or --verifier.")
        exported = self._export(task_id, out, with_payloads, actor or shell_actor())
        self.stdout.write(self.style.SUCCESS(f"{exported.members} members in {out}."))
        keys = " ".join(f"--key-fingerprint {keyid}" for keyid in exported.signers)
        self.stdout.write(f"To verify: python verify_evidence.py {out.name} {keys}")
        if exported.unsealed:
            first, last = exported.unsealed
            self.stderr.write(f"No checkpoint covers the job's events {first} to {last} yet.")

    def _export(
        self, task_id: str, out: Path, with_payloads: bool, actor: str
    ) -> evidence.Exported:
        part = out.with_name(out.name + ".part")
        try:
            with os.fdopen(
                os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb"
            ) as file:
                exported = evidence.export(
                    task_id=task_id, out=file, with_payloads=with_payloads, actor=actor
                )
                file.flush()
                os.fsync(file.fileno())
            part.replace(out)
        except (OSError, NotFound) as error:
            part.unlink(missing_ok=True)
            raise CommandError(str(error)) from error
        return exported
