from agents.management.verbs import VerbCommand
from jobs.verbs.job import RESOLVE


class Command(VerbCommand):
    verb = RESOLVE
