from agents.management.verbs import OneVerbCommand
from jobs.verbs.execution import REVOKE


class Command(OneVerbCommand):
    verb = REVOKE
