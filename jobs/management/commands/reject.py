from agents.management.verbs import VerbCommand
from jobs.verbs.job import REJECT


class Command(VerbCommand):
    verb = REJECT
