"""The model card: training settings, opponents, results and citation of a model.

No torch here.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path

import yaml

from mage_envs.secrets import MASK, is_secret_name, scrub
from mage_envs.trainer.backends.play_settings import PlaySettings
from mage_envs.trainer.config.fields import RunFields
from mage_envs.trainer.config.run_settings import RunSettings
from mage_envs.trainer.runs.summary import table

CARD = "README.md"
_CITATION = """\
@misc{mage2026,
  title = {{MAGE}: Meta-Reinforcement Learning for Language Agents toward Strategic Exploration and Exploitation},
  year = {2026},
  eprint = {2603.03680},
  archivePrefix = {arXiv},
}"""
_METHOD = ("returns", "gamma_step", "gamma_episode", "advantage", "advantage_norm", "anchor", "policy", "beta")


def model_card(
    name: str,
    base_model: str,
    config: RunSettings,
    play: PlaySettings | None,
    opponents: Mapping[str, float],
    command: Sequence[str] | None = None,
) -> str:
    """Return the text of a model's README.md, in Markdown with the hub's metadata.

    Args:
        base_model: Name on the hub, or a local folder, which the card does not name.
        config: Settings of the run. The results come from its output folder.
        play: Play settings of the model. None for an environment without an id.
        opponents: Training opponents and their weights.
        command: Arguments of mage train. None for a run from Python.
    """
    local = not base_model or Path(base_model).exists()
    header = {"library_name": "transformers", "pipeline_tag": "text-generation", "tags": ["mage-envs", "trl"]}
    header |= {} if local else {"base_model": base_model}
    origin = "the weights of a local folder" if local else f"`{base_model}`"
    env_id = config.env_id if play is None else play.env_id
    parts = [
        f"---\n{yaml.safe_dump(header)}---\n\n# {name}",
        f"Trained from {origin} with MAGE ([arXiv 2603.03680](https://arxiv.org/abs/2603.03680)) as the package "
        "`mage-envs` implements it: meta-episodes of several episodes against one unknown opponent, or of one task.",
        "## Method",
        _bullets({field: vars(config)[field] for field in _METHOD}),
        "## Environment",
        _bullets({"id": env_id, **({} if play is None else play.env_kwargs)}),
        "## Training opponents",
        _bullets(opponents) if opponents else "None: a task for one player, or opponents that the environment draws.",
        "## Results in training",
        _results(config.output_dir),
        "## Command",
        f"```sh\n{_command(command)}\n```" if command is not None else f"```python\n{_call(config)}\n```",
        "`mage eval FOLDER` evaluates the model. `mage.json` stores its prompt format, limits and sampling.",
        f"## Citation\n\n```bibtex\n{_CITATION}\n```",
    ]
    return "\n\n".join(parts) + "\n"


def _bullets(values: Mapping[str, object]) -> str:
    return "\n".join(f"* `{name}`: `{json.dumps(value, default=str)}`" for name, value in values.items())


def _results(folder: str | None) -> str:
    results = table(folder or ".")
    return f"```text\n{results}```" if results else "No rollout was finished."


def _command(arguments: Sequence[str]) -> str:
    """Return the command without the values of options such as `--hub_token`."""
    words, hidden = ["mage", "train"], False
    for argument in arguments:
        name, equals_sign, _ = argument.partition("=")
        secret = name.startswith("--") and is_secret_name(name)
        word = f"{name}={MASK}" if secret and equals_sign else argument
        words.append(MASK if hidden else word)
        hidden = secret and not equals_sign
    return str(scrub(shlex.join(words)))


def _call(config: RunSettings) -> str:
    """Return the config as Python, with the fields of this package that differ from their defaults."""
    default = RunSettings()
    changed = [item.name for item in fields(RunFields) if vars(config)[item.name] != vars(default)[item.name]]
    return str(scrub(f"MAGEConfig({', '.join(f'{name}={vars(config)[name]!r}' for name in changed)})"))
