"""Folders that other frameworks publish and build: an OpenEnv environment and a verifiers environment.

mage export KuhnPoker --to openenv --out kuhn_env            # then: openenv build, openenv push
mage export kuhn-paper-128 --to verifiers --out mage_kuhn    # then: vf-eval mage-kuhn
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from mage_envs.files.atomic import write_atomically
from mage_envs.files.bounded import names_inside

_PORT = 8000

_OPENENV = {
    "openenv.yaml": """\
spec_version: 1
name: {name}
version: 0.1.0
type: space
runtime: fastapi
app: server.app:app
port: {port}
validation:
  reward:
    range: [-{bound}, {bound}]
    oracle_tolerance: 0.0
    floor_margin: 0.1
  resources:
    cpu: 1.0
    memory_mb: 1024
    disk_mb: 512
    episode_timeout_s: 600.0
  capabilities:
    verifier:
      kind: reward_channel
  types:
    tags: [game, multi-agent, meta-learning]
""",
    "pyproject.toml": """\
[build-system]
requires = ["setuptools>=61"]
build-backend = "setuptools.build_meta"

[project]
name = "openenv-{name}"
version = "0.1.0"
description = "{env_id} of MAGE Envs for OpenEnv"
requires-python = ">=3.11"
dependencies = ["openenv>=0.10,<0.11", "mage-envs[openenv]"]

[project.scripts]
server = "{name}.server.app:main"

[tool.setuptools]
packages = ["{name}", "{name}.server"]
package-dir = {{ "{name}" = ".", "{name}.server" = "server" }}
""",
    "__init__.py": '"""{env_id} of MAGE Envs for OpenEnv. The client is openenv.GenericEnvClient."""\n',
    "server/__init__.py": "",
    "server/app.py": """\
import uvicorn
from openenv.core.env_server.types import ConcurrencyConfig

from mage_envs.wrappers.adapters.openenv import server

app = server({env_id_text}, "return", {{}}, ConcurrencyConfig(max_concurrent_envs=64, session_timeout=300))


def main(host: str = "0.0.0.0", port: int = {port}) -> None:
    uvicorn.run(app, host=host, port=port)


if __name__ == "__main__":
    main()
""",
    "server/Dockerfile": """\
FROM python:3.12-slim
WORKDIR /app/env
COPY . /app/env
RUN pip install --no-cache-dir .
EXPOSE {port}
HEALTHCHECK --interval=30s --timeout=3s --start-period=20s \\
  CMD python -c "import urllib.request; urllib.request.urlopen('http://localhost:{port}/health')"
CMD ["uvicorn", "server.app:app", "--host", "0.0.0.0", "--port", "{port}"]
""",
    "README.md": """\
# {name}

`{env_id}` of MAGE Envs, and all its panels as splits, for OpenEnv. Clients play over the WebSocket:

    from openenv import GenericEnvClient

    client = GenericEnvClient(base_url="http://localhost:{port}").sync()
    result = client.reset(split="kuhn-paper-128", index=0)

`uv lock` makes the lock file that `openenv validate` asks for.
""",
}
_VERIFIERS = {
    "pyproject.toml": """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "{dashed}"
version = "0.1.0"
description = "The panel {panel} of MAGE Envs for verifiers"
requires-python = ">=3.11"
dependencies = ["verifiers>=0.4,<0.5", "mage-envs[verifiers]"]

[tool.hatch.build.targets.wheel]
packages = ["{name}"]
""",
    "{name}/__init__.py": '''\
"""The panel {panel} of MAGE Envs, for `vf-eval {dashed}`."""

import verifiers.v1 as vf

from mage_envs.wrappers.adapters.verifiers import MageEnv, MageTaskset, PanelConfig, RowTask

__all__ = ["MageEnv", "PanelTaskset"]


class Config(PanelConfig):
    panel: str = {panel_text}


class PanelTaskset(MageTaskset, vf.Taskset[RowTask, Config]):
    """The rows of the panel."""
''',
    "README.md": """\
# {dashed}

The panel `{panel}` of MAGE Envs for verifiers:

    vf-eval {dashed} -m MODEL --env.player.harness.id null --env.player.runtime.type subprocess --no-push
""",
}


def write_openenv(env_id: str, folder: Path, bound: float) -> None:
    """Write the folder of an OpenEnv environment: openenv.yaml, a server, a Dockerfile and a pyproject.toml.

    Args:
        env_id: Registered id that plays if a client names no split.
        folder: Empty or new folder. Its name is that of the environment.
        bound: Largest absolute value of the sum of the rewards of a meta-episode.
    """
    values = {"env_id": env_id, "env_id_text": json.dumps(env_id), "port": str(_PORT), "bound": f"{bound:g}"}
    _write(_OPENENV, folder, name=_name_of(folder), **values)


def write_verifiers(panel: str, folder: Path) -> None:
    """Write the folder of a verifiers environment, which `pip install FOLDER` makes known to `vf-eval`.

    Args:
        panel: Name of the panel.
        folder: Empty or new folder. Its name is that of the environment.
    """
    name = _name_of(folder)
    _write(_VERIFIERS, folder, name=name, dashed=name.replace("_", "-"), panel=panel, panel_text=json.dumps(panel))


def _name_of(folder: Path) -> str:
    """Return the name of the package in a folder. Raise ValueError if it is not the name of a Python package."""
    name = folder.resolve().name
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise ValueError(
            f"The folder's name is that of a Python package, got {name!r}. Use small letters, digits and underscores, "
            "as in --out kuhn_env."
        )
    return name


def _write(templates: dict[str, str], folder: Path, **values: str) -> None:
    """Write the files. Raise FileExistsError if the folder has other files."""
    if folder.exists() and names_inside(folder, "."):
        raise FileExistsError(f"{folder} is not empty. Name another folder with --out, or remove it.")
    for path, text in templates.items():
        write_atomically(folder / path.format(**values), text.format(**values))
