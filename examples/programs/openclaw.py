"""Classifies short texts by the words that describe each label."""

import re
from typing import Any

from worker_io import Undoable, run, tell_progress

#: Below this share of the words found, a person should look.
SURE_SHARE = 0.6
UNLABELLED = "none"


def words_of(text: str) -> set[str]:
    """Return the words of a text, lower case."""
    return set(re.findall(r"[a-z][a-z-]*", text.lower()))


def label(text: str, labels: dict[str, list[str]]) -> dict[str, Any]:
    """Return the label whose words are most often in the text, and why.

    `confidence` is that label's share of all descriptive words found, from 0 to 1.
    """
    words = words_of(text)
    found = {name: sorted(words & set(described)) for name, described in labels.items()}
    total = sum(map(len, found.values()))
    if total == 0:
        return {"label": UNLABELLED, "confidence": 0.0, "because": []}
    best = max(sorted(found), key=lambda name: len(found[name]))
    return {
        "label": best,
        "confidence": round(len(found[best]) / total, 2),
        "because": found[best],
    }


def classification(request: dict[str, Any]) -> dict[str, Any]:
    """Label every item of the task."""
    labels, items = request["inputs"].get("labels"), request["inputs"].get("items")
    if not labels or not items:
        raise Undoable("classification needs labels and items")
    labelled = []
    for item in items:
        labelled.append({"id": item["id"]} | label(item["text"], labels))
        tell_progress(labelled=len(labelled), items=len(items))
    unsure = [item["id"] for item in labelled if item["confidence"] < SURE_SHARE]
    return {
        "result": {
            "summary": f"{len(labelled)} items, {len(unsure)} for a person",
            "items": labelled,
            "unsure": unsure,
        }
    }


def rewrite(request: dict[str, Any]) -> dict[str, Any]:
    """Return the task's text with white space put in order."""
    text = request["inputs"].get("text")
    if not isinstance(text, str):
        raise Undoable("rewrite needs a text")
    return {"result": {"text": re.sub(r"\s+", " ", text).strip()}}


if __name__ == "__main__":
    run({"classification": classification, "rewrite": rewrite})
