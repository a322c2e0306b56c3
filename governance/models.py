"""The models of the rooms, where Django looks for those of the app `governance`.

Code imports a model from its room; nothing imports this module.
"""

from governance.console import models as console
from governance.core import models as core
from governance.evidence import models as evidence
from governance.money import corrections, disputes, hours, limits, notes, uses
from governance.money import models as money
from governance.relay import models as relay

__all__ = [
    "console",
    "core",
    "corrections",
    "disputes",
    "evidence",
    "hours",
    "limits",
    "money",
    "notes",
    "relay",
    "uses",
]
