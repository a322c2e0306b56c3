from django.apps import AppConfig


class GovernanceConfig(AppConfig):
    name = "governance"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from governance import checks, triggers  # noqa: F401 - they register themselves
        from governance.console import (  # noqa: F401 - so do pages
            corrections,
            disputes,
            ground,
            limits,
            money,
            outside,
            spend,
            streams,
        )
        from governance.core import verbs
        from governance.evidence.outside import VERBS as OUTSIDE_VERBS
        from governance.money import proofs
        from governance.money.entries import ENTRIES
        from governance.money.limit_verbs import VERBS as LIMIT_VERBS
        from governance.money.verbs import VERBS as MONEY_VERBS
        from governance.relay.verbs import VERBS as RELAY_VERBS
        from governance.web import metrics
        from governance.web.gauges import gauges, money_gauges

        verbs.register(*MONEY_VERBS, *LIMIT_VERBS, *OUTSIDE_VERBS, *RELAY_VERBS)
        for entries in ENTRIES:
            proofs.compare(entries)
        metrics.register(gauges)
        metrics.register(money_gauges)
