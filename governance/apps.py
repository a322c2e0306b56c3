from django.apps import AppConfig


class GovernanceConfig(AppConfig):
    name = "governance"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from governance import checks, triggers  # noqa: F401 - they register themselves
        from governance.console import ground, money, money_acts, streams  # noqa: F401 - so do pages
        from governance.web import metrics
        from governance.web.gauges import gauges

        metrics.register(gauges)
