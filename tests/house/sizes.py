"""The house's sizes in lines: `make sizes`.

They are signs and no aim. Records of past schemas (migrations) do not count; blank lines and
comments do.
"""

from __future__ import annotations

from pathlib import Path
from statistics import median

from tests.house.checkout import MOVING, PACKAGES, ROOT
from tests.house.rooms import LINES_MAX


def lines_of(root: Path, *folders: str, without: str = "") -> dict[str, int]:
    """Return how many lines each Python file below the folders has, by its path below the root.

    :param without: the name of a folder that does not count.
    """
    return {
        path.relative_to(root).as_posix(): path.read_text(encoding="utf-8").count("\n")
        for folder in folders
        for path in sorted((root / folder).rglob("*.py"))
        if without not in path.relative_to(root / folder).parts
    }


def sizes(root: Path = ROOT) -> dict[str, float]:
    """Return the sizes by what they are of.

    :raises StatisticsError: there is no product below the root.
    """
    product, tests = lines_of(root, *PACKAGES, without="migrations"), lines_of(root, "tests")
    parts = {path: path.split("/") for path in product}
    worker = sum(n for path, n in product.items() if parts[path][:2] == ["agents", "worker"])
    core = sum(n for path, n in product.items() if parts[path][:2] == ["governance", "core"])
    moving = sum(n for path, n in product.items() if parts[path][1] in MOVING)
    return {
        "files": len(product),
        "lines": sum(product.values()),
        "lines without the worker": sum(product.values()) - worker,
        "lines of core, transitions and executions": core + moving,
        "median file": median(product.values()),
        f"files above {LINES_MAX} lines": sum(n > LINES_MAX for n in product.values()),
        "lines of tests": sum(tests.values()),
        f"files of tests above {LINES_MAX} lines": sum(n > LINES_MAX for n in tests.values()),
        "tests per line": round(sum(tests.values()) / sum(product.values()), 2),
    }


if __name__ == "__main__":
    for name, size in sizes().items():
        print(f"{size:>10,}  {name}")
