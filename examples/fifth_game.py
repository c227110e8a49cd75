"""Train on four games of Encounters and play the fifth: does a learner know the person in a game it has never seen?

    python -m examples.fifth_game --out runs/fifth_game

For each of the five games, the model `words` is trained on the other four. Its vocabulary holds the words of all five,
so those of the fifth keep their random weights. The saved model then plays `encounters-related-512`. Only third
episodes in the fifth game count, with the model's own memory and without any. A finished run is not repeated.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mage_envs.benchmarks.evaluation.run.agents import Agent, SavedModelAgent, make_agent
from mage_envs.benchmarks.evaluation.run.evaluate import evaluate
from mage_envs.benchmarks.evaluation.scoring.estimates import Estimate, estimate
from mage_envs.benchmarks.evaluation.suites.panels import named_panel
from mage_envs.benchmarks.evaluation.tables.summary_table import number
from mage_envs.cli.tables import TextTable, print_report
from mage_envs.files.atomic import write_atomically
from mage_envs.games.encounters import GAMES
from mage_envs.trainer.config.presets import WORDS

ENV_ID, PANEL = "mage/Encounters-Meta-v0", "encounters-related-512"
REFERENCES = {"blind": "policy:blind:encounters/all", "optimal": "policy:myopic:encounters/all,3"}
"""Rows of policies that know all five games and all persons."""
EPISODE = 2
"""Index of the episode that is measured: the last one."""


def train(held_out: str, out: Path, rollouts: int, seed: int) -> None:
    """Train the model on the games without `held_out` and save it in `out`."""
    from mage_envs.trainer.cli.words_model import words_model
    from mage_envs.trainer.config.mage_config import MAGEConfig
    from mage_envs.trainer.trl.mage_trainer import MAGETrainer
    from mage_envs.trainer.trl.setup import exact_critic_settings

    options_without_games: dict[str, Any] = {
        **WORDS,
        "env_id": ENV_ID,
        "max_rollouts": rollouts,
        "seed": seed,
        "output_dir": str(out / "training"),
        "disable_tqdm": True,
        "logging_strategy": "no",
        "save_strategy": "no",
    }
    # The vocabulary is that of all five games, but no step of the training sees the fifth.
    full_config = MAGEConfig(**options_without_games)
    start = words_model(out / "words", full_config)
    # The config has parsed the text of its options.
    options: Any = full_config.env_kwargs
    games = [game for game in GAMES if game != held_out]
    config = MAGEConfig(**{**options_without_games, "env_kwargs": {**options, "games": games}})
    vars(config).update(exact_critic_settings(config))
    trainer = MAGETrainer(start, config)
    trainer.train()
    trainer.write_model(out)


def measure(agent: Agent, env_kwargs: Mapping[str, Any], panel: str) -> dict[str, Estimate]:
    """Return the mean share of the best payoff in the third episode by its game, with clustered intervals."""
    tasks = named_panel(panel).tasks(env_kwargs)
    values: dict[str, list[tuple[float, int]]] = {game: [] for game in GAMES}
    for trajectory in evaluate(agent, tasks, env_kwargs):
        # The first word of an information state is the game.
        game = next(
            step.information_state.split()[0]
            for step in trajectory.steps
            if step.episode == EPISODE and step.phase == "play"
        )
        values[game].append((trajectory.episodes[EPISODE].value, trajectory.task.seed))
    return {
        game: estimate([value for value, _ in pairs], [seed for _, seed in pairs])
        for game, pairs in values.items()
        if pairs
    }


def study(
    out: Path, rollouts: int, seed: int, games: Sequence[str] = GAMES, panel: str = PANEL
) -> list[dict[str, Any]]:
    """Return the estimates of the trained model and of the references in each game.

    Args:
        out: Folder with one folder per game.
        rollouts: Number of rollouts of each training.
        games: Games that are held out, each from a training of its own.
    """
    env_kwargs = {"num_episodes": EPISODE + 1}
    references = {label: measure(make_agent(spec), env_kwargs, panel) for label, spec in REFERENCES.items()}
    rows = []
    for game in games:
        folder = out / game
        if not (folder / "mage.json").exists():
            train(game, folder, rollouts, seed)
        agent = SavedModelAgent(folder)
        # The saved options name the four games of training, and the panel has all five.
        agent_kwargs = {
            key: value for key, value in agent.settings.env_kwargs.items() if key not in ("games", "reward")
        }
        estimates = {
            "with memory": measure(agent, agent_kwargs, panel)[game],
            "without": measure(agent, {**agent_kwargs, "memory": "none"}, panel)[game],
            **{label: values[game] for label, values in references.items()},
        }
        rows.append({"game": game, **{label: asdict(estimated) for label, estimated in estimates.items()}})
    return rows


def table(rows: Sequence[Mapping[str, Any]]) -> TextTable:
    """Return the rows as a table, with half of each 95% interval."""
    labels = [label for label in rows[0] if label != "game"]
    cells = [[row["game"], *(_cell(row[label]) for label in labels)] for row in rows]
    return TextTable(["fifth game", *labels], cells)


def _cell(interval: Mapping[str, float]) -> str:
    return f"{number(interval['mean'])} ± {(interval['high'] - interval['low']) / 2:.3f}"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the study, print the table and write the values to `results.json`."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("runs/fifth_game"), help="folder of the models and values")
    parser.add_argument("--rollouts", type=int, default=120, help="rollouts of each training (default: 120)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the trainings (default: 0)")
    options = parser.parse_args(argv)
    rows = study(options.out, options.rollouts, options.seed)
    write_atomically(options.out / "results.json", json.dumps(rows, indent=1))
    print_report(["Share of the best payoff in the third episode, if it is the fifth game", table(rows)])
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
