"""`Checkpoints`: checkpoints, snapshots of the learner and the final model, for one or many processes."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import torch
from accelerate import PartialState
from accelerate.utils import broadcast_object_list, is_peft_model
from transformers.trainer_callback import TrainerState
from transformers.trainer_utils import TrainOutput

from mage_envs.files.atomic import draft_beside, remove_drafts, write_atomically
from mage_envs.files.manifest import verify_checkpoint
from mage_envs.trainer.backends.play_settings import PlaySettings
from mage_envs.trainer.runs.model_card import CARD, model_card
from mage_envs.trainer.runs.run_folder import check_new, finish_checkpoint, newest_checkpoint, place_model, rotate
from mage_envs.trainer.trl import trl_compat
from mage_envs.trainer.trl.callbacks import RolloutProgress
from mage_envs.trainer.trl.trainer_hooks import TrainerHooks
from mage_envs.wrappers.rollout.generation_client import RunStopped

TRAINER_STATE_NAME = "trainer_state.json"
_log = logging.getLogger(__name__)
T = TypeVar("T")


def on_first_rank(function: Callable[[], T], together: bool = True) -> T:
    """Call a function on rank 0 only, and return its result on all ranks."""
    state = PartialState()
    if not together or state.num_processes == 1:
        return function()
    box: list[Any] = [function() if state.is_main_process else None]
    # A broadcast, because a result may be random (a draft's name) or depend on a file that another rank does not see.
    broadcast_object_list(box)
    result: T = box[0]
    return result


class Checkpoints:
    """Writes every folder of a run as a draft and moves it into place when it is complete.

    All ranks call the methods, and rank 0 moves the folders. Weights that are not finite raise RunStopped and are never
    written.

    Args:
        trainer: The trainer, for its model, settings and state.
        play: Play settings of the model; None if `gym.make` did not make the environment.
        opponents: Returns the current weights of the training opponents, for the model card.
    """

    def __init__(
        self, trainer: TrainerHooks, play: PlaySettings | None, opponents: Callable[[], Mapping[str, float]]
    ) -> None:
        self.command: Sequence[str] | None = None
        """Arguments of the command that started the run, for the model card; None for a run from Python."""
        self.draft: Path | None = None
        """Folder in which the Trainer writes the current checkpoint; None if it writes none."""
        self._trainer, self._accelerator = trainer, trainer.accelerator
        self._play, self._opponents = play, opponents

    def to_resume(self, checkpoint: str | bool | None) -> str | None:
        """Return the checkpoint to resume from, or None for a new run.

        For True it is the newest sound checkpoint, with a warning for each newer one that is damaged. Raises ValueError
        if a new run would replace the checkpoints of its folder.
        """
        run = Path(str(self._trainer.args.output_dir))
        # Drafts of a killed run. No other process writes into this folder now.
        on_first_rank(lambda: remove_drafts(run, "checkpoint-*"))
        if not checkpoint:
            check_new(run, "pass resume_from_checkpoint=True")
            return None
        if checkpoint is not True:
            return checkpoint
        newest, passed = on_first_rank(lambda: newest_checkpoint(run))
        for line in passed:
            _log.warning(line)
        if newest is None:
            raise ValueError(
                f"{self._trainer.args.output_dir} holds no sound checkpoint; start a run in another output_dir."
            )
        return str(newest)

    @contextmanager
    def length_known(self, start: str | None) -> Iterator[None]:
        """Set `max_steps` to the checkpoint's step inside the context if the run was complete there."""
        # Under `updates_per_rollout="auto"` the planned steps are an upper bound. A finished run would start another
        # rollout.
        limit, planned = self._trainer.args.max_rollouts, self._trainer.args.max_steps
        if start is not None and limit is not None:
            state = TrainerState.load_from_json(str(Path(start) / TRAINER_STATE_NAME))
            progress_state: Any = (state.stateful_callbacks or {}).get(RolloutProgress.__name__)
            if progress_state and progress_state["attributes"]["rollouts"] >= limit:
                self._trainer.args.max_steps = state.global_step
        try:
            yield
        finally:
            self._trainer.args.max_steps = planned

    def write_model(self, folder: str | Path, together: bool = True) -> None:
        """Write the current model and its play settings into `folder`; other files in it stay.

        Without `together` this rank writes alone, which sharded models do not allow.
        """
        target = Path(folder)
        # A draft first, so that readers of `target` find the older model while the new one is written.
        with self._writing(target / "model", str(target), together) as draft:
            self._trainer.save_model(str(draft))
            if self._accelerator.is_main_process:
                place_model(draft, target)
                remove_drafts(target, "model")

    def save_parts(self, output_dir: str | None, internal: bool) -> None:
        """Save the parts of a model that the Trainer does not: play settings, card, and with FSDP's shards the weights.

        If FSDP keeps a checkpoint's weights in shards, the Trainer saves no model. Then a checkpoint gets the
        configuration and the tokenizer, and any other folder the whole model.

        Args:
            output_dir: Folder of the model; None is the run's folder.
            internal: True if the Trainer saves a checkpoint.
        """
        trainer = self._trainer
        if trainer.args.should_save:
            folder = Path(output_dir or str(trainer.args.output_dir))
            folder.mkdir(parents=True, exist_ok=True)
            # Before the weights: the Trainer pushes the folder to the hub when it has written them.
            if self._play is not None:
                self._play.save(folder)
            self.write_card(folder)
        plugin = self._accelerator.state.fsdp_plugin if trainer.is_fsdp_enabled else None
        if plugin is not None and "FULL" not in str(plugin.state_dict_type):
            # All ranks take part in gathering the weights. An internal call writes a checkpoint, whose shards FSDP
            # saves itself.
            weights = None if internal else self._accelerator.get_state_dict(trainer.model)
            if trainer.args.should_save and weights is not None:
                trainer.write_weights(output_dir, weights)
            elif trainer.args.should_save:
                self._save_configuration(str(output_dir))

    def _save_configuration(self, folder: str) -> None:
        """Save the configuration, or the adapter's, and the tokenizer, without which shards are no model."""
        model = self._accelerator.unwrap_model(self._trainer.model)
        parts = model.peft_config.values() if is_peft_model(model) else (model.config, model.generation_config)
        for part in (*parts, self._trainer.processing_class):
            part.save_pretrained(folder)

    def end_here(self) -> TrainOutput:
        """End training between two steps, and write the checkpoint of this step unless a sound one exists."""
        folder = Path(str(self._trainer.args.output_dir)) / f"checkpoint-{self._trainer.state.global_step}"
        # One rank decides: another may see the folder before it is complete, and writing it is collective.
        if on_first_rank(lambda: not folder.exists() or verify_checkpoint(folder) is not None):
            self._trainer.write_checkpoint()
        trainer = self._trainer
        for event in (self._trainer.callback_handler.on_save, self._trainer.callback_handler.on_train_end):
            # No step follows that would call these, so the callbacks are called here.
            trainer.control = event(trainer.args, trainer.state, trainer.control)
        return TrainOutput(self._trainer.state.global_step, float("nan"), {})

    def save(self, default: Callable[[], None]) -> None:
        """Save a checkpoint; `default` is the Trainer's own way."""
        run = Path(str(self._trainer.args.output_dir))
        target = run / f"checkpoint-{self._trainer.state.global_step}"
        best = None
        if self._trainer.state.best_global_step:
            # The Trainer's own path would name the draft, which is moved below.
            best = run / f"checkpoint-{self._trainer.state.best_global_step}"
        with self._writing(target, str(target)) as draft:
            # transformers writes its folder into the draft, and its own rotation finds no older checkpoint there.
            self.draft = draft
            default()
            # Other ranks write shards and random states. The manifest must list all of them.
            self._accelerator.wait_for_everyone()
            if self._accelerator.is_main_process:
                written = draft / target.name
                if best is not None:
                    self._trainer.state.best_model_checkpoint = str(best)
                    self._trainer.state.save_to_json(str(written / TRAINER_STATE_NAME))
                finish_checkpoint(written, target)
                rotate(run, self._trainer.args.save_total_limit, best)
        self.draft = None

    def write_card(self, folder: Path, name: str | None = None) -> None:
        """Write the model card into a folder; `name` is the model's, by default that of the run's folder."""
        text = model_card(
            name=name or Path(str(self._trainer.args.output_dir)).name,
            base_model=trl_compat.model_name(self._trainer),
            config=self._trainer.args,
            play=self._play,
            opponents=self._opponents(),
            command=self.command,
        )
        write_atomically(folder / CARD, text)

    @contextmanager
    def _writing(self, target: Path, label: str, together: bool = True) -> Iterator[Path]:
        """Yield a draft folder beside `target`, the same on all ranks. It is removed if writing fails."""
        # Before the draft exists, so that a refusal leaves nothing to remove.
        self._check_weights(label, together)
        draft = on_first_rank(lambda: draft_beside(target), together)
        if self._accelerator.is_main_process:
            draft.mkdir(parents=True)
        try:
            yield draft
        except BaseException:
            self.draft = None
            if self._accelerator.is_main_process:
                shutil.rmtree(draft, ignore_errors=True)
            raise
        # No rank may use the folder before rank 0 has moved it.
        if together:
            self._accelerator.wait_for_everyone()

    def _check_weights(self, label: str, together: bool) -> None:
        """Raise RunStopped if a weight is not finite: with `together`, on all ranks if it is on one."""
        broken = torch.zeros((), device=self._accelerator.device)
        for weight in trl_compat.local_weights(self._trainer):
            broken += (~torch.isfinite(weight)).any()
        if float(self._accelerator.reduce(broken, reduction="sum") if together else broken):
            step = self._trainer.state.global_step
            raise RunStopped(
                f"The weights are not finite after update {step}, so {label} is not written. "
                f"Continue from the newest checkpoint with --resume and a lower learning_rate."
            )
