"""Tags and filters of the console's pages."""

from __future__ import annotations

from datetime import datetime

from django import template
from django.conf import settings
from django.utils.html import format_html
from django.utils.safestring import SafeString

from governance.console import drawing, wording

register = template.Library()

register.filter("duration", wording.duration)
register.filter("mark", wording.mark)
register.filter("stamp", wording.stamp)
register.filter("grouped", wording.number)
register.filter("pretty", wording.pretty)
register.filter("usd", wording.usd)
register.filter("as_words", wording.as_words)


@register.filter
def ago(at: datetime | None, now: datetime) -> SafeString | str:
    """Return the distance between two instants, for the eye: `{{ at|ago:as_of }}`."""
    return wording.ago(at, now)


@register.filter
def instant(at: datetime | None) -> SafeString | str:
    """Return an instant in UTC with seconds: `{{ at|instant }}`."""
    if not at:
        return "-"
    return format_html('<time datetime="{}">{}</time>', at.isoformat(), wording.stamp(at))


@register.simple_tag
def progress(share: float, tone: str = "good", label: str = "") -> SafeString:
    """Draw a bar that is filled up to `share` in [0, 1]: `{% progress share %}`."""
    return drawing.gauge([(tone, share)], label=label or f"{share:.0%}")


@register.simple_tag
def issuer_name() -> str:
    """Return what the issuer is called where people sign in: `{% issuer_name %}`."""
    return settings.OIDC_NAME
