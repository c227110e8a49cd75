"""Tables in markup languages: Markdown, and LaTeX with the package booktabs."""

from __future__ import annotations

from collections.abc import Sequence

from mage_envs.text.visible import one_line

_LATEX = str.maketrans(
    {
        **{sign: f"\\{sign}" for sign in "&%$#_{}"},
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "±": r"$\pm$",
        "…": r"\ldots{}",
        # As in `[0, 1]` after a line break, which LaTeX would read as the distance to the next line.
        "[": "{[}",
    }
)


def markdown(rows: Sequence[Sequence[str]]) -> str:
    """Return rows as a Markdown table. The first row is the header."""
    # Names come from the records; a line break or a bar in one would forge further cells or rows.
    escaped = [[one_line(cell).replace("|", "\\|") for cell in row] for row in rows]
    return "".join(f"| {' | '.join(row)} |\n" for row in (escaped[0], ["---"] * len(rows[0]), *escaped[1:]))


def latex(rows: Sequence[Sequence[str]], caption: str) -> str:
    """Return rows as a LaTeX table with a caption. The first row is the header."""
    head, *body = [" & ".join(latex_text(cell) for cell in row) + r" \\" for row in rows]
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{latex_text(caption)}}}",
        rf"\begin{{tabular}}{{l{'r' * (len(rows[0]) - 1)}}}",
        *(r"\toprule", head, r"\midrule", *body, r"\bottomrule"),
        r"\end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def latex_text(text: str) -> str:
    """Return a text as one line of LaTeX that prints as it is."""
    return one_line(text).translate(_LATEX)
