"""Produces documents: from notes and CSV samples a specification and a data contract."""

import csv
import hashlib
import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from worker_io import Undoable, artifact, ask_model, input_folder, run, tell_progress

#: What it asks for; its policy may let it have another.
MODEL = "standin-1"
MAX_ENUM_VALUES = 6
MAX_SAMPLES = 3
TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")

#: The first type that all values of a column have is the column's type.
TYPES: dict[str, Callable[[str], bool]] = {
    "boolean": lambda text: text in ("true", "false"),
    "integer": lambda text: re.fullmatch(r"-?\d+", text) is not None,
    "number": lambda text: re.fullmatch(r"-?\d+(\.\d+)?", text) is not None,
    "timestamp": lambda text: TIMESTAMP.fullmatch(text) is not None,
    "string": lambda text: True,
}


@dataclass(frozen=True)
class Column:
    """One column, as its sample shows it."""

    name: str
    values: list[str]
    rows: int

    @property
    def type(self) -> str:
        """The narrowest type of its values."""
        return next(name for name, fits in TYPES.items() if all(map(fits, self.values)))

    @property
    def required(self) -> bool:
        """Whether every row has a value."""
        return bool(self.values) and len(self.values) == self.rows

    @property
    def unique(self) -> bool:
        """Whether it could name a row."""
        return self.required and len(set(self.values)) == self.rows

    def contract(self) -> dict[str, Any]:
        """Return what a delivery must keep to."""
        rule: dict[str, Any] = {"name": self.name, "type": self.type, "required": self.required}
        if self.unique and self.type in ("integer", "string"):
            rule["unique"] = True
        if self.type in ("integer", "number"):
            numbers = [float(value) for value in self.values]
            rule |= {"seen_min": min(numbers), "seen_max": max(numbers)}
        distinct = sorted(set(self.values))
        if self.type == "string" and len(distinct) <= min(MAX_ENUM_VALUES, self.rows // 2):
            rule["values"] = distinct
        return rule


@dataclass(frozen=True)
class Table:
    """One CSV file."""

    name: str
    rows: int
    columns: list[Column]

    @property
    def key(self) -> str | None:
        """The first column that could name a row."""
        return next((c.name for c in self.columns if c.contract().get("unique")), None)


def read_table(path: Path) -> Table:
    """Read a CSV file with a header.

    :raises Undoable: it is empty or ragged.
    """
    with path.open(newline="", encoding="utf-8") as file:
        header, *rows = list(csv.reader(file)) or [[]]
    if not header or not rows or any(len(row) != len(header) for row in rows):
        raise Undoable(f"{path.name} is empty or its rows differ in length")
    columns = [
        Column(name, [row[place] for row in rows if row[place] != ""], len(rows))
        for place, name in enumerate(header)
    ]
    return Table(path.stem, len(rows), columns)


def references(tables: list[Table]) -> list[dict[str, str]]:
    """Return which columns point at another table's key, judged by name and by every value."""
    found = []
    for target in tables:
        keys = next((set(c.values) for c in target.columns if c.name == target.key), set())
        for table in tables:
            for column in table.columns:
                if table is not target and column.name == target.key and set(column.values) <= keys:
                    found.append(
                        {"from": f"{table.name}.{column.name}", "to": f"{target.name}.{target.key}"}
                    )
    return found


def data_contract(request: dict[str, Any], tables: list[Table], sources: list[Path]) -> dict:
    """Return the data contract document."""
    return {
        "contract": request["inputs"]["folder"],
        "made_for": request["task_id"],
        "sources": [
            {"file": path.name, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
            for path in sources
        ],
        "tables": [
            {
                "name": table.name,
                "key": table.key,
                "sample_rows": table.rows,
                "columns": [column.contract() for column in table.columns],
            }
            for table in tables
        ],
        "references": references(tables),
    }


def sections(path: Path) -> list[str]:
    """Return a note's lines with its headings one level lower, to stand inside a document."""
    return [
        f"#{line}" if line.startswith("#") else line
        for line in path.read_text(encoding="utf-8").splitlines()
    ]


def specification(request: dict[str, Any], contract: dict, notes: list[Path]) -> str:
    """Return the specification document as Markdown."""
    lines = [f"# {request['title']}", "", request["goal"], ""]
    for note in notes:
        lines += [*sections(note), ""]
    lines += ["## Data", ""]
    for table in contract["tables"]:
        lines += [
            f"### {table['name']}",
            "",
            f"Named by `{table['key']}`; {table['sample_rows']} rows in the sample.",
            "",
            "| column | type | required | says |",
            "|---|---|---|---|",
            *(
                f"| `{c['name']}` | {c['type']} | {c['required']} | {_says(c)} |"
                for c in table["columns"]
            ),
            "",
        ]
    lines += ["## References", ""]
    lines += [
        f"- `{link['from']}` names a row by `{link['to']}`" for link in contract["references"]
    ]
    lines += ["", "## Sources", "", "| file | SHA-256 |", "|---|---|"]
    lines += [f"| {source['file']} | `{source['sha256']}` |" for source in contract["sources"]]
    return "\n".join(lines) + "\n"


def _says(column: dict[str, Any]) -> str:
    if "values" in column:
        return "one of " + ", ".join(f"`{value}`" for value in column["values"])
    if "seen_min" in column:
        return f"seen from {column['seen_min']:g} to {column['seen_max']:g}"
    return "unique" if column.get("unique") else ""


def artifact_production(request: dict[str, Any]) -> dict[str, Any]:
    """Write the specification and the data contract of the task's input folder."""
    folder = input_folder(request)
    notes, samples = sorted(folder.glob("*.md")), sorted(folder.glob("*.csv"))
    if not samples:
        raise Undoable("there is no CSV sample to describe")
    tables = []
    for sample in samples:
        tables.append(read_table(sample))
        tell_progress(tables_read=len(tables), tables=len(samples))
    contract = data_contract(request, tables, [*notes, *samples])
    document = specification(request, contract, notes)
    name = request["inputs"]["folder"]
    return {
        "result": {
            "summary": f"{len(tables)} tables, {len(contract['references'])} references",
            "tables": [table.name for table in tables],
        },
        "artifacts": [
            artifact(f"{name}-specification.md", document, media_type="text/markdown"),
            artifact(
                f"{name}-contract.json",
                json.dumps(contract, indent=2) + "\n",
                media_type="application/json",
            ),
        ],
    }


def content_prep(request: dict[str, Any]) -> dict[str, Any]:
    """Write release notes: what a model says of them, and a line for each change."""
    if "OPENAI_BASE_URL" not in os.environ:
        raise Undoable("there is no model to ask")
    text = ask_model(MODEL, f"{request['title']}\n\n{request['goal']}")
    lines = [f"# {request['title']}", "", text, ""]
    lines += [f"- {name}: {value}" for name, value in sorted(request["inputs"].items())]
    notes = artifact("release-notes.md", "\n".join(lines) + "\n", media_type="text/markdown")
    return {"result": {"summary": text}, "artifacts": [notes]}


def healthcheck(request: dict[str, Any]) -> dict[str, Any]:
    """Say that this program can be started and answers."""
    return {"result": {"summary": "alive"}}


if __name__ == "__main__":
    run(
        {
            "artifact_production": artifact_production,
            "content_prep": content_prep,
            "healthcheck": healthcheck,
        }
    )
