"""Small pictures as inline SVG: no script, no style attribute, colours by class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString


@dataclass(frozen=True)
class Series:
    """One line of values, oldest first. `tone` is a colour class: `good`, `bad`, `plain`."""

    name: str
    values: Sequence[int]
    tone: str = "plain"

    @property
    def total(self) -> int:
        return sum(self.values)


def bars(series: Series, *, label: str, width: int = 240, height: int = 40) -> SafeString:
    """Return a bar chart of the values, its largest named; an empty one is a base line."""
    count = max(1, len(series.values))
    top = max([*series.values, 1])
    step = width / count
    drawn = format_html_join(
        "",
        '<rect x="{}" y="{}" width="{}" height="{}"></rect>',
        (
            (
                round(index * step, 2),
                round(height - value / top * (height - 2), 2),
                round(max(step - 0.8, 0.6), 2),
                round(value / top * (height - 2), 2),
            )
            for index, value in enumerate(series.values)
            if value
        ),
    )
    return format_html(
        '<svg class="bars tone-{}" viewBox="0 0 {} {}" role="img" aria-label="{}" '
        'preserveAspectRatio="none"><line x1="0" y1="{}" x2="{}" y2="{}"></line>{}</svg>',
        series.tone, width, height, label, height - 0.5, width, height - 0.5, drawn,
    )  # fmt: skip


def gauge(parts: Sequence[tuple[str, float]], *, label: str, width: int = 240) -> SafeString:
    """Return one bar filled from the left by `(tone, share)` parts; shares are in [0, 1]."""
    rects, x = [], 0.0
    for tone, share in parts:
        length = max(0.0, min(share, 1 - x / width)) * width
        rects.append((tone, round(x, 2), round(length, 2)))
        x += length
    drawn = format_html_join(
        "", '<rect class="tone-{}" x="{}" y="0" width="{}" height="10"></rect>', rects
    )
    return format_html(
        '<svg class="gauge" viewBox="0 0 {} 10" role="img" aria-label="{}" '
        'preserveAspectRatio="none">{}</svg>',
        width, label, drawn,
    )  # fmt: skip


@dataclass(frozen=True)
class Span:
    """A stretch of a life line in one state; `start` and `end` are shares in [0, 1]."""

    state: str
    start: float
    end: float
    title: str


def lifeline(spans: Sequence[Span], *, label: str, width: int = 1000) -> SafeString:
    """Return a band of one coloured stretch per state, each with its words as a title."""
    drawn = format_html_join(
        "",
        '<rect class="state-{}" x="{}" y="0" width="{}" height="24"><title>{}</title></rect>',
        (
            (
                span.state,
                round(span.start * width, 2),
                round(max((span.end - span.start) * width, 2), 2),
                span.title,
            )
            for span in spans
        ),
    )
    return format_html(
        '<svg class="lifeline" viewBox="0 0 {} 24" role="img" aria-label="{}" '
        'preserveAspectRatio="none">{}</svg>',
        width, label, drawn,
    )  # fmt: skip
