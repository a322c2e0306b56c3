"""What every program of the `command` runtime does: read the request, tell progress, answer.

Needs nothing but Python. The documents' schemas are `docs/reference/execution-request.schema.json`
and `execution-result.schema.json`.
"""

import json
import os
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

INPUTS = Path(__file__).resolve().parent.parent / "inputs"
BOUND = ("external_request_id", "attempt", "execution_digest")


class Undoable(Exception):
    """The task cannot be done as it is stated; trying again would not help."""


def run(works: dict[str, Callable[[dict[str, Any]], dict[str, Any]]]) -> None:
    """Do the task with the work for its type, and write the result document."""
    request = json.load(sys.stdin)
    work = works.get(request["task_type"])
    try:
        if work is None:
            raise Undoable(f"this program does no {request['task_type']}")
        answer = {"outcome": "succeeded"} | work(request)
    except Undoable as error:
        answer = {
            "outcome": "failed",
            "error_code": "TASK_UNDOABLE",
            "error_message": str(error),
            "retryable": False,
        }
    json.dump({name: request[name] for name in BOUND} | answer, sys.stdout)


def input_folder(request: dict[str, Any]) -> Path:
    """Return the folder below `examples/inputs` that the task names.

    :raises Undoable: there is none of that name.
    """
    name = request["inputs"].get("folder")
    if not isinstance(name, str) or name not in {path.name for path in INPUTS.iterdir()}:
        raise Undoable(f"there is no input folder {name!r}")
    return INPUTS / name


def artifact(name: str, content: str, *, media_type: str) -> dict[str, Any]:
    """Write an artifact and return its entry for the result."""
    path = Path(os.environ["FENCEPOST_ARTIFACTS"]) / name
    path.write_text(content, encoding="utf-8")
    return {"name": name, "media_type": media_type}


def tell_progress(**progress: Any) -> None:
    """Tell how far the work is; the worker's heartbeats carry it."""
    path = Path(os.environ["FENCEPOST_PROGRESS"])
    new = path.with_suffix(".new")
    new.write_text(json.dumps(progress), encoding="utf-8")
    new.replace(path)


def ask_model(model: str, question: str) -> str:
    """Return what a model answers.

    Any SDK does the same from the same variables: the worker's gateway is at that address, and the
    provider's own key is the worker's.
    """
    body = {"model": model, "messages": [{"role": "user", "content": question}]}
    request = urllib.request.Request(
        f"{os.environ['OPENAI_BASE_URL']}/chat/completions",
        data=json.dumps(body).encode(),
        headers={
            "Authorization": f"Bearer {os.environ['OPENAI_API_KEY']}",
            "Content-Type": "application/json",
        },
    )
    with urllib.request.urlopen(request) as answer:
        text: str = json.load(answer)["choices"][0]["message"]["content"]
    return text
