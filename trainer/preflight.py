"""What is looked at before a model is loaded, and what a dry run prints. No torch here."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import yaml

from trainer.estimate import Needs, estimate, most_steps, refusal, told_bytes
from trainer.hardware import Hardware
from trainer.metrics import WronglyStarted
from trainer.settings import RunSettings, processes_started
from trainer.setup import (
    call_limits,
    env_maker,
    make_population,
    panel_evaluation,
    pool_weights,
    prompt_settings,
    sample_prompts,
)
from trainer.shapes import folder_of, shape_of

_MODEL = (
    "model_name_or_path",
    "dtype",
    "use_peft",
    "lora_r",
    "lora_alpha",
    "lora_target_modules",
    "load_in_4bit",
    "attn_implementation",
)

MADE_HERE = ("tiny", "words")
"""Models that mage-train makes."""
WEIGHTS = ("*.safetensors", "pytorch_model*.bin")
DESCRIPTION = ["*config.json", "tokenizer.json", "chat_template.*"]
"""Files of a model without its weights."""


def check(config: RunSettings, model: Any, machine: Hardware | None) -> Needs | None:
    """The estimate, where the model's shape is known and the hardware named.

    Raises ValueError, with the remedy, for a model that cannot chat, opponents that there are not, a panel of another
    environment, and a run that does not fit the hardware.
    """
    check_tokenizer(model.model_name_or_path)
    make_population(config)
    panel_evaluation(env_maker(config)(), config)
    shape = shape_of(model.model_name_or_path)
    if machine is None or shape is None:
        return None
    processes = machine.processes
    groups = config.groups_per_rollout
    played = (config.num_generations or 1) * groups if groups else config.per_device_train_batch_size * processes
    if played % processes:
        raise ValueError(
            f"{played} meta-episodes of a rollout do not divide among the {processes} processes of --hardware "
            f"{machine.name}; set groups_per_rollout so that they do."
        )
    config.per_device_train_batch_size = played // processes
    found = estimate(config, model, shape, machine, most_steps(call_limits(config), played))
    if (message := refusal(found, config, model, shape, machine)) is not None:
        raise ValueError(message)
    return found


def check_started(machine: Hardware | None) -> None:
    """Raises WronglyStarted where other than the hardware's processes were started, which would split its rollouts."""
    started = processes_started()
    if machine is not None and started != machine.processes:
        ways = " or ".join(f"`{way} ...`" for way in machine.launch().values())
        raise WronglyStarted(
            f"a run on --hardware {machine.name} is of {machine.processes} processes, but {started} were started; "
            f"start it by {ways}."
        )


def check_disk(found: Needs | None, folder: str | None) -> None:
    """Raises ValueError where the disk of the run's folder has no room for its checkpoints."""
    if found is None:
        return
    place = Path(folder or ".").absolute()
    while not place.exists():
        place = place.parent
    free = shutil.disk_usage(place).free
    if found.checkpoints > free:
        raise ValueError(
            f"checkpoints need {told_bytes(found.checkpoints)} at once and {place} has {told_bytes(free)} free; set "
            f"save_total_limit=1, a larger save_steps, or another output_dir."
        )


def check_present(model: str, revision: str = "main") -> None:
    """Raises ValueError for a model whose files are not here and cannot be fetched, which loading would find out.

    Of one that the hub has it fetches, into the hub's cache, what `check` reads.
    """
    if model in MADE_HERE:
        return
    from huggingface_hub import constants, try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    folder = folder_of(model)
    whole = folder is not None and any(next(folder.glob(kind), None) for kind in WEIGHTS)
    if Path(model).is_dir():
        if not (whole and _is_described(Path(model))):
            raise ValueError(
                f"the folder {model} holds no model: config.json or weights ({WEIGHTS[0]}) are missing; give that of a "
                f"saved model."
            )
        return
    try:
        try_to_load_from_cache(model, "config.json")
    except HFValidationError as error:
        raise ValueError(f"{model} is neither a folder nor a name that the hub could have; check --model.") from error
    if not constants.is_offline_mode():
        folder = _fetched(model, revision)
        if not _is_described(folder):
            raise ValueError(f"{model} at {constants.ENDPOINT} has no config.json, so it is no model; check --model.")
    elif not whole:
        raise ValueError(
            f"{model} is no folder here and {'its weights are' if folder else 'it is'} not in the hub's cache, and "
            f"HF_HUB_OFFLINE forbids to fetch it; where there is a network run HF_HUB_OFFLINE=0 hf download {model}, "
            f"or give a saved model's folder as --model."
        )


def _is_described(folder: Path) -> bool:
    return any((folder / name).is_file() for name in ("config.json", "adapter_config.json"))


def _fetched(model: str, revision: str) -> Path:
    """The hub's small files of a model, in its cache: what it is, and its tokenizer. Raises ValueError without them."""
    import httpx  # the hub's client
    from huggingface_hub import constants, errors, snapshot_download
    from huggingface_hub.utils.tqdm import disable_progress_bars

    hub = constants.ENDPOINT
    told = {  # the first that fits
        errors.GatedRepoError: f"must be granted to you; ask for it at {hub}/{model}, then run hf auth login.",
        errors.RepositoryNotFoundError: f"is no folder here, and no model at {hub} that you may see; check --model, or "
        f"run hf auth login where it is private.",
        errors.RevisionNotFoundError: f"at {hub} has no revision {revision!r}; check --model_revision.",
    }
    disable_progress_bars()
    try:
        return Path(snapshot_download(model, revision=revision, allow_patterns=DESCRIPTION))
    except (httpx.HTTPError, errors.LocalEntryNotFoundError) as error:
        cause = str(error).strip().partition("\n")[0].removeprefix("Got: ")
        refused = (
            f"is no folder here and not in the hub's cache, and {hub} does not give it ({cause}); check the network, "
            f"or give a saved model's folder as --model."
        )
        raise ValueError(
            f"{model} {next((text for kind, text in told.items() if isinstance(error, kind)), refused)}"
        ) from error


def check_tokenizer(model: str) -> None:
    """Raises ValueError for a model, in a folder or in the hub's cache, that cannot chat or cannot end a reply."""
    folder = folder_of(model)
    if folder is None or not (folder / "tokenizer_config.json").is_file():
        return
    told: Mapping[str, Any] = json.loads((folder / "tokenizer_config.json").read_text())
    kept = [folder / name for name in ("chat_template.jinja", "chat_template.json", "additional_chat_templates")]
    if not told.get("chat_template") and not any(path.exists() for path in kept):
        raise ValueError(f"the tokenizer of {model} has no chat template; use an instruction-tuned model.")
    end = told.get("eos_token")
    end = end.get("content") if isinstance(end, Mapping) else end
    if not end:
        raise ValueError(f"the tokenizer of {model} names no eos_token, so that no reply would end; name one.")
    if (folder / "tokenizer.json").is_file():
        read = json.loads((folder / "tokenizer.json").read_text())
        words = read.get("model", {}).get("vocab", {})
        added = {one["content"] for one in read.get("added_tokens", ())}
        if isinstance(words, Mapping) and end not in words and end not in added:
            raise ValueError(
                f"the vocabulary of {model} lacks its end token {end!r}, so that no reply would end; name another "
                f"eos_token in its tokenizer_config.json."
            )


def describe(config: RunSettings, model: Any, machine: Hardware | None, found: Needs | None) -> str:
    """What a run would use: its settings, opponents, environment, needs, and one prompt of each kind."""
    names = {item.name for item in fields(RunSettings)}
    settings = {name: _plain(vars(config)[name]) for name in names}
    settings |= {name: vars(model)[name] for name in _MODEL}
    told: dict[str, Any] = {
        "settings": settings,
        "opponents": pool_weights(config),
        "environment": prompt_settings(config),
    }
    if machine is not None:
        told["hardware"] = {"about": machine.about, **machine.launch()}
        told["estimate"] = found.told() if found else f"none: the shape of {model.model_name_or_path} is not known here"
    prompts = [f"--- {kind} prompt ---\n{prompt}\n" for kind, prompt in sample_prompts(config).items()]
    return "\n".join([yaml.safe_dump(_mappings(told), sort_keys=True, width=200), *prompts])


def _plain(value: Any) -> Any:
    """A value as YAML can show it."""
    value = getattr(value, "value", value)
    return value if isinstance(value, bool | int | float | str | list | Mapping | None) else str(value)


def _mappings(value: Any) -> Any:
    return {key: _mappings(one) for key, one in value.items()} if isinstance(value, Mapping) else value
