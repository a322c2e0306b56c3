r"""Characters that are not seen, or that turn the text beside them around.

Names do not have them; in other text the console shows them by number, so that nothing on a page
looks like something that it is not.  They are the categories Cc, Cf, Cs, Zl and Zp of Unicode.

Source: Unicode Technical Report 36, 2.10 (bidirectional spoofing) and 3.1; CVE-2021-42574.
"""

from __future__ import annotations

import re

#: For the brackets of a regular expression, of Python and of PostgreSQL, whose text has neither
#: U+0000 nor surrogates. A constraint of `jobs_job` holds the same.
UNSEEN = (
    r"\u0001-\u001f\u007f-\u009f\u00ad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e"
    r"\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000110bd\U000110cd"
    r"\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0001"
    r"\U000e0020-\U000e007f"
)
_UNSEEN = re.compile(rf"[\x00\ud800-\udfff{UNSEEN}]")
#: What lays a page out is no part of its words.
_UNSEEN_ON_A_PAGE = re.compile(rf"(?![\t\n\r]){_UNSEEN.pattern}")


def _number(found: re.Match[str]) -> str:
    return f"U+{ord(found[0]):04X}"


def unseen(text: str) -> list[str]:
    """Return the characters of a name that it may not have, as `U+202E`, each once."""
    if text.isascii() and text.isprintable():
        return []
    return sorted({_number(found) for found in _UNSEEN.finditer(text)})


def blank(text: str) -> bool:
    """Return whether nothing of the text is seen: it is empty, or all white space and the like."""
    return not _UNSEEN.sub("", text).strip()


def shown(text: str) -> str:
    """Return the text with its unseen characters by number: `pay [U+202E]lla`."""
    if text.isascii() and text.isprintable():
        return text
    return _UNSEEN_ON_A_PAGE.sub(lambda found: f"[{_number(found)}]", text)
