"""The notebooks run from top to bottom, and print values that the exact theory or the rules of the game give."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from tests.docs.fork_server import fork_mage
from tests.opponents.llm.server import Server, TinyModel
from tests.test_readme import ROOT

FOLDER = ROOT / "examples" / "notebooks"
FIGURES = {"does_your_model_adapt": 1, "train_a_learner": 2}
"""Number of figures of each notebook."""
NAMES = tuple(FIGURES)


def read(name: str) -> Any:
    return nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)


@pytest.fixture
def endpoint(tmp_path: Path) -> Iterator[Server]:
    running = Server(TinyModel(tmp_path / "tiny"))
    yield running
    running.stop()


@pytest.fixture
def execute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Yield a function that runs a notebook in an empty folder. It returns the printed text and the number of figures.

    A cell that raises fails the test. `install` cells, which need a package index, are skipped.
    """
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("MAGE_ENVS_CACHE", str(tmp_path / "cache"))
    # ipykernel writes its profile there.
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))

    def run(name: str) -> tuple[str, int]:
        notebook = read(name)
        NotebookClient(
            notebook,
            timeout=200,
            kernel_name="python3",
            skip_cells_with_tag="install",
            resources={"metadata": {"path": str(tmp_path)}},
        ).execute()
        outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
        text = "".join(output.text for output in outputs if output.output_type == "stream")
        return text, sum("image/png" in output.get("data", ()) for output in outputs)

    with fork_mage(tmp_path / "bin") as programs:
        monkeypatch.setenv(
            "PATH", f"{programs}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        )
        yield run


def test_each_notebook_is_tested() -> None:
    assert sorted(path.stem for path in FOLDER.iterdir()) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_it_has_one_line_to_install_and_is_stored_with_its_outputs(name: str) -> None:
    notebook = read(name)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    [install] = [cell for cell in code if "install" in cell.metadata.get("tags", ())]
    assert install is code[0]
    assert install.source.startswith("%pip install --quiet ")
    assert not install.outputs
    assert "\n" not in install.source
    assert all("pip install" not in cell.source for cell in code[1:])
    # `python -m dev.notebooks` stores them.
    assert [cell.execution_count for cell in code[1:]] == list(range(1, len(code)))
    outputs = [output for cell in code for output in cell.outputs]
    assert {output.output_type for output in outputs} <= {"stream", "display_data", "execute_result"}
    assert sum("image/png" in output.get("data", ()) for output in outputs) == FIGURES[name]
    # The exact values do not depend on the machine.
    text = "".join(output.text for output in outputs if output.output_type == "stream")
    assert "adaptation by its" in text
    assert re.search(r"^no memory .*0\.312", text, re.M)


@pytest.mark.more
def test_does_your_model_adapt(execute: Any, endpoint: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("MAGE_AGENT", f"llm:tiny@{endpoint.url},cache=off,max_tokens=8")
    text, figures = execute("does_your_model_adapt")
    lines = text.splitlines()
    # Offers of 5 earn .5 with probability 5/8, and a learner of all episodes explores on the way.
    assert "no memory          0.312 0.312 0.312" in lines
    assert "best learner       0.312 0.375 0.463" in lines
    assert "knows the opponent 0.550 0.550 0.550" in lines
    # The prices 1 to 8 are equally likely. A searcher that offers 4, then 2 or 6, then the highest price that is left,
    # earns .3 + .3 + .5 of 3 * .3125, and the best learner .2125 more.
    [level] = re.findall(r"policy:bisect_price:Bisect\s+adapts:\s+(\S+)", text)
    assert float(level) == pytest.approx((1.1 - 0.9375) / 0.2125, abs=0.01)
    assert re.search(r"llm:tiny\S*\s+(adapts|does\s+not\s+measurably\s+adapt|has\s+no\s+score)", text)
    assert figures == FIGURES["does_your_model_adapt"]


@pytest.mark.more
def test_train_a_learner(execute: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAGE_ROLLOUTS", "2")
    text, figures = execute("train_a_learner")
    assert "rollout 1/2 " in text
    assert "rollout 2/2 " in text
    assert "rollout 3/" not in text
    assert re.search(r"/learner[\s:].*?level.*?adaptation\s+by\s+its\s+own\s+memory", text, re.S)
    for row in ("  without its memory", "  with another's memory", "no memory", "best learner"):
        assert f"\n{row}  " in text
    assert figures == FIGURES["train_a_learner"]
