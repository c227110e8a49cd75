"""The folders of environments that `mage export` writes for OpenEnv and verifiers."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

import pytest

from mage_envs.cli.program import main


def test_a_folder_has_what_its_framework_builds(tmp_path: Path) -> None:
    assert main(["export", "KuhnPoker", "--to", "openenv", "--out", str(tmp_path / "kuhn_env")]) == 0
    assert main(["export", "kuhn-paper-16", "--to", "verifiers", "--out", str(tmp_path / "mage_kuhn")]) == 0
    files = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    own = {"openenv.yaml", "pyproject.toml", "__init__.py", "README.md"}
    served = {"server/__init__.py", "server/app.py", "server/Dockerfile"}
    assert files == {
        *(f"kuhn_env/{name}" for name in own | served),
        *(f"mage_kuhn/{name}" for name in ("pyproject.toml", "README.md", "mage_kuhn/__init__.py")),
    }
    for path in tmp_path.rglob("*.py"):
        ast.parse(path.read_text())
    scripts = tomllib.loads((tmp_path / "kuhn_env" / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts == {"server": "kuhn_env.server.app:main"}
    assert tomllib.loads((tmp_path / "mage_kuhn" / "pyproject.toml").read_text())["project"]["name"] == "mage-kuhn"
    # Three episodes of at most 5 times 2 chips.
    assert "range: [-30, 30]" in (tmp_path / "kuhn_env" / "openenv.yaml").read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["KuhnPokr", "--to", "openenv"], "Unknown environment 'KuhnPokr'"),
        (["kuhn_poker", "--to", "openenv"], "needs an environment id without options"),
        (["kuhn-papr", "--to", "verifiers"], "Did you mean 'kuhn-paper'?"),
        (["KuhnPoker", "--to", "openenv", "--out", "Kuhn-env"], "name is that of a Python package, got 'Kuhn-env'"),
        (["KuhnPoker", "--to", "openenv", "--out", "full"], "is not empty. Name another folder with --out"),
    ],
)
def test_wrong_names_are_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("")
    assert main(["export", *words]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert message in line
