"""Table of the paper's runs: algorithm x environment x protocol, and its ablations (docs/method.md section 5).

`mage-kuhn` is MAGE on Kuhn Poker under the protocol `adaptive`. `mage-kuhn-paper` is the same under `paper`, which
replays deals and stops at the first win as the released code does. Values are those of arXiv 2603.03680 for Qwen3-4B.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import product
from typing import Any

from mage_envs.game_record import RECORDS

Fields = Mapping[str, Any]
"""Fields of `MAGEConfig` and `trl.ModelConfig`."""

COMMON: Fields = {
    "model_name_or_path": "Qwen/Qwen3-4B",
    "context": "rebuilt",
    "anchor": "global",
    "advantage_norm": "mean",
    "gamma_step": 0.95,
    "gamma_episode": 0.6,
    "groups_per_rollout": 16,
    "num_generations": 8,
    "max_rollouts": 150,
    "minibatch_size": 64,
    "updates_per_rollout": "auto",
    "max_prompt_length": 4096,
    "max_completion_length": 4096,
    "max_tokens_per_microbatch": 16384,
    "learning_rate": 1e-6,
    "weight_decay": 0.01,
    "max_grad_norm": 1.0,
    "beta": 0.0,
    "epsilon": 0.2,
    "delta": 3.0,
    "entropy_coef": 0.001,
    "temperature": 1.0,
    "save_strategy": "steps",
    "save_steps": 50,
    "logging_steps": 1,
}
_META: Fields = {"num_episodes": 3, "memory": "reflection", "advantage": "gigpo"}
_ALONE: Fields = {"num_episodes": 1, "memory": "none", "returns": "single_episode", "num_generations": 24}
ALGORITHMS: Mapping[str, Fields] = {
    "mage": {**_META, "returns": "differential"},
    "lamer": {**_META, "returns": "cumulative"},
    # One episode, and groups of 24: as many episodes as three in groups of 8.
    "gigpo": {**_ALONE, "advantage": "gigpo"},
    # GRPO as published (arXiv 2402.03300): a member's reward less all its penalties, centred on the group's mean and
    # divided by the sample standard deviation. The released code's takes a penalty off its own reply alone.
    "grpo": {**_ALONE, "advantage": "grpo", "advantage_norm": "mean_std"},
}
RELATED = ("controls", "encounters", "customer", "house")
"""Environments of related tasks, in which memory is worth much. The protocol `paper` would be the same there, because
no task can be replayed."""
HEADROOM = ("controls", "encounters")
"""Those of them in which the ablations are repeated, with exact values."""
PROTOCOLS: Mapping[str, str] = {"": "adaptive", "-paper": "paper"}
"""End of a preset's name to its protocol."""

_POPULATIONS: Mapping[str, Fields] = {
    "fixed": {"opponents": "mcts:100"},
    "balanced": {"opponents": "pool:tictactoe/balanced"},
    "skewed": {"opponents": "pool:tictactoe/skewed"},
}
_STATISTICS: Mapping[str, Fields] = {"opponent": {"statistics": "opponent"}, "pooled": {"statistics": "pooled"}}
_GROUPING: Mapping[str, Fields] = {
    "stationary": {"grouping": "stationary"},
    "non-stationary": {"grouping": "non_stationary"},
}
_RETURNS: Mapping[str, Fields] = {
    name.replace("_", "-"): {"returns": name} for name in ("differential", "cumulative", "single_episode")
}
_ANCHORS: Mapping[str, Fields] = {name: {"anchor": name} for name in ("global", "local")}
_PEOPLE: Mapping[str, Fields] = {
    "fixed": {"opponents": "encounters:kind"},
    "mixed": {"opponents": "pool:encounters/all"},
}


@dataclass(frozen=True)
class Ablation:
    """Trainings of MAGE that differ in the choices of one part of the method."""

    about: str
    environments: tuple[str, ...]
    """Names of `environments`."""
    axes: tuple[Mapping[str, Fields], ...]
    """Choices of each axis by name, the paper's own first, except that of the population."""
    suffix: str = ""
    """Key of `PROTOCOLS`."""


ABLATIONS: Mapping[str, Ablation] = {
    "4.4.1": Ablation("returns", ("alfworld", "webshop"), (_RETURNS,), "-paper"),
    "4.4.2": Ablation(
        "opponents, statistics and grouping", ("tictactoe",), (_POPULATIONS, _STATISTICS, _GROUPING), "-paper"
    ),
    "4.4.3": Ablation("anchors against CFR", ("kuhn",), (_ANCHORS,), "-paper"),
    "tictactoe-returns": Ablation("the returns of 4.4.1 in Tic-Tac-Toe", ("tictactoe",), (_RETURNS,)),
    "tictactoe-anchors": Ablation("the anchors of 4.4.3 in Tic-Tac-Toe", ("tictactoe",), (_ANCHORS,)),
    "headroom-returns": Ablation("the returns of 4.4.1 where memory is worth much", HEADROOM, (_RETURNS,)),
    "headroom-opponents": Ablation(
        "the choices of 4.4.2 where memory is worth much", ("encounters",), (_PEOPLE, _STATISTICS, _GROUPING)
    ),
    "headroom-anchors": Ablation("the anchors of 4.4.3 where memory is worth much", HEADROOM, (_ANCHORS,)),
}
"""Ablations by name. Those with a number are sections of the paper, where the paper ran them."""


def environments() -> dict[str, tuple[str, Fields, Fields]]:
    """Return the games' names in presets, each with the game, fields of the run and options of the environment."""
    # Computed anew, because a module of the user's may register a record at any time.
    return {
        name: (record.name, fields, options)
        for record in RECORDS.values()
        for name, (fields, options) in record.presets.items()
    }


def _run(name: str, algorithm: str, environment: str, protocol: str, **changes: Any) -> dict[str, Any]:
    game, fields, options = environments()[environment]
    return {
        **COMMON,
        **fields,
        **ALGORITHMS[algorithm],
        "env_id": f"mage/{game}-Meta-v0",
        # Text, as a user would pass it: `RunSettings` parses it.
        "env_kwargs": json.dumps({**options, "invalid_penalty": 0.5}),
        "protocol": protocol,
        # The released code lists no legal actions in some games, and this style neither.
        **({"prompt_style": "paper"} if protocol == "paper" else {}),
        "output_dir": f"runs/{name}",
        **changes,
    }


def _table() -> dict[str, dict[str, Any]]:
    runs = {}
    for algorithm, environment, (suffix, protocol) in product(ALGORITHMS, environments(), PROTOCOLS.items()):
        name = f"{algorithm}-{environment}{suffix}"
        if not suffix or environment not in RELATED:
            runs[name] = _run(name, algorithm, environment, protocol)
    return runs


def _ablations(runs: dict[str, dict[str, Any]]) -> dict[str, dict[str, str]]:
    """Add the presets of the ablations to `runs`, and return the presets of each ablation by their choices.

    A choice that is a preset already, such as the paper's own, is that preset.
    """
    presets_by_choice: dict[str, dict[str, str]] = {}
    names_by_identity = {_identity(fields): name for name, fields in runs.items()}
    for ablation_name, ablation in ABLATIONS.items():
        presets_by_choice[ablation_name] = {}
        axes = product(*(axis.items() for axis in ablation.axes))
        present = [environment for environment in ablation.environments if environment in environments()]
        for environment, selection in product(present, axes):
            choices = "-".join(choice for choice, _ in selection)
            changes = {key: value for _, fields in selection for key, value in fields.items()}
            name = f"ablation-{environment}-{choices}{ablation.suffix}"
            fields = _run(name, "mage", environment, PROTOCOLS[ablation.suffix], **changes)
            name = names_by_identity.setdefault(_identity(fields), name)
            runs.setdefault(name, fields)
            label = choices if len(ablation.environments) == 1 else f"{environment}-{choices}"
            if name not in presets_by_choice[ablation_name].values():
                presets_by_choice[ablation_name][label] = name
    return presets_by_choice


def _identity(fields: Fields) -> str:
    """Return a key that is equal for presets of the same run."""
    # The first two choices are the defaults of a run. With a single opponent, the grouping changes nothing.
    all_fields = {"statistics": "opponent", "grouping": "stationary", **fields}
    if "opponents" in all_fields and not all_fields["opponents"].startswith("pool:"):
        all_fields["grouping"] = "stationary"
    return json.dumps({key: value for key, value in all_fields.items() if key != "output_dir"}, sort_keys=True)


_RUNS = _table()
ABLATION_PRESETS: Mapping[str, Mapping[str, str]] = _ablations(_RUNS)
"""Ablation to its choices and their presets."""
PRESETS: Mapping[str, Fields] = dict(sorted(_RUNS.items()))
WORDS: Fields = {
    "use_cpu": True,
    "prompt_style": "words",
    "memory": "history",
    "context": "conversation",
    "env_kwargs": '{"on_invalid": "forfeit", "length_penalty": 0.0}',
    "backend": "cached",
    "constrained": True,
    "max_completion_length": 1,
    "reuse_sampling_logprobs": True,
    "credit": "reward",
    "advantage": "member_mean",
    "horizon": "meta",
    "advantage_norm": "mean_std",
    "groups_per_rollout": 32,
    "max_rollouts": 150,
    "updates_per_rollout": "4",
    "max_tokens_per_microbatch": 8192,
    "learning_rate": 1e-3,
    "adam_beta2": 0.98,
    "lr_scheduler_type": "cosine",
    "uniform_legal_coef": 0.06,
    "uniform_legal_coef_end": 0.006,
    "entropy_coef": 0.0,
    "save_total_limit": 2,
}
"""Fields that `--model words` sets unless a flag or a file does. They are applied before a preset."""
WORDS_OF_GAMES = ("prompt_style", "memory", "context", "env_kwargs")
"""Those of these fields that only an environment of this package has."""


def reply_limit(game_name: str) -> int:
    """Return the reply tokens that the presets of a game allow; the common limit for a game without a preset."""
    return _limit(game_name, "max_completion_length")


def prompt_limit(game_name: str) -> int:
    """Return the prompt tokens that the presets of a game allow; the common limit for a game without a preset."""
    return _limit(game_name, "max_prompt_length")


def _limit(game_name: str, field: str) -> int:
    limits = {game: fields.get(field) for game, fields, _ in environments().values()}
    limit: int = limits.get(game_name) or COMMON[field]
    return limit


def small_models() -> dict[str, Fields]:
    """Return the presets of small models by name: fields of the games' records on top of `WORDS`."""
    named = {name: (record, fields) for record in RECORDS.values() for name, fields in record.small_models.items()}
    return {
        f"mini-{name}": {
            **WORDS,
            "env_id": f"mage/{record.name}-Meta-v0",
            "model_name_or_path": "words",
            "imitate_steps": 1500,
            "max_rollouts": 20,
            # The regulariser is for random weights.
            "uniform_legal_coef": 0.0,
            "uniform_legal_coef_end": None,
            "output_dir": f"runs/mini-{name}",
            **fields,
            "env_kwargs": json.dumps(json.loads(WORDS["env_kwargs"]) | fields.get("env_kwargs", {})),
        }
        for name, (record, fields) in named.items()
    }


def preset(name: str) -> dict[str, Any]:
    """Return the fields of a preset. Raises ValueError with the nearest names if the name is unknown."""
    # The table again, for games that were registered after it was made.
    fields = PRESETS.get(name) or small_models().get(name) or _table().get(name)
    if fields is None:
        near = get_close_matches(name, [*PRESETS, *small_models()], n=3)
        hint = f"Did you mean {' or '.join(near)}?" if near else "mage train --help lists all presets."
        raise ValueError(f"unknown preset {name!r}. {hint}")
    return dict(fields)


def listing() -> str:
    """Return the forms of all names of presets."""
    repeated = [name for name in environments() if name not in RELATED]
    lines = [
        f"({'|'.join(ALGORITHMS)})-({'|'.join(repeated)}), each also with -paper",
        f"({'|'.join(ALGORITHMS)})-({'|'.join(RELATED)})",
    ]
    for ablation in ABLATIONS.values():
        parts = [f"({'|'.join(part)})" for part in (ablation.environments, *ablation.axes)]
        lines.append("-".join(["ablation", *parts]) + ablation.suffix)
    return "; ".join([*sorted(small_models()), *lines])
