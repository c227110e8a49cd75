"""docs/glossary.md: one word per thing, in tables, options and pages."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

from mage_envs.cli.program import COMMANDS, load_command
from mage_envs.trainer.config.fields import RunFields
from tests.processes import ROOT

RENDERERS = {"TextTable", "markdown", "format_delimited"}
"""Makers of a table, whose first argument is its header."""
PAGE = ROOT / "docs" / "glossary.md"
ROWS = [
    tuple(cell.strip() for cell in line.strip("|").split("|"))
    for line in PAGE.read_text().splitlines()
    if line.startswith("| ") and not line.startswith(("| term", "|---"))
]
SYNONYMS = {
    word.strip(): term
    for term, _, others in ROWS
    for word in others.split(",")
    # A word with a remark in parentheses is another word elsewhere.
    if word.strip() and "(" not in word
}


def found_in(text: str) -> set[str]:
    """The synonyms in a text, as whole words."""
    words = re.sub(r"[_-]", " ", text.lower())
    return {word for word in SYNONYMS if re.search(rf"(?<!\w){re.escape(word.lower())}s?(?!\w)", words)}


def options() -> dict[str, str]:
    """Every option of the commands and of a training run, to its help text."""
    found = {f"--{name}": str(item.metadata.get("help", "")) for name, item in RunFields.__dataclass_fields__.items()}
    for name in COMMANDS:
        for command in within(load_command(name)):
            found |= {"/".join(one.opts): str(getattr(one, "help", None) or "") for one in command.params}
    return found


def within(command: Any) -> Iterator[Any]:
    """The command, and the subcommands of a group."""
    yield command
    for one in getattr(command, "commands", {}).values():
        yield from within(one)


def test_each_term_stands_once() -> None:
    terms = [term for row in ROWS for term in row[0].split(", ")]
    assert len(ROWS) > 50
    assert len(terms) == len(set(terms))
    assert not SYNONYMS.keys() & set(terms)


def test_no_option_or_help_text_has_another_word() -> None:
    known = options()
    assert len(known) > 150
    assert {name: found for name, text in known.items() if (found := found_in(f"{name} {text}"))} == {}


def headers() -> dict[str, set[str]]:
    """The texts in the headers of printed tables, by file: first arguments of the renderers, and lists of columns."""
    texts: dict[str, set[str]] = {}
    for path in sorted((ROOT / "benchmarks").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            heads: list[ast.AST] = []
            if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in RENDERERS:
                heads = list(node.args[:1])
            elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign) and node.value is not None:
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                if any(re.search(r"(?i)^_?(head|columns|\w+_columns)$", ast.unparse(target)) for target in targets):
                    heads = [node.value]
            literals = [one for head in heads for one in ast.walk(head) if isinstance(one, ast.Constant)]
            found = {one.value for one in literals if isinstance(one.value, str)}
            if found:
                texts.setdefault(str(path.relative_to(ROOT)), set()).update(found)
    return texts


def test_no_table_header_has_another_word() -> None:
    known = headers()
    assert {"knows the opponent", "regret"} <= set().union(*known.values())
    assert len(known) >= 10, sorted(known)
    assert {(path, text) for path, texts in known.items() for text in texts if found_in(text)} == set()


def test_a_synonym_is_found() -> None:
    assert found_in("the uninformed play of an adversary") == {"uninformed", "adversary"}
