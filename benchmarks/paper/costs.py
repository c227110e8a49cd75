"""Costs of stages before they run: hours, disk, calls, tokens and price, typical and at most."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import NamedTuple

from mage_envs.benchmarks.evaluation.run.agents import make_agent
from mage_envs.benchmarks.evaluation.run.dry_run import dry_run
from mage_envs.benchmarks.evaluation.run.preflight import Price
from mage_envs.benchmarks.evaluation.suites.panels import Panel, named_panel, weights_of
from mage_envs.benchmarks.evaluation.suites.paper import Suite, setting_for
from mage_envs.benchmarks.evaluation.suites.released import SIZE
from mage_envs.benchmarks.evaluation.suites.setting import Setting
from mage_envs.benchmarks.paper.stages import MODEL, PROMPTED, Stage
from mage_envs.trainer.cli.estimate import most_steps, run_hours
from mage_envs.trainer.config.hardware import Hardware
from mage_envs.trainer.config.model_shapes import shape_of
from mage_envs.trainer.config.presets import PRESETS, prompt_limit, reply_limit
from mage_envs.trainer.config.run_settings import RunSettings
from mage_envs.trainer.trl.setup import call_limits

MEAN_REPLY = 600
"""Default for the mean tokens of a reply with its reasoning. The paper reports no lengths."""


class Bound(NamedTuple):
    """A typical value, and an upper bound."""

    typical: float
    most: float


@dataclass(frozen=True)
class StageCost:
    """Expected cost of a stage."""

    hours: Bound
    """Hours on all devices of the hardware together."""
    devices: int
    disk: int
    """Bytes of the checkpoints and the model of a training; 0 for an evaluation."""
    calls: Bound
    prompt_tokens: Bound
    reply_tokens: Bound

    def price(self, price: Price) -> Bound:
        """Return the price of all tokens."""
        pairs = zip(self.prompt_tokens, self.reply_tokens, strict=True)
        return Bound(*((prompt * price.prompt + reply * price.reply) / 1e6 for prompt, reply in pairs))


def cost_of(stage: Stage, suite: Suite, machine: Hardware, mean_reply: int, sample: int) -> StageCost:
    """Return the cost of a stage.

    A typical run has the calls and the prompts of random play of the first `sample` tasks, with replies of
    `mean_reply` tokens. At most, every call is made, and every prompt and reply has its maximum length.

    Args:
        suite: Suite of the table, for the options of evaluations.
        mean_reply: Mean tokens of a reply.
        sample: Meta-episodes of random play.
    """
    if stage.panel:
        return _evaluation(stage, suite, machine, mean_reply, sample)
    return _training(stage, machine, mean_reply, sample)


def _training(stage: Stage, machine: Hardware, mean_reply: int, sample: int) -> StageCost:
    # Imported here, because they need the extra `train`. The help, the results and an evaluation need none.
    from mage_envs.trainer.cli.arguments import parse_args
    from mage_envs.trainer.cli.preflight import check

    typed = parse_args(["--preset", stage.preset, "--hardware", machine.name])
    _, config, model = typed.parse(RunSettings)
    needs, shape = check(config, model, machine), shape_of(str(model.model_name_or_path))
    if needs is None or shape is None:
        raise ValueError(f"The shape of {model.model_name_or_path} is not known, so its training cannot be estimated.")
    # `check` has set the meta-episodes per process.
    meta_episodes = config.per_device_train_batch_size * machine.processes
    reply = config.max_completion_length or 1
    mean = min(mean_reply, reply)
    calls, prompt = _random_play(training_setting(stage.preset, sample), sample)
    rollouts = config.max_rollouts or 1
    total_calls = Bound(rollouts * meta_episodes * calls, rollouts * most_steps(call_limits(config), meta_episodes))
    return StageCost(
        hours=Bound(run_hours(config, shape, machine, calls * meta_episodes, prompt, mean), needs.hours),
        devices=machine.processes,
        disk=needs.checkpoints,
        calls=total_calls,
        prompt_tokens=Bound(total_calls.typical * prompt, total_calls.most * config.max_prompt_length),
        reply_tokens=Bound(total_calls.typical * mean, total_calls.most * reply),
    )


def training_setting(preset: str, count: int) -> Setting:
    """Return a setting of `count` tasks with the environment and the opponents of a preset."""
    fields = PRESETS[preset]
    panel = Panel(
        env_id=fields["env_id"],
        about="",
        seed=0,
        size=count,
        opponents=weights_of(fields["opponents"]) if "opponents" in fields else "",
        seats=(0,),
        by_weight="opponents" in fields,
    )
    options = {name: fields[name] for name in ("protocol", "num_episodes", "memory")}
    style = {"style": fields["prompt_style"]} if "prompt_style" in fields else {}
    return Setting(panel, preset, {**json.loads(fields["env_kwargs"]), **options, **style})


def _evaluation(stage: Stage, suite: Suite, machine: Hardware, mean_reply: int, sample: int) -> StageCost:
    memory = PROMPTED.get(stage.method) or str(PRESETS[stage.preset]["memory"])
    setting = evaluation_setting(stage.panel, suite, memory)
    reply = reply_limit(setting.game_name)
    mean = min(mean_reply, reply)
    calls, prompt = _random_play(setting, sample)
    tasks = len(setting.tasks)
    total_calls = Bound(tasks * calls, setting.most_calls)
    replies = Bound(total_calls.typical * mean, total_calls.most * reply)
    return StageCost(
        # A server on one device. The time for prompts is small against that for replies, and is left out.
        hours=Bound(*(tokens / machine.generate / 3600 for tokens in replies)),
        devices=1,
        disk=0,
        calls=total_calls,
        prompt_tokens=Bound(total_calls.typical * prompt, total_calls.most * prompt_limit(setting.game_name)),
        reply_tokens=replies,
    )


def evaluation_setting(panel: str, suite: Suite, memory: str) -> Setting:
    """Return the setting of an evaluation, with generated tasks if the data are absent."""
    panel_record = named_panel(panel)
    panel_name = panel_record.stand_in if panel_record.missing() else panel
    options = {"protocol": suite.protocols[0], "num_episodes": suite.lengths[0], "memory": memory}
    return setting_for(f"{panel_name}-{SIZE}", **{**panel_record.defaults, **options})


_PLAYED: dict[tuple[str, int], tuple[float, float]] = {}


def _random_play(setting: Setting, sample: int) -> tuple[float, float]:
    """Return the mean calls of a meta-episode, and the mean tokens of a prompt, in random play."""
    # Several stages have one setting, such as those of LaMer and MAGE.
    key = setting.fingerprint, sample
    if key not in _PLAYED:
        # The limit of replies has no effect on random play.
        expected = dry_run(make_agent(f"{MODEL},max_tokens=1"), setting, None, sample)
        if expected is None or expected.prompt_tokens is None:
            raise ValueError(f"{MODEL} is no model, so its calls cannot be estimated.")
        _PLAYED[key] = expected.calls.mean, expected.prompt_tokens.mean / expected.calls.mean
    return _PLAYED[key]
