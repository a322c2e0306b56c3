from agents.management.verbs import OneVerbCommand
from jobs.verbs.execution import AUTHORIZE


class Command(OneVerbCommand):
    verb = AUTHORIZE
    positional = ("agent", "runtime")
