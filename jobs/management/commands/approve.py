from agents.management.verbs import VerbCommand
from jobs.verbs.job import APPROVE


class Command(VerbCommand):
    verb = APPROVE
