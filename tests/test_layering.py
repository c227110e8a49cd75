"""Imports point only downward, heavy packages stay out of the lower layers, randomness stays keyed."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LAYERS = ("mage_envs", "opponents", "wrappers", "trainer", "benchmarks")
COMPOSITION = {"mage_envs/__main__.py", "wrappers/make.py", "wrappers/make_vec.py"}
HEAVY = {"torch", "transformers", "trl", "textworld", "alfworld", "flask", "peft", "datasets", "accelerate", "openai"}
FILES = sorted(path for layer in LAYERS for path in (ROOT / layer).rglob("*.py"))
RELATIVE = [str(path.relative_to(ROOT)) for path in FILES]


def imports(tree):
    """(top-level package, whether it runs at import) of each import, those for type checkers left out."""
    typing_only = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    inside = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name.split(".")[0], id(node) not in inside
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.split(".")[0], id(node) not in inside


@pytest.mark.parametrize("path", RELATIVE)
def test_imports_point_down(path):
    layer = LAYERS.index(path.split("/")[0])
    for package, _ in imports(ast.parse((ROOT / path).read_text())):
        if package in LAYERS and path not in COMPOSITION:
            assert LAYERS.index(package) <= layer, f"{path} imports {package}, a layer above its own"


@pytest.mark.parametrize("path", [p for p in RELATIVE if p.split("/")[0] in LAYERS[:3]])
def test_no_heavy_import_below_the_trainer(path):
    for package, at_import in imports(ast.parse((ROOT / path).read_text())):
        assert not (package in HEAVY and at_import), f"{path} imports {package} when it is loaded"
        assert package not in {"torch", "transformers", "trl"}, f"{path} imports {package}"


def test_nothing_imports_the_composition_root():
    for path in FILES:
        if str(path.relative_to(ROOT)) not in COMPOSITION:
            assert not re.search(r"wrappers\.make(_vec)? import|from wrappers import make", path.read_text()), path


@pytest.mark.parametrize("path", RELATIVE)
def test_no_global_randomness(path):
    tree = ast.parse((ROOT / path).read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            assert all(alias.name != "random" for alias in node.names), f"{path} imports random"
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "np.random":
            assert node.attr[0].isupper() or node.attr == "default_rng", f"{path} uses np.random.{node.attr}"
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "hash":
            assert path in {"mage_envs/spaces.py"}, f"{path} calls hash(), which differs from process to process"


@pytest.mark.parametrize("path", RELATIVE)
def test_files_stay_readable(path):
    lines = (ROOT / path).read_text().splitlines()
    assert len(lines) <= 420, f"{path} has {len(lines)} lines"
    assert Path(path).name not in {"utils.py", "helpers.py", "common.py", "base.py", "misc.py"}


@pytest.mark.parametrize("package", ["mage_envs", "opponents", "wrappers", "trainer"])
def test_importing_is_light(package):
    script = f"import sys, {package}; print(sorted(sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout
    for heavy in (*HEAVY, "pyspiel", "open_spiel"):
        assert f"'{heavy}'" not in loaded, f"import {package} loads {heavy}"


@pytest.mark.parametrize("package", LAYERS)
def test_packages_are_typed(package):
    assert (ROOT / package / "py.typed").exists()
