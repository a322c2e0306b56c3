"""What is published is kept: verbs ask for permission, refusals are raised, sections exist."""

from __future__ import annotations

import ast
import re
from functools import cache

from tests.house.checkout import (
    Checkout,
    NothingToCheck,
    calls,
    functions,
    made_in,
    parsed,
    subject_to,
)

#: How a docstring of a function does not begin: it says what the function does.
NO_VERBS = frozenset(
    "A All An And As Because Each Every For From Here How If In It Its No Nothing Of On One Only"
    " Our Some That The Their There These They This Those To What When Where Whether Which Who"
    " Whose Why Will With Within Without You"
    .split()
)  # fmt: skip
#: Names of things that nobody outside would guess: a request, fields, an answer, members, a row.
PRIVATE_NAMES = frozenset({"asked", "keeper", "maker", "met", "said", "stand", "told"})
CITED = re.compile(r"contract(?:\.md)?`?,? (?:sections? )?(\d+)(?:(?: to |, | and )(\d+))?")
CITED_BACKWARDS = re.compile(r"section (\d+) of the\s+contract")


@cache
def _unguarded(source: str) -> list[int]:
    """Return the lines that declare an operator's verb without saying who may do it."""
    lines = []
    tree = parsed(source)
    for call in calls(tree, "Verb"):
        guarded = [keyword.value for keyword in call.keywords if keyword.arg == "permission"]
        empty = any(isinstance(value, ast.Constant) and not value.value for value in guarded)
        lines += [] if guarded and not empty else [call.lineno]
    for function in functions(tree):
        for decorator in function.decorator_list:
            if re.match(r"(admin\.)?(action|act|verb)\b", ast.unparse(decorator)):
                named = {k.arg for k in getattr(decorator, "keywords", [])}
                lines += [] if named & {"permission", "permissions"} else [function.lineno]
    return lines


def every_verb_has_a_permission(checkout: Checkout) -> list[str]:
    """Whoever may see a row may not for that reason act on it."""
    return [f"{m.path}:{line}" for m in checkout.modules() for line in _unguarded(m.source)]


def refusals(checkout: Checkout) -> set[str]:
    """Return the names of the refusal classes."""
    tree = parsed(checkout.text("governance/core/errors.py"))
    found = {"DomainError"}
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and {ast.unparse(base) for base in node.bases} & found:
            found.add(node.name)
    if len(found) == 1:
        raise NothingToCheck
    return found - {"DomainError"}


def every_refusal_is_raised(checkout: Checkout) -> list[str]:
    """A published refusal that nothing raises is a promise that nobody keeps."""
    tables = {"governance/core/errors.py", "governance/core/precedence.py"}
    made = {
        name
        for module in checkout.modules()
        if module.path not in tables
        for name in made_in(module.source)
    }
    return sorted(refusals(checkout) - made)


def every_refusal_is_documented(checkout: Checkout) -> list[str]:
    """The page of refusals and the classes say the same, in both directions."""
    tree = parsed(checkout.text("governance/core/errors.py"))
    wanted = refusals(checkout)
    reasons = {
        constant.value
        for node in tree.body
        if isinstance(node, ast.ClassDef) and node.name in wanted
        for statement in node.body
        for constant in ast.walk(statement)
        if isinstance(statement, ast.Assign) and "reason" in ast.unparse(statement.targets[0])
        if isinstance(constant, ast.Constant) and re.fullmatch("[A-Z][A-Z_]+", str(constant.value))
    }
    codes = {"ABORTED", "ALREADY_EXISTS", "FAILED_PRECONDITION", "RESOURCE_EXHAUSTED"}
    page = checkout.text("docs/reference/errors.md")
    documented = set(re.findall(r"^\| `([A-Z_]+)` \|", page, re.MULTILINE))
    if not documented:
        raise NothingToCheck
    missing = {f"not documented: {reason}" for reason in reasons - codes - documented}
    return sorted(missing | {f"unknown: {reason}" for reason in documented - reasons})


@cache
def _openings(source: str) -> list[str]:
    return [
        f"{node.lineno}: {node.name}: {first}"
        for node in functions(parsed(source))
        if (text := ast.get_docstring(node))
        if (first := re.split(r"[\s.,:;'`]", text, maxsplit=1)[0]) in NO_VERBS or not first
    ]


def docstrings_open_with_a_verb(checkout: Checkout) -> list[str]:
    """A docstring says what a function does: "Return ...", "End ...", "Refuse ..."."""
    modules = [*checkout.modules(), *checkout.worker()]
    return [
        f"{module.path}:{opening}"
        for module in subject_to("docstrings_open_with_a_verb", modules)
        for opening in _openings(module.source)
    ]


@cache
def _private_names(source: str) -> list[str]:
    named = [
        (node.lineno, name)
        for node in ast.walk(parsed(source))
        for name in (
            getattr(node, "id", None),
            getattr(node, "arg", None),
            getattr(node, "attr", None),
            getattr(node, "name", None),
        )
        if isinstance(name, str) and name.lower().strip("_") in PRIVATE_NAMES
    ]
    return [f"{line}: {name}" for line, name in sorted(set(named))]


def names_are_nouns_of_the_field(checkout: Checkout) -> list[str]:
    """A variable is named by what it holds, in words that the glossary or the field has."""
    modules = [*checkout.modules(), *checkout.worker()]
    return [
        f"{module.path}:{name}"
        for module in subject_to("names_are_nouns_of_the_field", modules)
        for name in _private_names(module.source)
    ]


def cited_sections(text: str) -> set[int]:
    """Return the sections of the contract that a text cites."""
    flat = " ".join(text.split())
    found = {int(n) for pair in CITED.findall(flat) for n in pair if n}
    found |= {int(n) for n in re.findall(r"the contract's section (\d+)", flat)}
    return found | {int(n) for n in CITED_BACKWARDS.findall(flat)}


def cited_sections_exist(checkout: Checkout) -> list[str]:
    """A section of the contract that the code cites is in the repository."""
    contract = checkout.text("docs/reference/contract.md")
    sections = {int(number) for number in re.findall(r"^## (\d+)\.", contract, re.MULTILINE)}
    cited = [
        (module.path, number)
        for module in [*checkout.modules(), *checkout.worker()]
        for number in sorted(cited_sections(module.source))
    ]
    if not cited:
        raise NothingToCheck
    return [f"{path}: section {number}" for path, number in cited if number not in sections]
