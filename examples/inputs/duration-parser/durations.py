"""Durations as people write them."""

UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def parse_seconds(text):
    """Return the seconds of a duration such as `90s` or `2h`.

    :raises ValueError: the text is not a duration.
    """
    number, unit = text[:-1], text[-1:]
    if unit not in UNIT_SECONDS:
        raise ValueError(f"not a duration: {text!r}")
    return int(number) * UNIT_SECONDS[unit]
