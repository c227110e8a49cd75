"""Imports point only downward, heavy packages stay out of the lower layers, randomness stays keyed."""

import ast
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from mage_envs.cli import program

ROOT = Path(__file__).parent.parent
LAYERS = ("mage_envs", "opponents", "wrappers", "trainer", "benchmarks")
OUTSIDE = ("dev", "examples")
"""Not in the wheel; they may import all layers."""
TRAINER_ROOMS = ("method", "backends", "config", "runs", "trl", "cli")
"""Folders of the trainer, in the order in which they may import each other."""
HEAVY = {"torch", "transformers", "trl", "textworld", "alfworld", "flask", "peft", "datasets", "accelerate", "httpx2"}
FILES = sorted(path for layer in (*LAYERS, *OUTSIDE) for path in (ROOT / layer).rglob("*.py"))
RELATIVE = [str(path.relative_to(ROOT)) for path in FILES]


def module_of(path):
    """`mage_envs.core` for `mage_envs/core.py`, `mage_envs.wrappers` for `wrappers/__init__.py`."""
    name = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return f"mage_envs.{name}" if name.split(".")[0] in LAYERS[1:] else name


def layer_of(module):
    """Number of a module's layer, or None for a module that is not of the suite."""
    first_part, *other_parts = module.split(".")
    if first_part in OUTSIDE:
        return len(LAYERS) + OUTSIDE.index(first_part)
    if first_part != LAYERS[0]:
        return None
    return LAYERS.index(other_parts[0]) if other_parts and other_parts[0] in LAYERS else 0


MODULES = {module_of(path): path for path in RELATIVE}


@cache
def imports(path):
    """(module, whether it runs at import) of each import of a file, those for type checkers as not running."""
    return tuple(_imports(ast.parse((ROOT / path).read_text())))


def _imports(node, runs=True):
    # Imports are statements, so no expression is visited.
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            for alias in child.names:
                yield alias.name, runs
        elif isinstance(child, ast.ImportFrom) and child.module:
            for alias in child.names:
                inner = f"{child.module}.{alias.name}"
                yield inner if inner in MODULES else child.module, runs
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _imports(child, False)
        elif isinstance(child, ast.stmt | ast.excepthandler | ast.match_case):
            typing_only = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
            yield from _imports(child, runs and not typing_only)


def test_imports_point_down():
    for path in RELATIVE:
        layer = layer_of(module_of(path))
        for module, _ in imports(path):
            # The names of the folders are for users of a clone.
            assert module.split(".")[0] not in LAYERS[1:], f"{path} imports {module}"
            if (imported := layer_of(module)) is not None:
                assert imported <= layer, f"{path} imports {module}, of a layer above its own"


def test_imports_inside_the_trainer_point_down():
    for path in RELATIVE:
        if not path.startswith("trainer/") or path.count("/") == 1:
            continue
        room = TRAINER_ROOMS.index(path.split("/")[1])
        for module, _ in imports(path):
            if module.startswith("mage_envs.trainer"):
                imported = module.removeprefix("mage_envs.trainer").removeprefix(".").split(".")[0]
                # The package itself assembles the rooms, so no room may import it.
                assert imported in TRAINER_ROOMS, f"{path} imports {module}"
                assert TRAINER_ROOMS.index(imported) <= room, f"{path} imports {module}, of a room above its own"


def test_imports_have_no_cycle_even_for_types():
    needs = {
        module: {imported for imported, _ in imports(path) if imported in MODULES} - {module}
        for module, path in MODULES.items()
    }
    tuple(TopologicalSorter(needs).static_order())  # raises CycleError, which names the circle


def test_no_heavy_import_below_the_trainer():
    for path in RELATIVE:
        if path.split("/")[0] not in LAYERS[:3]:
            continue
        for module, at_import in imports(path):
            package = module.split(".")[0]
            assert not (package in HEAVY and at_import), f"{path} imports {package} when it is loaded"
            assert package not in {"torch", "transformers", "trl"}, f"{path} imports {package}"


def test_no_global_randomness():
    for path in RELATIVE:
        text = (ROOT / path).read_text()
        # Few files have such a text at all.
        if not re.search(r"\bimport random\b|np\.random|\bhash\(", text):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import):
                assert all(alias.name != "random" for alias in node.names), f"{path} imports random"
            if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "np.random":
                assert node.attr[0].isupper() or node.attr == "default_rng", f"{path} uses np.random.{node.attr}"
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "hash":
                assert path in {"mage_envs/spaces.py"}, f"{path} calls hash(), which differs from process to process"


def test_files_stay_readable():
    for path in (*FILES, *ROOT.glob("tests/**/*.py")):
        # About 400 lines of code; comments and docstrings may add some.
        lines = len(path.read_text().splitlines())
        assert lines <= 450, f"{path} has {lines} lines"
        assert path.name not in {"utils.py", "helpers.py", "common.py", "base.py", "misc.py"}, path


def modules_loaded_by(code):
    """The modules that a fresh process has after `code`."""
    script = f"import sys\n{code}\nprint(*sys.modules)"
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(process.stdout.split())


@pytest.mark.parametrize("package", LAYERS)
def test_importing_is_light(package):
    loaded = {name.partition(".")[0] for name in modules_loaded_by(f"import {module_of(package)}")}
    assert not loaded & {*HEAVY, "pyspiel", "open_spiel", "matplotlib", "scipy"}


def test_importing_the_lower_layers_takes_little_more_than_what_they_need():
    needed = modules_loaded_by("import gymnasium, pettingzoo, numpy")
    loaded = modules_loaded_by("import mage_envs.opponents, mage_envs.wrappers") - needed
    ours = {name for name in loaded if name.partition(".")[0] == LAYERS[0]}
    # The records of all games are known, and those of small games are in the files of their rules.
    assert len(ours) <= 84, sorted(ours)
    assert len(loaded - ours) <= 45, sorted(loaded - ours)


def test_importing_the_lower_layers_loads_no_game_and_no_opponents_of_one():
    loaded = modules_loaded_by("import mage_envs.opponents, mage_envs.wrappers")
    # A small game has its record and its rules in one file. Of a large game only the record is loaded.
    for heavy in ("alfworld", "openspiel", "sokoban", "webshop"):
        names = {name for name in loaded if name.startswith(f"mage_envs.games.{heavy}.")}
        assert {name.rpartition(".")[2] for name in names} <= {"about", "record"}
    assert not {name for name in loaded if name.startswith(("mage_envs.opponents.games", "mage_envs.opponents.solo"))}


@pytest.mark.parametrize(
    ("lookup", "module"),
    [
        ('opponents.opponent_info("inspect/greedy")', "inspection"),
        ('opponents.as_pool("pool:rps/reactive")', "rock_paper_scissors"),
        ('opponents.register_pool("kuhn/mine", {"uniform": 1})', "kuhn"),
        ('from mage_envs.benchmarks import named_panel; named_panel("leduc-heldout-128")', "leduc"),
        ('from mage_envs.benchmarks import named_panel; named_panel("kuhn-paper").weights()', "kuhn"),
    ],
)
def test_a_name_loads_the_opponents_of_its_game_alone(lookup, module):
    loaded = modules_loaded_by(f"from mage_envs import opponents; {lookup}")
    games = {name.rpartition(".")[2] for name in loaded if name.startswith("mage_envs.opponents.games.")}
    assert games == {module}


def test_listing_the_opponents_loads_no_engine():
    loaded = {
        name.partition(".")[0]
        for name in modules_loaded_by("from mage_envs import opponents; opponents.list_opponents()")
    }
    assert not loaded & {*HEAVY, "pyspiel", "open_spiel", "matplotlib", "scipy"}


def test_importing_the_benchmarks_loads_none_of_them():
    loaded = modules_loaded_by("import mage_envs.benchmarks") - modules_loaded_by("import mage_envs")
    assert loaded == {"mage_envs.benchmarks"}


def test_the_help_loads_no_subcommand():
    code = "import sys; sys.argv[1:] = ['--help']; from mage_envs.cli import program"
    code += "\ntry: program.main()\nexcept SystemExit: pass"
    assert not modules_loaded_by(code) & {entry.module for entry in program.COMMANDS.values()}


def test_no_folder_has_more_than_twenty_files():
    counts = Counter(path.parent for top in (*LAYERS, *OUTSIDE, "tests") for path in (ROOT / top).rglob("*.py"))
    assert {str(folder.relative_to(ROOT)): count for folder, count in counts.items() if count > 20} == {}
    names = Counter(path.name for path in FILES)
    repeated = {name: count for name, count in names.items() if count > 3}
    assert set(repeated) <= {"__init__.py", "__main__.py", "record.py"}, repeated


@pytest.mark.parametrize("package", LAYERS)
def test_packages_are_typed(package):
    assert (ROOT / package / "py.typed").exists()


def test_a_player_is_they():
    """Rules, prompts, docstrings and pages name no player's sex."""
    for path in (*FILES, *ROOT.glob("docs/*.md")):
        match = re.search(r"\b(he|she|his|hers|him|himself|herself)\b", path.read_text(), re.IGNORECASE)
        assert match is None, f"{path}: {match}"


def test_no_two_public_classes_share_a_name():
    paths_by_class = {}
    for path in FILES:
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                paths_by_class.setdefault(node.name, []).append(str(path.relative_to(ROOT)))
    assert {name: paths for name, paths in paths_by_class.items() if len(paths) > 1} == {}


def variadic(class_node):
    """Return True if a class takes any number of values of one kind."""
    return any(
        node.name == "__init__" and node.args.vararg for node in class_node.body if isinstance(node, ast.FunctionDef)
    )


def test_no_more_than_four_fields_are_given_by_position():
    class_nodes, calls = [], []
    for path in (*FILES, *(ROOT / "tests").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                class_nodes.append(node)
            elif isinstance(node, ast.Call) and len(node.args) > 4:
                calls.append((path, node))
    classes = {"__init__", *(node.name for node in class_nodes)} - {node.name for node in class_nodes if variadic(node)}
    violations = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path, node in calls
        if (getattr(node.func, "id", None) or getattr(node.func, "attr", None)) in classes
    ]
    assert violations == []


def test_no_module_imports_a_command():
    """Commands parse, call a library function and print. Shared code belongs in the library."""
    for path in RELATIVE:
        for module, _ in imports(path):
            assert not module.startswith("mage_envs.benchmarks.commands."), f"{path} imports {module}"
