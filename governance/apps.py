from django.apps import AppConfig


class GovernanceConfig(AppConfig):
    name = "governance"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from governance import checks, metrics  # noqa: F401 - checks registers itself
        from governance.gauges import gauges

        metrics.register(gauges)
