"""One rank of a training run against an opponent that fails: `faulty_run.py MODEL FOLDER LOG WORKERS FAULTS`."""

import json
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mage_envs.trainer.runs.garbage import end_group
from mage_envs.wrappers.make import make_meta_env
from tests.trainer.faulty import Faulty

if TYPE_CHECKING:
    from mage_envs.trainer import Trajectory

KUHN = {"memory": "history", "context": "conversation", "style": "words", "on_invalid": "forfeit", "num_episodes": 2}


def is_time(key: str) -> bool:
    """Return True if a metric differs in each run."""
    return key.startswith("time/") or key in ("environment_share", "tokens/sampled_per_second")


def main(model: str, folder: str, log: str, workers: str, faults: str) -> None:
    # Import here, because each worker of a script imports the code above, and the successor of a killed worker again.
    from mage_envs.trainer import MAGETrainer
    from tests.trainer.tiny_runs import make_cached_generator, make_config

    make_env = partial(make_meta_env, "KuhnPoker", opponent=Faulty(log, tuple(faults.split(",")), 30), **KUHN)
    all_trajectories: list[Trajectory] = []
    config = make_config(
        Path(folder), groups_per_rollout=8, max_rollouts=2, env_workers=int(workers), env_timeout=5.0, advantage="grpo"
    )
    trainer = MAGETrainer(
        model,
        config,
        make_env,
        generator=partial(make_cached_generator, constrained=True),
        on_rollout_end=lambda _, trajectories: all_trajectories.extend(trajectories),
    )
    trainer.train()
    if trainer.accelerator.is_main_process:
        logs: list[dict[str, Any]] = [entry for entry in trainer.state.log_history if "rollout" in entry]
        text = {
            "trajectories": [repr(trajectory) for trajectory in all_trajectories],
            "failures": sum(len(trajectory.failures) for trajectory in all_trajectories),
            "logged": [{key: value for key, value in entry.items() if not is_time(key)} for entry in logs],
            "told": trainer.failure_log.summary(),
            "processes": trainer.accelerator.num_processes,
        }
        Path(folder, "played.json").write_text(json.dumps(text))


if __name__ == "__main__":
    main(*sys.argv[1:])
    end_group()
