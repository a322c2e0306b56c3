from django.apps import AppConfig


class JobsConfig(AppConfig):
    name = "jobs"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from agents import workload
        from governance.core import verbs
        from governance.money import proofs, room, scopes
        from governance.operations import failures
        from governance.relay import pulse
        from governance.web import metrics
        from jobs import console, triggers  # noqa: F401 - pages and triggers register themselves
        from jobs.metrics import gauges
        from jobs.models import JobType
        from jobs.operations.isolation import diagnose
        from jobs.proofs import EXTENSIONS
        from jobs.room import wake
        from jobs.scopes import READ_OF_JOB
        from jobs.verbs import VERBS
        from jobs.waiting import SWEEPER, SWEEPER_SILENT_SECONDS, setting_aside_stopped
        from jobs.workload import JobsWorkload

        verbs.register(*VERBS)
        proofs.compare(EXTENSIONS)
        workload.provide(JobsWorkload())
        metrics.register(gauges)
        room.wakers.append(wake)
        failures.diagnosers.append(diagnose)
        pulse.expect(SWEEPER, within_seconds=SWEEPER_SILENT_SECONDS)
        pulse.alarm("set-aside", setting_aside_stopped)
        scopes.read_of_jobs(READ_OF_JOB)
        scopes.know("job_type", lambda name: JobType.objects.filter(name=name).exists())
