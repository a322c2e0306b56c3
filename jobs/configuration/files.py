"""Configuration files, read: TOML or YAML, every fault with its place, before anything is done."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import yaml

from jobs.configuration.members import Member
from jobs.configuration.sections import BY_NAME, Key, Rows, Section

#: More than any installation has to say.
FILE_BYTES_MAX = 4 * 1024 * 1024
YAML_SUFFIXES = (".yaml", ".yml")
_DECIMAL = re.compile(r"[-+]?(\d[\d_]*\.\d*|\.\d+|\d[\d_]*)([eE][-+]?\d+)?", re.ASCII)


class FileWrong(Exception):
    """The file cannot be applied. `faults` name their places, a line each."""

    def __init__(self, faults: list[str]) -> None:
        super().__init__("\n".join(faults))
        self.faults = faults


@dataclass
class Wanted:
    """What a file wants: its sections, and where each entry and member stands in it."""

    sections: dict[str, Rows] = field(default_factory=dict)
    places: dict[tuple[str, Key], str] = field(default_factory=dict)


def read(path: Path) -> Wanted:
    """Return what a file wants.

    :raises FileWrong: it cannot be read, or names what there is not; every fault is listed.
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise FileWrong([f"{path.name}: {error.strerror}"]) from error
    if len(raw) > FILE_BYTES_MAX:
        raise FileWrong([f"{path.name}: more than {FILE_BYTES_MAX} bytes"])
    is_yaml = path.suffix in YAML_SUFFIXES
    try:
        text = raw.decode()
        tree = _yaml(text) if is_yaml else tomllib.loads(text, parse_float=Decimal)
    except (tomllib.TOMLDecodeError, yaml.YAMLError, ValueError, RecursionError) as error:
        raise FileWrong([f"{path.name}: {' '.join(str(error).split())}"]) from error
    return _Reader(path.name, _Lines("" if is_yaml else text)).wanted(tree)


def _yaml(text: str) -> Any:
    return yaml.load(text, Loader=_Loader)  # noqa: S506 - it is a safe loader


class _Loader(yaml.SafeLoader):
    """YAML without its traps: no member twice, no decimal that is not what was written."""

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        seen = set()
        for key, _ in node.value:
            name = self.construct_object(key, deep=True)
            if not isinstance(name, str):
                raise yaml.constructor.ConstructorError(
                    None, None, f"{name!r} is no name; put it in quotes", key.start_mark
                )
            if name in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"{name} is there twice", key.start_mark
                )
            seen.add(name)
        return super().construct_mapping(node, deep=deep)

    def decimal(self, node: Any) -> Decimal | float:
        text = self.construct_scalar(node)
        if not _DECIMAL.fullmatch(text):
            raise yaml.constructor.ConstructorError(
                None, None, f"{text} is no number", node.start_mark
            )
        return Decimal(text.replace("_", ""))


_Loader.add_constructor("tag:yaml.org,2002:float", _Loader.decimal)


@dataclass
class _Reader:
    """Reads a tree, and collects every fault."""

    name: str
    lines: _Lines
    faults: list[str] = field(default_factory=list)
    found: Wanted = field(default_factory=Wanted)

    def wanted(self, tree: Any) -> Wanted:
        if not isinstance(tree, Mapping):
            raise FileWrong([f"{self.name}: it has no sections"])
        for name, entries in tree.items():
            section = BY_NAME.get(name)
            if section is None:
                self.fault(
                    self.lines.section(name),
                    name,
                    f"There is no section of that name.{_near(name, BY_NAME)}",
                )
                continue
            self.found.sections[name] = rows = {}
            for place, line, key, members in self.entries(section, entries):
                if key in rows:
                    self.fault(line, place, "It is there twice.")
                rows[key] = self.members(section, place, line, members)
                self.found.places[name, key] = self.at(line, place)
        if self.faults:
            raise FileWrong(self.faults)
        return self.found

    def entries(
        self, section: Section, entries: Any
    ) -> Iterator[tuple[str, int, Key, dict[str, Any]]]:
        """Yield the place, the line, the key and the members of each entry."""
        kind = dict if section.by_name else list
        if not isinstance(entries, kind):
            words = f"[{section.name}.NAME]" if section.by_name else f"[[{section.name}]]"
            self.fault(self.lines.section(section.name), section.name, f"It is made of {words}.")
            return
        numbered: Iterable[tuple[Any, Any]]
        numbered = entries.items() if isinstance(entries, dict) else enumerate(entries)
        for number, members in numbered:
            place = f"{section.name}.{number}" if section.by_name else f"{section.name}[{number}]"
            line = self.lines.entry(section, number)
            if not isinstance(members, Mapping):
                self.fault(line, place, "It must be a table.")
                continue
            members = dict(members)
            if section.by_name:
                yield place, line, (str(number),), members
                continue
            key = tuple(
                self.naming(name, members.pop(name, ""), place, line) for name in section.names
            )
            yield place, line, key, members

    def naming(self, name: str, given: Any, place: str, line: int) -> str:
        if isinstance(given, str):
            return given
        self.fault(self.lines.member(line, name), f"{place}.{name}", "It must be a text.")
        return ""

    def members(
        self, section: Section, place: str, line: int, given: dict[str, Any]
    ) -> dict[str, Any]:
        """Return the values of an entry's members."""
        values: dict[str, Any] = {}
        for name, value in given.items():
            member = section.member(name)
            at = self.lines.member(line, name)
            if member is None:
                known = [*section.names, *(each.name for each in section.members)]
                self.fault(
                    at, f"{place}.{name}", f"There is no member of that name.{_near(name, known)}"
                )
            else:
                self.value(member, value, values, f"{place}.{name}", at)
        return values

    def value(
        self, member: Member, given: Any, values: dict[str, Any], place: str, line: int
    ) -> None:
        try:
            values[member.name] = member.value(given)
        except RecursionError:
            self.fault(line, place, "It is nested too deep.")
        except ValueError as fault:
            self.fault(line, place, str(fault))

    def fault(self, line: int, place: str, detail: str) -> None:
        self.faults.append(f"{self.at(line, place)}: {detail}")

    def at(self, line: int, place: str) -> str:
        return f"{self.name}:{line}: {place}" if line else f"{self.name}: {place}"


class _Lines:
    """Where entries and members stand in a TOML text, as far as their headers tell; else 0."""

    HEADER = re.compile(r"\s*\[{1,2}\s*([^\]]+?)\s*\]{1,2}\s*(#.*)?")

    def __init__(self, text: str) -> None:
        self.lines = text.splitlines()
        self.headers: list[tuple[int, str]] = [
            (number, found[1].replace('"', "").replace("'", "").replace(" ", ""))
            for number, line in enumerate(self.lines, 1)
            if (found := self.HEADER.fullmatch(line))
        ]

    def section(self, name: str) -> int:
        """Return the first line that names a section."""
        named = (n for n, path in self.headers if path == name or path.startswith(f"{name}."))
        return next(named, 0) or self._assigned(name, range(len(self.lines)))

    def entry(self, section: Section, number: Any) -> int:
        """Return the line of an entry's header."""
        if section.by_name:
            path = f"{section.name}.{number}".replace(" ", "")
            return next((line for line, found in self.headers if found == path), 0)
        lines = [line for line, found in self.headers if found == section.name]
        return lines[number] if number < len(lines) else 0

    def member(self, line: int, name: str) -> int:
        """Return the line of a member below an entry's header, or the header's."""
        if not line:
            return 0
        end = next((number for number, _ in self.headers if number > line), len(self.lines) + 1)
        return self._assigned(name, range(line, end - 1)) or line

    def _assigned(self, name: str, places: Iterable[int]) -> int:
        assigned = re.compile(rf"""\s*["']?{re.escape(name)}["']?\s*[.=].*""")
        return next((at + 1 for at in places if assigned.fullmatch(self.lines[at])), 0)


def _near(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), n=1)
    return f" Is {close[0]} meant?" if close else ""
