from agents.management.verbs import VerbCommand
from jobs.verbs.job import WITHDRAW_APPROVAL


class Command(VerbCommand):
    verb = WITHDRAW_APPROVAL
