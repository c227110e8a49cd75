"""Stages of the paper's tables: every training and every evaluation, in the order in which they can run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import gymnasium as gym

from mage_envs.benchmarks.evaluation.suites.panels import QUICK, named_panel
from mage_envs.benchmarks.evaluation.suites.paper import SUITES, Suite
from mage_envs.benchmarks.evaluation.suites.released import SIZE
from mage_envs.benchmarks.evaluation.suites.rows import SuiteRow
from mage_envs.benchmarks.evaluation.suites.sampling import PAPER
from mage_envs.benchmarks.paper.ablation import panels_of
from mage_envs.benchmarks.suites.planning import PlannedRun, plan_runs, short_names
from mage_envs.loading.arguments import nearest_name
from mage_envs.registry import explain_unavailable
from mage_envs.trainer.config.presets import ABLATION_PRESETS, ABLATIONS, PRESETS, environments

MODEL = "llm:Qwen/Qwen3-4B@http://localhost:8000/v1"
"""Agent of the prompted methods: the paper's model behind a server on this machine."""
TRIAL = "scripted:random"
"""Agent of the prompted methods in a trial."""
PROMPTED: Mapping[str, str] = {"ReAct": "react", "Reflexion": "reflexion", "A-MEM": "amem", "Memento": "memento"}
"""Methods of the paper without training, and their memories."""
TRAINED: Mapping[str, str] = {"GRPO": "grpo", "GiGPO": "gigpo", "LaMer": "lamer", "MAGE": "mage"}
"""Methods of the paper with training, and their algorithms."""
ABLATION = "ablation-"
NAMES = ("table1", "ood", *(f"{ABLATION}{name}" for name in ABLATIONS))
"""Tables that have stages."""
_ROOTS = {"table1": "paper-table1", "ood": "paper-ood"}
"""Table to its suite."""


@dataclass(frozen=True)
class Stage:
    """One training or one evaluation."""

    number: int
    """Number from 1."""
    preset: str
    """Preset of the training, or of the model to evaluate; empty for a prompted method."""
    panel: str = ""
    """Panel of the evaluation; empty for a training."""
    method: str = ""
    """Row of the table; empty for a training."""
    after: tuple[int, ...] = ()
    """Numbers of the stages that must end before this one."""

    @property
    def name(self) -> str:
        """Return the preset of a training, or panel and method of an evaluation."""
        return f"{self.panel}, {self.method}" if self.panel else self.preset

    def obstacle(self) -> str:
        """Return the reason why the stage's game cannot be made here, such as a missing engine, or an empty text."""
        if self.panel:
            return named_panel(self.panel).obstacle()
        env_id: str = PRESETS[self.preset]["env_id"]
        return explain_unavailable(gym.spec(env_id).kwargs["game_name"])

    def folder(self, out: Path) -> Path:
        """Return the folder of a training. The model of an evaluation is in that of its training."""
        return out / "train" / self.preset

    def run(self, suite: Suite, out: Path, agent: str, quick: bool) -> PlannedRun | None:
        """Return the run of an evaluation, or None if the panel's data are absent.

        Args:
            suite: Suite that contains the panel.
            agent: Agent of the prompted methods.

        Raises:
            FileNotFoundError: If the model was not trained yet.
        """
        stage_agent = str(self.folder(out)) if self.preset else agent
        # Scripted agents have no sampling, and a saved model has its own memory.
        sampling = None if stage_agent.startswith(("scripted:", "policy:")) else dict(PAPER)
        row = SuiteRow(
            self.method, {short_names(suite)[self.panel]: stage_agent}, PROMPTED.get(self.method), sampling=sampling
        )
        runs = plan_runs(suite, [row], QUICK if quick else SIZE, quick=quick)
        return runs[0] if runs else None


def check_name(name: str) -> None:
    """Raise ValueError with the nearest name if there is no such table."""
    if name not in NAMES:
        raise ValueError(f"Unknown table {name!r}.{nearest_name(name, NAMES)} Use {', '.join(NAMES)}.")


def suite_of(name: str) -> Suite:
    """Return the suite with all panels of a table."""
    if name in _ROOTS:
        return SUITES[_ROOTS[name]]
    section = name.removeprefix(ABLATION)
    all_panels = [panel for preset in ABLATION_PRESETS[section].values() for panel in panels_of(section, preset)]
    bases = [panel.removesuffix("-128") for panel in dict.fromkeys(all_panels)]
    released = all(panel.startswith("paper-") for panel in bases)
    terms = SUITES["paper-ablations"] if released else SUITES["demo"]
    return Suite(
        about=ABLATIONS[section].about,
        panels=tuple(bases),
        protocols=terms.protocols[:1],
        lengths=terms.lengths[:1],
    )


def stages_of(name: str) -> list[Stage]:
    """Return the stages of a table: the trainings, then the evaluations."""
    if name in _ROOTS:
        return _table_stages(suite_of(name).panels)
    section = name.removeprefix(ABLATION)
    presets = list(ABLATION_PRESETS[section].values())
    stages = [Stage(number, preset) for number, preset in enumerate(presets, start=1)]
    for training, (choice, preset) in enumerate(ABLATION_PRESETS[section].items(), start=1):
        for panel in panels_of(section, preset):
            number, base = len(stages) + 1, panel.removesuffix("-128")
            stages.append(Stage(number, preset, base, method=choice, after=(training,)))
    return stages


def _table_stages(panels: Sequence[str]) -> list[Stage]:
    """Return the stages of a table with all methods of the paper."""
    presets = [
        f"{algorithm}-{environment}-paper" for environment in _environments(panels) for algorithm in TRAINED.values()
    ]
    stages = [Stage(number, preset) for number, preset in enumerate(presets, start=1)]
    trained = {stage.preset: stage.number for stage in stages}
    for panel in panels:
        for method in (*PROMPTED, *TRAINED):
            number, preset = len(stages) + 1, ""
            if method in TRAINED:
                [environment] = _environments([panel])
                preset = f"{TRAINED[method]}-{environment}-paper"
            required = (trained[preset],) if preset else ()
            stages.append(Stage(number, preset, panel, method=method, after=required))
    return stages


def _environments(panels: Sequence[str]) -> list[str]:
    """Return the environments of the presets, in the order of the panels."""
    names = {f"mage/{game}-Meta-v0": name for name, (game, _, _) in environments().items()}
    return list(dict.fromkeys(names[named_panel(panel).env_id] for panel in panels))
