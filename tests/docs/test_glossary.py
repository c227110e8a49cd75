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


def synonyms_in(text: str) -> set[str]:
    """The synonyms in a text, as whole words."""
    words = re.sub(r"[_-]", " ", text.lower())
    return {word for word in SYNONYMS if re.search(rf"(?<!\w){re.escape(word.lower())}s?(?!\w)", words)}


def options() -> dict[str, str]:
    """Every option of the commands and of a training run, to its help text."""
    help_texts = {
        f"--{name}": str(item.metadata.get("help", "")) for name, item in RunFields.__dataclass_fields__.items()
    }
    for name in COMMANDS:
        for command in within(load_command(name)):
            help_texts |= {
                "/".join(parameter.opts): str(getattr(parameter, "help", None) or "") for parameter in command.params
            }
    return help_texts


def within(command: Any) -> Iterator[Any]:
    """The command, and the subcommands of a group."""
    yield command
    for subcommand in getattr(command, "commands", {}).values():
        yield from within(subcommand)


def test_each_term_is_listed_once() -> None:
    terms = [term for row in ROWS for term in row[0].split(", ")]
    assert len(ROWS) > 50
    assert len(terms) == len(set(terms))
    assert not SYNONYMS.keys() & set(terms)


def test_no_option_or_help_text_has_another_word() -> None:
    help_texts = options()
    assert len(help_texts) > 150
    assert {name: synonyms for name, text in help_texts.items() if (synonyms := synonyms_in(f"{name} {text}"))} == {}


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
            literals = [child for head in heads for child in ast.walk(head) if isinstance(child, ast.Constant)]
            header_texts = {child.value for child in literals if isinstance(child.value, str)}
            if header_texts:
                texts.setdefault(str(path.relative_to(ROOT)), set()).update(header_texts)
    return texts


def test_no_table_header_has_another_word() -> None:
    header_texts = headers()
    assert {"knows the opponent", "regret"} <= set().union(*header_texts.values())
    assert len(header_texts) >= 10, sorted(header_texts)
    assert {(path, text) for path, texts in header_texts.items() for text in texts if synonyms_in(text)} == set()


def test_a_synonym_is_found() -> None:
    assert synonyms_in("the uninformed play of an adversary") == {"uninformed", "adversary"}
