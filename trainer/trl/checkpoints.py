"""`CheckpointingTrainer`: checkpoints, snapshots of the learner and the final model, for one or many processes."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

import torch
from accelerate import PartialState
from accelerate.utils import broadcast_object_list, is_peft_model
from transformers.trainer_callback import TrainerState
from transformers.trainer_utils import TrainOutput
from trl.trainer.grpo_trainer import GRPOTrainer

from mage_envs.files.atomic import draft_beside, remove_drafts, write_atomically
from mage_envs.files.manifest import verify_checkpoint
from opponents import Population
from trainer.backends.play_settings import PlaySettings
from trainer.config.mage_config import MAGEConfig
from trainer.method.metrics import RunStopped
from trainer.runs.model_card import CARD, model_card
from trainer.runs.run_folder import check_new, finish_checkpoint, newest_checkpoint, place_model, rotate
from trainer.trl import trl_compat
from trainer.trl.callbacks import RolloutProgress

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
    found: T = box[0]
    return found


class CheckpointingTrainer(GRPOTrainer):
    """Trainer that writes every folder as a draft and moves it into place when it is complete.

    All ranks call the methods, and rank 0 moves the folders. Weights that are not finite raise RunStopped and are never
    written.
    """

    args: MAGEConfig
    play: PlaySettings | None = None
    """Play settings of the model; None if `gym.make` did not make the environment."""
    population: Population | None = None
    """The training opponents."""
    command: Sequence[str] | None = None
    """Arguments of the command that started the run, for the model card; None for a run from Python."""
    _draft: Path | None = None

    @property
    def is_sharded(self) -> bool:
        """True if no rank holds the whole model, so that all ranks must take part in writing it."""
        return bool(self.is_fsdp_enabled or self.is_deepspeed_enabled)

    def checkpoint_to_resume(self, asked: str | bool | None) -> str | None:
        """Return the checkpoint to resume from, or None for a new run.

        For True it is the newest sound checkpoint, with a warning for each newer one that is damaged. Raises ValueError
        if a new run would replace the checkpoints of its folder.
        """
        run = Path(str(self.args.output_dir))
        # Drafts of a killed run. No other process writes into this folder now.
        on_first_rank(lambda: remove_drafts(run, "checkpoint-*"))
        if not asked:
            check_new(run, "pass resume_from_checkpoint=True")
            return None
        if asked is not True:
            return asked
        newest, passed = on_first_rank(lambda: newest_checkpoint(run))
        for line in passed:
            _log.warning(line)
        if newest is None:
            raise ValueError(f"{self.args.output_dir} holds no sound checkpoint; start a run in another output_dir.")
        return str(newest)

    @contextmanager
    def length_known(self, start: str | None) -> Iterator[None]:
        """Set `max_steps` to the checkpoint's step inside the context if the run was complete there."""
        # Under `updates_per_rollout="auto"` the planned steps are an upper bound. A finished run would start another
        # rollout.
        limit, planned = self.args.max_rollouts, self.args.max_steps
        if start is not None and limit is not None:
            state = TrainerState.load_from_json(str(Path(start) / TRAINER_STATE_NAME))
            done: Any = (state.stateful_callbacks or {}).get(RolloutProgress.__name__)
            if done and done["attributes"]["rollouts"] >= limit:
                self.args.max_steps = state.global_step
        try:
            yield
        finally:
            self.args.max_steps = planned

    def write_model(self, folder: str | Path, together: bool = True) -> None:
        """Write the current model and its play settings into `folder`; other files in it stay.

        Without `together` this rank writes alone, which sharded models do not allow.
        """
        target = Path(folder)
        # A draft first, so that readers of `target` find the older model while the new one is written.
        with self._writing(target / "model", str(target), together) as draft:
            self.save_model(str(draft))
            if self.accelerator.is_main_process:
                place_model(draft, target)
                remove_drafts(target, "model")

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """Save the model as the Trainer does, with its play settings (`mage.json`) and a model card.

        If FSDP keeps a checkpoint's weights in shards, the Trainer writes nothing here. Then a checkpoint gets the
        configuration and the tokenizer, and any other folder the whole model.
        """
        if self.args.should_save:
            folder = Path(output_dir or str(self.args.output_dir))
            folder.mkdir(parents=True, exist_ok=True)
            # Before the weights: the Trainer pushes the folder to the hub when it has written them.
            if self.play is not None:
                self.play.save(folder)
            self._write_card(folder)
        plugin = self.accelerator.state.fsdp_plugin if self.is_fsdp_enabled else None
        if plugin is not None and "FULL" not in str(plugin.state_dict_type):
            # All ranks take part in gathering the weights. An internal call writes a checkpoint, whose shards FSDP
            # saves itself.
            held = None if _internal_call else self.accelerator.get_state_dict(self.model)
            if self.args.should_save and held is not None:
                self._save(output_dir, held)
            elif self.args.should_save:
                self._save_configuration(str(output_dir))
        super().save_model(output_dir, _internal_call)

    def _save_configuration(self, folder: str) -> None:
        """Save the configuration, or the adapter's, and the tokenizer, without which shards are no model."""
        model = self.accelerator.unwrap_model(self.model)
        parts = model.peft_config.values() if is_peft_model(model) else (model.config, model.generation_config)
        for part in (*parts, self.processing_class):
            part.save_pretrained(folder)

    def end_here(self) -> TrainOutput:
        """End training between two steps, and write the checkpoint of this step unless a sound one exists."""
        place = Path(str(self.args.output_dir)) / f"checkpoint-{self.state.global_step}"
        # One rank decides: another may see the folder before it is complete, and writing it is collective.
        if on_first_rank(lambda: not place.exists() or verify_checkpoint(place) is not None):
            self._save_checkpoint(cast(torch.nn.Module, self.model), None)
        for event in (self.callback_handler.on_save, self.callback_handler.on_train_end):
            # No step follows that would call these, so the callbacks are called here.
            self.control = event(self.args, self.state, self.control)
        return TrainOutput(self.state.global_step, float("nan"), {})

    def _save_checkpoint(self, model: torch.nn.Module, trial: Any) -> None:
        run = Path(str(self.args.output_dir))
        place = run / f"checkpoint-{self.state.global_step}"
        best = None
        if self.state.best_global_step:
            # The Trainer's own path would name the draft, which is moved below.
            best = run / f"checkpoint-{self.state.best_global_step}"
        with self._writing(place, str(place)) as draft:
            # transformers writes its folder into the draft, and its own rotation finds no older checkpoint there.
            self._draft = draft
            super()._save_checkpoint(model, trial)  # type: ignore[no-untyped-call]
            # Other ranks write shards and random states. The manifest must list all of them.
            self.accelerator.wait_for_everyone()
            if self.accelerator.is_main_process:
                written = draft / place.name
                if best is not None:
                    self.state.best_model_checkpoint = str(best)
                    self.state.save_to_json(str(written / TRAINER_STATE_NAME))
                finish_checkpoint(written, place)
                rotate(run, self.args.save_total_limit, best)
        self._draft = None

    def create_model_card(self, model_name: str | None = None, *args: Any, **kwargs: Any) -> None:  # type: ignore[override]
        """Write the card of the model into the run's folder, in place of TRL's.

        TRL calls this at each checkpoint, too. Checkpoints have a card of their own.
        """
        if self.is_world_process_zero() and self._draft is None:
            self._write_card(Path(str(self.args.output_dir)), model_name)

    def _write_card(self, folder: Path, name: str | None = None) -> None:
        text = model_card(
            name=name or Path(str(self.args.output_dir)).name,
            base_model=trl_compat.model_name(self),
            config=self.args,
            play=self.play,
            opponents={} if self.population is None else self.population.weights(),
            command=self.command,
        )
        write_atomically(folder / CARD, text)

    def _get_output_dir(self, trial: Any) -> str:
        return str(self._draft) if self._draft is not None else str(super()._get_output_dir(trial))

    @contextmanager
    def _writing(self, place: Path, named: str, together: bool = True) -> Iterator[Path]:
        """Yield a draft folder beside `place`, the same on all ranks. It is removed if writing fails."""
        # Before the draft exists, so that a refusal leaves nothing to remove.
        self._check_weights(named, together)
        draft = on_first_rank(lambda: draft_beside(place), together)
        if self.accelerator.is_main_process:
            draft.mkdir(parents=True)
        try:
            yield draft
        except BaseException:
            self._draft = None
            if self.accelerator.is_main_process:
                shutil.rmtree(draft, ignore_errors=True)
            raise
        # No rank may use the folder before rank 0 has moved it.
        if together:
            self.accelerator.wait_for_everyone()

    def _check_weights(self, named: str, together: bool) -> None:
        """Raise RunStopped if a weight is not finite: with `together`, on all ranks if it is on one."""
        broken = torch.zeros((), device=self.accelerator.device)
        for weight in trl_compat.local_weights(self):
            broken += (~torch.isfinite(weight)).any()
        if float(self.accelerator.reduce(broken, reduction="sum") if together else broken):
            raise RunStopped(
                f"The weights are not finite after update {self.state.global_step}, so {named} is not written. "
                f"Continue from the newest checkpoint with --resume and a lower learning_rate."
            )
