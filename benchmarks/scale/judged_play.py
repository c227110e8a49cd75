"""Level and adaptation of an agent at one setting: the runs of the controls, the sentence, the table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from mage_envs.benchmarks.evaluation.suites.environments import game_of, make_envs
from mage_envs.benchmarks.evaluation.suites.setting import Setting
from mage_envs.benchmarks.evaluation.tables.summary_table import JudgedCurves
from mage_envs.benchmarks.records.about import setting_of
from mage_envs.benchmarks.records.control_runs import CONTROLS, prepare_control, stored_controls
from mage_envs.benchmarks.records.controls import apply_control
from mage_envs.benchmarks.records.record_store import Records, reading
from mage_envs.benchmarks.scale.adaptation import PlayedValue, ScaledRun, luck_adjusted_values
from mage_envs.benchmarks.scale.scale import Scale, ScaleScore, verdict
from mage_envs.benchmarks.scale.scale_text import AgentRow, agent_table, legend, scale_sentence
from mage_envs.cli.tables import Block, as_text
from mage_envs.core import NotEnumerable
from mage_envs.opponents import UnknownOpponent
from mage_envs.opponents.exact import NotExact, headroom
from mage_envs.opponents.exact.learner_hands import TooManyStates
from mage_envs.registry import headline
from mage_envs.tree import is_enumerable

CONTROL_ROWS = {"none": "without its memory", "other": "with another's memory"}
"""Names of the rows of the controls."""
MAX_SENTENCES = 2
"""Maximum number of agents that a report describes in a sentence each."""
STATES = 100_000
"""Maximum number of belief states of a judged setting. Beyond it the first judged decision takes minutes."""


def scale_of_setting(setting: Setting, states: int = STATES) -> Scale | None:
    """Return the scale of a setting, or None if decisions cannot be judged there or memory is worth nothing.

    Decisions are judged if the game has two players, an enumerable tree and the return as its measure, all opponents
    have exact probabilities, and all episodes are played with fresh deals.

    Args:
        states: Maximum number of belief states.
    """
    env = make_envs(setting.panel.env_id, setting.options)[0]
    game, protocol = game_of(setting.panel.env_id, setting.options), env.get_wrapper_attr("protocol")
    weights, episodes = setting.panel.weights(), env.get_wrapper_attr("num_episodes")
    fresh = setting.resolved["deal"] == "fresh" and not protocol.early_stop
    if not weights or len(weights) < 2 or episodes < 2 or not fresh or game.spec.players != 2:
        return None
    if headline(game) != "returns" or not is_enumerable(game):
        return None
    hands = env.get_wrapper_attr("hands_per_episode")
    rule = setting.options.get("seat") or env.get_wrapper_attr("settings").seat or protocol.seat
    try:
        values = headroom(game, dict(weights), episodes=episodes, hands=hands, seat=rule, limit=states)
    except (NotExact, NotEnumerable, TooManyStates, UnknownOpponent, TypeError, ValueError):
        return None
    return Scale.of(values, hands, game.spec.min_return, game.spec.max_return)


@dataclass(frozen=True, kw_only=True)
class JudgedAgent:
    """An agent at one setting, with the runs of its controls."""

    agent: str
    scale: Scale
    runs: Mapping[str, ScaledRun]
    """The main run under an empty name, and those of the controls that were played."""

    @property
    def level(self) -> ScaleScore | None:
        """Level of the agent."""
        return self.runs[""].level()

    def difference(self, control: str) -> ScaleScore | None:
        """Return the level less that under a control, or None if it was not played."""
        if control not in self.runs:
            return None
        return self.runs[""].difference(self.runs[control], by_regrets=control == "none")

    def sentence(self) -> str:
        """Return the result in one sentence."""
        return scale_sentence(self.agent, self.level, *map(self.difference, CONTROLS))

    def row(self) -> AgentRow:
        """Return the row of the agent in the table of agents."""
        own_score, other_score = map(self.difference, CONTROLS)
        return self._row(self.agent, self.runs[""], own_score, other_score)

    def control_rows(self) -> list[AgentRow]:
        """Return the rows of the controls that were played."""
        return [
            self._row(text, self.runs[name], None, None) for name, text in CONTROL_ROWS.items() if name in self.runs
        ]

    def curves(self) -> JudgedCurves:
        """Return the exact lines and the controls for a figure."""
        controls = {
            row.agent: [value.mean for value in row.episodes if value is not None] for row in self.control_rows()
        }
        return JudgedCurves(self.scale.lines(), controls)

    def _row(self, name: str, run: ScaledRun, own_score: ScaleScore | None, other_score: ScaleScore | None) -> AgentRow:
        values = [run.episode_value(k) for k in range(len(self.scale.no_memory))]
        return AgentRow(agent=name, level=run.level(), own_score=own_score, other_score=other_score, episodes=values)

    def blocks(self) -> list[Block]:
        """Return the table of the agent, its controls and the reference lines, with its explanation."""
        table = agent_table([self.row()], self.scale, len(self.scale.no_memory), self.control_rows())
        return [table, *legend()]

    @property
    def verdict(self) -> str | None:
        """Verdict of the sentence, or None without one."""
        return verdict(*map(self.difference, CONTROLS))

    def to_json(self) -> dict[str, Any]:
        """Return all values as JSON values."""
        own_score, other_score = map(self.difference, CONTROLS)
        scores = {"level": self.level, "own": own_score, "other": other_score}
        return {
            "sentence": self.sentence(),
            "verdict": self.verdict,
            **{name: None if score is None else score.to_json() for name, score in scores.items()},
            "lines": self.scale.to_json(),
        }


def judge_run(records: Records, setting: Setting, scale: Scale) -> ScaledRun:
    """Return a stored run of a setting with its scale. Raises ValueError as `luck_adjusted_values`."""
    return scale_run(setting, scale, luck_adjusted_values(records))


def scale_run(setting: Setting, scale: Scale, values: Mapping[int, PlayedValue]) -> ScaledRun:
    """Return the values of a setting's meta-episodes with its scale."""
    return ScaledRun(
        unit=game_of(setting.panel.env_id, setting.options).spec.unit,
        hands=scale.hands,
        scale=scale,
        tasks=setting.tasks,
        weights=setting.panel.weights(),
        values=values,
    )


def judge_folder(folder: Path) -> JudgedAgent | None:
    """Return the agent of a stored run, with the controls that its folder holds.

    The result is None if its decisions cannot be judged, or if the run is a control itself.

    Raises:
        ValueError: If the run cannot be read, is not of this version, or has a control of another run.
    """
    records = Records(folder)
    with reading(folder):
        setting = setting_of(records.about)
        # A run under a control has no verdict, because its memory is not its own.
        scale = None if "/" in str(setting.resolved["memory"]) else scale_of_setting(setting)
        if scale is None or not records.lines:
            return None
        runs = {"": judge_run(records, setting, scale)}
        for name, path in stored_controls(folder).items():
            prepare_control(name, path, folder)
            control = Records(path)
            runs[name] = judge_run(control, setting_of(control.about), scale)
    return JudgedAgent(agent=records.about["agent"]["name"], scale=scale, runs=runs)


def describe_agents(agents: Sequence[JudgedAgent]) -> tuple[str, str]:
    """Return the sentences of agents, if there are few, and their table as text, one table for each scale."""
    blocks: list[Block] = []
    for scale in dict.fromkeys(agent.scale for agent in agents):
        rows = [agent for agent in agents if agent.scale == scale]
        control_rows = rows[0].control_rows() if len(rows) == 1 else []
        blocks += [
            agent_table([agent.row() for agent in rows], scale, len(scale.no_memory), control_rows),
            *legend(),
            "",
        ]
    described_agents = agents if len(agents) <= MAX_SENTENCES else ()
    return " ".join(f"{agent.sentence()}." for agent in described_agents), as_text(blocks[:-1])


def can_be_controlled(setting: Setting) -> bool:
    """Return True if the memory of a setting is a name without a control of its own, so that it can be exchanged."""
    memory = setting.resolved["memory"]
    return isinstance(setting.options.get("memory", ""), str) and memory != "none" and "/" not in str(memory)


def control_settings(
    setting: Setting, folder: Path, *, by_policy: bool, own_memory: bool, has_other: bool
) -> Iterator[tuple[str, Setting]]:
    """Yield the name and the setting of each control of the verdict.

    Args:
        setting: Setting of the main run.
        folder: Folder of the main run, from which memories are copied.
        by_policy: True if a policy plays.
        own_memory: True if the agent has a memory of its own.
        has_other: True if the main run finished meta-episodes against several opponents. Otherwise there is no memory
            of another one.
    """
    # The question for the opponent belongs to the main run, and would cost a call more per episode here.
    options = {key: value for key, value in setting.env_kwargs.items() if key not in ("elicit", "elicit_form")}
    setting = replace(setting, env_kwargs=options)
    for name in CONTROLS if has_other else CONTROLS[:1]:
        yield name, apply_control(setting, name, str(folder) if name == "other" else None, by_policy, own_memory)


@contextmanager
def folder_or_temporary(folder: Path | None) -> Iterator[Path]:
    """Yield the folder, or a temporary one."""
    if folder is not None:
        yield folder
        return
    with TemporaryDirectory(prefix="mage-eval-") as temporary:
        yield Path(temporary)
