"""The worker's identities against the published vectors."""

import json
from pathlib import Path

import pytest

from fencepost_worker.identity import (
    canonical,
    checked_attempt,
    external_request_id,
    folder_name,
    route_request_id,
    sha256_hex,
)

ROOT = Path(__file__).resolve().parents[2]
VECTORS = json.loads((ROOT / "docs/reference/identity-vectors.json").read_text())


@pytest.mark.parametrize("vector", VECTORS["canonical"], ids=lambda v: v["about"])
def test_canonical_bytes_are_the_published_ones(vector):
    assert canonical(json.loads(vector["json"])).decode() == vector["canonical"]


@pytest.mark.parametrize("vector", VECTORS["execution_digest"], ids=lambda v: v["about"])
def test_an_execution_digest_is_the_published_one(vector):
    assert sha256_hex(canonical(vector["payload"])) == vector["execution_digest"]


@pytest.mark.parametrize("vector", VECTORS["external_request_id"], ids=lambda v: v["about"])
def test_an_external_request_id_is_the_published_one(vector):
    found = external_request_id(**vector["identity"])

    assert found == vector["external_request_id"]
    for call, expected in vector["route_request_ids"].items():
        assert route_request_id(found, call=int(call)) == expected


@pytest.mark.parametrize("vector", VECTORS["refused"], ids=lambda v: v["about"])
def test_what_is_not_an_identity_has_no_id(vector):
    with pytest.raises(ValueError):
        external_request_id(**vector["identity"])


@pytest.mark.parametrize("attempt", [0, -1, True, False, "1", 1.0, None])
def test_an_attempt_is_an_integer_from_one(attempt):
    with pytest.raises(ValueError):
        checked_attempt(attempt)


@pytest.mark.parametrize("task_id", ["..", ".", "a/b", "a\0b", "~", "x" * 100, "ä b"])
def test_a_folder_name_is_never_a_path(task_id):
    name = folder_name(task_id)

    assert "/" not in name and "\0" not in name and not name.startswith(".")
    assert len(name) <= 80
    assert name != folder_name(task_id + "_")
