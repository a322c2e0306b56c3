"""The versions of the wire protocol that this service speaks: `MAJOR` or `MAJOR.MINOR`."""

from __future__ import annotations

import re

from governance.core.errors import ProtocolUnsupported

PROTOCOL_MIN = (1, 0)
PROTOCOL_MAX = (1, 0)

_VERSION = re.compile(r"(\d{1,4})(?:\.(\d{1,4}))?", re.ASCII)


def check_protocol(text: str) -> None:
    """Refuse a version that this service does not speak. No version is the newest.

    :raises ProtocolUnsupported: with the supported range as `current`.
    """
    if not text:
        return
    found = _VERSION.fullmatch(text.strip())
    if found is not None and PROTOCOL_MIN <= (int(found[1]), int(found[2] or 0)) <= PROTOCOL_MAX:
        return
    raise ProtocolUnsupported(current={"supported": supported_protocols()})


def supported_protocols() -> dict[str, str]:
    """Return the range of versions that this service speaks."""
    return {
        "min": ".".join(map(str, PROTOCOL_MIN)),
        "max": ".".join(map(str, PROTOCOL_MAX)),
    }
