from typing import Any

from jobs import transitions
from jobs.management.verbs import VerbCommand
from jobs.transitions import Outcome


class Command(VerbCommand):
    help = "Withdraw the approval of queued jobs; each is held again."

    def move(self, *, task_id: str, **asked: Any) -> Outcome:
        return transitions.withdraw_approval(task_id=task_id, **asked)
