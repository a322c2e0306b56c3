"""A state, written as the file that would give it."""

from __future__ import annotations

from collections.abc import Iterator

from jobs.configuration.members import key, quoted
from jobs.configuration.plan import State, digest_of
from jobs.configuration.sections import SECTIONS, Section, Values


def toml(state: State) -> str:
    """Return the file that gives a state: every section, also where it is empty."""
    return "\n".join(_lines(state)) + "\n"


def _lines(state: State) -> Iterator[str]:
    yield f"# manage.py apply_governance FILE --expect {digest_of(state)}"
    for section in SECTIONS:
        if not state[section.name] and not section.by_name:
            yield f"{section.name} = []"
    for section in SECTIONS:
        rows = state[section.name]
        if section.by_name and not rows:
            yield from ("", f"[{section.name}]")
        for names, values in sorted(rows.items()):
            yield ""
            yield from _entry(section, names, values)


def _entry(section: Section, names: tuple[str, ...], values: Values) -> Iterator[str]:
    if section.by_name:
        yield f"[{section.name}.{key(names[0])}]"
    else:
        yield f"[[{section.name}]]"
        for name, value in zip(section.names, names, strict=True):
            if value:
                yield f"{name} = {quoted(value)}"
    for member in section.members:
        value = values[member.name]
        # What is nothing, and can be nothing else, is not said.
        if (value is None and not member.nullable) or value == "":
            continue
        yield f"{member.name} = {member.text(value)}"
