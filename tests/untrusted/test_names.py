"""Names and paths in files resolve to registered or allowed objects only, in every kind of file."""

from __future__ import annotations

import json
import re
import site
import sys
from importlib import import_module

import pytest

from mage_envs.benchmarks.evaluation.tables.summary_table import format_delimited
from mage_envs.cli.program import main
from mage_envs.files.bounded import UnsafeFile, lines_inside, open_inside, parse_json, read_inside
from mage_envs.games.kuhn_poker import KuhnPoker
from mage_envs.loading import imports
from mage_envs.loading.imports import UntrustedName, check_path, load_class, load_modules, names_from
from mage_envs.opponents import make_opponent
from mage_envs.text.visible import one_line
from mage_envs.trainer.backends.play_settings import PlaySettings
from mage_envs.wrappers.memories import as_memory
from tests.programs import train

KUHN = "mage/KuhnPoker-Meta-v0"


@pytest.fixture
def module(tmp_path, monkeypatch):
    """The name of a module in the current folder; it has an opponent and a function."""
    name = f"stranger_{tmp_path.name}"
    text = "class Bot:\n    def reset(self, rng): ...\n    def act(self, turn): return turn.legal_actions[0]\n"
    (tmp_path / f"{name}.py").write_text(text + "def call(*words): raise SystemExit('executed')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(imports, "_IMPORTED", [])
    monkeypatch.setattr(imports, "_ALLOWED_PATHS", [])
    yield name
    sys.modules.pop(name, None)


def test_a_file_imports_nothing_and_a_user_may(module):
    message = f"a.json needs the module '{module}'. Check it, then add --import {module}."
    with names_from("a.json"), pytest.raises(UntrustedName, match=f"^{re.escape(message)}$"):
        make_opponent(f"{module}:Bot", KuhnPoker())
    assert module not in sys.modules
    load_modules([module])
    with names_from("a.json"):
        assert type(make_opponent(f"{module}:Bot", KuhnPoker())).__name__ == "Bot"


def test_the_standard_library_is_a_module_too(module):
    for spec in ("os:system:true", "subprocess:Popen:true", "antigravity:x"):
        with names_from("a.json"), pytest.raises(UntrustedName, match="Check it, then add --import"):
            make_opponent(spec, KuhnPoker())
    assert "antigravity" not in sys.modules


def test_an_installed_package_that_is_loaded_is_not_the_users_own(module, tmp_path, monkeypatch):
    """The user's own site folder holds installed packages, like the environment's."""
    import_module(module)
    with names_from("a.json"):
        make_opponent(f"{module}:Bot", KuhnPoker())
    monkeypatch.setattr(site, "getusersitepackages", lambda: str(tmp_path))
    with names_from("a.json"), pytest.raises(UntrustedName):
        make_opponent(f"{module}:Bot", KuhnPoker())


@pytest.mark.parametrize("name", ["call", "Bot.act", "nothing"])
def test_a_function_is_never_called(module, name):
    """A user's own typed name must be a class as well."""
    with pytest.raises((TypeError, LookupError)):
        make_opponent(f"{module}:{name}:argument", KuhnPoker())
    with pytest.raises((TypeError, ValueError, ImportError)):
        as_memory(f"{module}:{name}")


def test_a_class_needs_the_methods(module):
    with pytest.raises(TypeError, match="must be a memory, a class with begin, render; it lacks begin and render"):
        load_class(f"{module}:Bot", "a memory", ("begin", "render"))


def test_paths_of_a_record_are_refused_until_the_user_names_them(tmp_path, monkeypatch):
    monkeypatch.setattr(imports, "_ALLOWED_PATHS", [])
    with names_from("run.json"), pytest.raises(UntrustedName, match=f"--allow-path '{tmp_path}/a'"):
        check_path(tmp_path / "a", "data")
    with names_from("rows.yaml", paths=True):
        check_path(tmp_path / "a", "data")
    with names_from("run.json"):
        check_path(tmp_path / "a", "data")
        with pytest.raises(UntrustedName):
            check_path(tmp_path / "a" / ".." / "b", "data")
    imports.allow_paths([tmp_path])
    with names_from("run.json"):
        check_path(tmp_path / "b", "data")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"imports": ["MODULE"]}, "needs the module 'MODULE'. Check it, then add --import MODULE."),
        ({"env_kwargs": {"memory": "MODULE:Bot"}}, "needs the module 'MODULE'"),
        ({"env_kwargs": {"memory": "frozen/MODULE:Bot"}}, "needs the module 'MODULE'"),
        ({"env_kwargs": {"memory": "amem:encoder=MODULE:Bot"}}, "needs the module 'MODULE'"),
        ({"env_kwargs": {"style": "MODULE:Bot"}}, "needs the module 'MODULE'"),
        ({"env_kwargs": {"opponent": "MODULE:Bot"}}, "env_kwargs may not name an opponent"),
        ({"env_id": "MODULE:mage/KuhnPoker-Meta-v0"}, "must be a registered id, without a module"),
        ({"imports": "os"}, "is not readable as play settings"),
        ({"max_new_tokens": "many"}, "is not readable as play settings"),
        ({"temprature": 1.0}, "Did you mean 'temperature'?"),
        ({"prompt_format": {"system_promt": "x"}}, "Did you mean 'system_prompt'?"),
        ({"prompt_format": []}, "is not readable as play settings"),
        ({"prompt_format": {"end_ids": ["1"]}}, "is not readable as play settings"),
        ({"prompt_format": {"chat_template_kwargs": {"tools": [1]}}}, "is not readable as play settings"),
    ],
)
def test_a_model_of_a_stranger(module, tmp_path, fields, message, capsys):
    text = json.dumps({"env_id": KUHN} | fields).replace("MODULE", module)
    (tmp_path / "mage.json").write_text(text)
    message = message.replace("MODULE", module)
    with pytest.raises((ImportError, ValueError), match=re.escape(message)):
        PlaySettings.load(tmp_path)
    assert main(["eval", f"model:{tmp_path}"]) == 2
    assert message in capsys.readouterr().err
    assert module not in sys.modules


def test_a_suite_and_a_config_of_a_stranger(module, tmp_path, capsys):
    rows = tmp_path / "rows.yaml"
    rows.write_text(f"- {{name: a, agent: policy:{module}:Bot}}\n")
    suite = ["eval", str(rows), "--suite", "heldout", "--quick", "--out", str(tmp_path / "out")]
    assert main(suite) == 2
    assert f"needs the module '{module}'. Check it, then add --import {module}." in capsys.readouterr().err
    config = tmp_path / "config.yaml"
    for text in (
        f"imports: [{module}]",
        f"env_id: {module}:{KUHN}",
        f"memory: {module}:Bot",
        f"opponents: {module}:Bot",
    ):
        config.write_text(f"{text}\n")
        assert train(["--config", str(config), "--model", "tiny", "--dry-run"]) == 2
        assert f"config.yaml needs the module '{module}'" in capsys.readouterr().err
    assert module not in sys.modules


def test_only_regular_files_of_the_folder_are_opened(tmp_path):
    inside, outside = tmp_path / "run", tmp_path / "outside.txt"
    inside.mkdir()
    outside.write_text("secret")
    (inside / "link").symlink_to(outside)
    (inside / "good").write_text("good")
    (inside / "alias").symlink_to(inside / "good")
    assert read_inside(inside, "good") == read_inside(inside, "alias") == b"good"
    for name in ("link", "../outside.txt", str(outside)):
        with pytest.raises(UnsafeFile, match=r"outside\.txt.*outside the folder"):
            open_inside(inside, name)
    with pytest.raises(UnsafeFile, match="more than 0 MB"):
        read_inside(inside, "good", limit=3)


def test_lines_and_nesting_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr("mage_envs.files.bounded.MAX_FILE_BYTES", 8)
    (tmp_path / "a.jsonl").write_bytes(b"1234567\n12345678\n")
    lines = lines_inside(tmp_path, "a.jsonl")
    assert next(lines) == b"1234567\n"
    with pytest.raises(UnsafeFile, match="a line has more than"):
        next(lines)
    with pytest.raises(ValueError, match="nested too deeply"):
        parse_json("[" * 100_000)


def test_text_stays_in_its_cell():
    assert one_line("x\x1b]0;P\x07\nFAKE\u202e") == "x[U+001B]0;P[U+0007] FAKE[U+202E]".replace(
        "[U+001B]0", "[U+001B]]0"
    )
    rows = [["=1+1", "+x", "-x", "@x", "\t=x", "-1.5", "-0.123 [-0.200, 0.100]", "plain", 2, None]]
    assert format_delimited(rows) == "'=1+1,'+x,'-x,'@x,'\t=x,-1.5,\"-0.123 [-0.200, 0.100]\",plain,2,\n"
