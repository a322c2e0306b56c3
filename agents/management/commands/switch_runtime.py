from __future__ import annotations

import time
from typing import Any

from django.core.management.base import CommandError, CommandParser

from agents.management.acting import ActingCommand
from agents.models import RuntimeSwitch
from agents.transitions import switches
from governance.core.errors import DomainError

POLL_SECONDS = 1.0
TIMEOUT_SECONDS = 900.0


class Command(ActingCommand):
    help = (
        "Switch the runtime of an agent, step by step: inhibit, drain, switch, wait until its "
        "workers are fresh under the new runtime, lift, wait for a healthy guard. Ends verified, "
        "or failed with the inhibit in force. A switch that was interrupted is taken up again."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("agent")
        parser.add_argument("runtime")
        parser.add_argument("--timeout-seconds", type=float, default=TIMEOUT_SECONDS)
        parser.add_argument("--poll-seconds", type=float, default=POLL_SECONDS)

    def act(
        self, *, agent: str, runtime: str, actor: str, reason: str, **options: Any
    ) -> dict[str, Any]:
        switch = RuntimeSwitch.objects.filter(
            agent__name=agent, to_runtime=runtime, state=RuntimeSwitch.State.RUNNING
        ).first() or switches.begin(agent=agent, runtime=runtime, actor=actor, reason=reason)
        try:
            switch = self._drive(switch, actor, options["timeout_seconds"], options["poll_seconds"])
        except (DomainError, KeyboardInterrupt) as stopped:
            error = str(stopped) or "Interrupted by the operator."
            switch = switches.give_up(switch_id=switch.pk, actor=actor, error=error)
        if switch.state != RuntimeSwitch.State.VERIFIED:
            raise CommandError(
                f"The switch has failed: {switch.error} The inhibit {switch.inhibit_id} stays in "
                f"force until it is lifted (lift_inhibit); {agent} stays drained until it is "
                "opened (set_admission)."
            )
        return {
            "switch_id": switch.pk,
            "state": switch.state,
            "steps": [step["step"] for step in switch.steps],
        }

    def _drive(
        self, switch: RuntimeSwitch, actor: str, timeout_s: float, poll_s: float
    ) -> RuntimeSwitch:
        """Advance until the switch has ended; give it up when the time is over."""
        until = time.monotonic() + timeout_s
        printed = ""
        while switch.state == RuntimeSwitch.State.RUNNING:
            before = switch.step
            switch = switches.advance(switch_id=switch.pk, actor=actor)
            if switch.state != RuntimeSwitch.State.RUNNING or switch.step != before:
                continue
            waiting = switches.waits_for(switch)
            if waiting != printed:
                self.stderr.write(f"waiting for {waiting}")
                printed = waiting
            if time.monotonic() >= until:
                error = f"Waited {timeout_s:.0f} s for {waiting}."
                return switches.give_up(switch_id=switch.pk, actor=actor, error=error)
            time.sleep(poll_s)
        return switch
