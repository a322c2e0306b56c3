"""Characters that are not seen: the list is Unicode's, here and in the database."""

from __future__ import annotations

import sys
import unicodedata

import pytest
from django.db import connection

from governance.core.characters import UNSEEN, blank, shown, unseen

UNSEEN_CATEGORIES = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def by_category() -> tuple[set[str], set[str]]:
    """Return the characters that are not seen and those that are, without the unassigned."""
    hidden, seen = set(), set()
    for code in range(sys.maxunicode + 1):
        category = unicodedata.category(chr(code))
        if category != "Cn":
            (hidden if category in UNSEEN_CATEGORIES else seen).add(chr(code))
    return hidden, seen


def test_the_unseen_are_those_of_the_categories_of_unicode():
    hidden, seen = by_category()

    assert {c for c in hidden if not unseen(c)} == set()
    assert {c for c in seen if unseen(c)} == set()


@pytest.mark.django_db
def test_the_database_means_the_same_by_the_same_expression():
    hidden, seen = by_category()
    stored = sorted(hidden - {"\0"} - {chr(code) for code in range(0xD800, 0xE000)})
    others = sorted(seen)[::97]
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FILTER (WHERE c ~ %s), count(*) FROM unnest(%s::text[]) AS c",
            [f"[/{UNSEEN}]", stored],
        )
        assert cursor.fetchone() == (len(stored), len(stored))
        cursor.execute(
            "SELECT count(*) FROM unnest(%s::text[]) AS c WHERE c ~ %s", [others, f"[{UNSEEN}]"]
        )
        assert cursor.fetchone() == (0,)


@pytest.mark.parametrize(
    ("text", "nothing"),
    [
        ("", True),
        (" \n\u3000", True),
        ("\u200b \u202e", True),
        ("a", False),
        ("\u200b\u6771", False),
    ],
)
def test_a_text_is_blank_where_nothing_of_it_is_seen(text, nothing):
    assert blank(text) is nothing


def test_they_are_told_by_number_each_once():
    assert unseen("pay \u202ela\u202e\u200b") == ["U+200B", "U+202E"]
    assert unseen("größer 東京 👍") == []


def test_they_are_shown_by_number_and_the_layout_stays():
    assert shown("<p>\n\tpay \u202eyppah</p>\r\n") == "<p>\n\tpay [U+202E]yppah</p>\r\n"
    assert shown("a\x00b\x0bc\u2028d\U000e0041") == "a[U+0000]b[U+000B]c[U+2028]d[U+E0041]"
    assert shown("größer\u202f1\u00a0000") == "größer\u202f1\u00a0000"
