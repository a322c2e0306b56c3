"""The rules of the house that a program can check, each a function of a checkout.

A rule takes a `Checkout` and returns what breaks it, a line each.  It derives what it looks at from
the packages, and raises `NothingToCheck` where it finds nothing, so that a rule that has lost its
object is noticed.  `tests/test_architecture.py` holds the rules against this checkout, and against
copies of it with something planted.
"""

from __future__ import annotations

from tests.house.checkout import (
    APPS,
    EXCEPTIONS,
    FACES,
    GROUND,
    PACKAGES,
    ROOT,
    Checkout,
    Module,
    NothingToCheck,
    Rule,
    subject_to,
)
from tests.house.core import (
    audit_actions_are_a_noun_and_what_happened,
    no_clock_but_the_databases,
    no_face_in_the_core,
    no_http_status_in_a_transition,
    no_signal_in_the_core,
    no_sleep_in_the_core,
)
from tests.house.moves import (
    advisory_locks_have_classes_of_their_own,
    hints_after_commit_cannot_fail_a_write,
    one_writer_of_a_jobs_state,
    row_locks_say_whether_they_block_children,
    transitions,
    transitions_take_keywords,
)
from tests.house.published import (
    cited_sections_exist,
    docstrings_open_with_a_verb,
    every_refusal_is_documented,
    every_refusal_is_raised,
    every_verb_has_a_permission,
    names_are_nouns_of_the_field,
)
from tests.house.rooms import (
    LINES_MAX,
    PROJECT,
    no_arrow_upward_by_a_string,
    no_file_is_too_long,
    no_module_is_a_drawer,
    no_name_is_defined_twice,
    the_worker_knows_only_the_api,
)

RULES: tuple[Rule, ...] = (
    no_sleep_in_the_core,
    no_clock_but_the_databases,
    no_face_in_the_core,
    no_signal_in_the_core,
    no_http_status_in_a_transition,
    transitions_take_keywords,
    one_writer_of_a_jobs_state,
    audit_actions_are_a_noun_and_what_happened,
    row_locks_say_whether_they_block_children,
    hints_after_commit_cannot_fail_a_write,
    advisory_locks_have_classes_of_their_own,
    no_module_is_a_drawer,
    no_file_is_too_long,
    no_arrow_upward_by_a_string,
    no_name_is_defined_twice,
    the_worker_knows_only_the_api,
    every_verb_has_a_permission,
    every_refusal_is_raised,
    every_refusal_is_documented,
    docstrings_open_with_a_verb,
    names_are_nouns_of_the_field,
    cited_sections_exist,
)

__all__ = [
    "APPS", "EXCEPTIONS", "FACES", "GROUND", "LINES_MAX", "PACKAGES", "PROJECT", "ROOT", "RULES",
    "Checkout", "Module", "NothingToCheck", "Rule", "subject_to", "transitions",
    *(rule.__name__ for rule in RULES),
]  # fmt: skip
