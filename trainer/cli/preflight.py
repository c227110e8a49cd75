"""Checks before a model is loaded, and the output of a dry run. No torch here."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import yaml

from mage_envs.loading.arguments import nearest_name
from mage_envs.loading.imports import naming_file
from mage_envs.trainer.backends.model_folder import check_model_folder, read_model_json
from mage_envs.trainer.cli.estimate import Requirements, estimate, format_bytes, most_steps, refusal
from mage_envs.trainer.config.hardware import Hardware
from mage_envs.trainer.config.model_shapes import folder_of, shape_of
from mage_envs.trainer.config.run_settings import RunSettings, processes_started
from mage_envs.trainer.method.metrics import WronglyStarted
from mage_envs.trainer.trl.setup import (
    call_limits,
    env_maker,
    make_population,
    panel_evaluation,
    pool_weights,
    prompt_settings,
    sample_prompts,
)

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

LOGGERS: Mapping[str, Sequence[str]] = {
    "azure_ml": ("azureml",),
    "clearml": ("clearml",),
    "codecarbon": ("codecarbon",),
    "comet_ml": ("comet_ml",),
    "dagshub": ("dagshub",),
    "dvclive": ("dvclive",),
    "flyte": ("flytekit",),
    "mlflow": ("mlflow",),
    "neptune": ("neptune",),
    "swanlab": ("swanlab",),
    "tensorboard": ("tensorboard", "tensorboardX"),
    "trackio": ("trackio",),
    "wandb": ("wandb",),
}
"""Packages of transformers' loggers, one of which must be installed."""
MADE_HERE = ("tiny", "words")
"""Models that mage train makes itself."""
WEIGHTS = ("*.safetensors",)
DESCRIPTION = ["*config.json", "tokenizer.json", "chat_template.*"]
"""Files of a model without its weights."""


def check(config: RunSettings, model: Any, machine: Hardware | None) -> Requirements | None:
    """Check a run before its model is loaded; return the estimate of its needs.

    Args:
        config: Settings of the run. Its batch size per process is set for the hardware.
        model: Settings of the model (`trl.ModelConfig`).
        machine: The named hardware, or None.

    Returns:
        The estimate, or None if the model's shape is unknown or no hardware is named.

    Raises:
        ValueError: For a model that cannot chat, unknown opponents, a panel of another environment, or a run that does
            not fit the hardware. The message states the remedy.
    """
    check_tokenizer(model.model_name_or_path)
    # Only for their errors: the trainer makes its own.
    make_population(config)
    panel_evaluation(env_maker(config)(), config)
    shape = shape_of(model.model_name_or_path)
    if machine is None or shape is None:
        return None
    processes = machine.processes
    groups = config.groups_per_rollout
    meta_episodes = (config.num_generations or 1) * groups if groups else config.per_device_train_batch_size * processes
    if meta_episodes % processes:
        raise ValueError(
            f"{meta_episodes} meta-episodes of a rollout do not divide among the {processes} processes of --hardware "
            f"{machine.name}; set groups_per_rollout so that they do."
        )
    # The dry run has one process, and the estimate is for those of the hardware.
    config.per_device_train_batch_size = meta_episodes // processes
    requirements = estimate(config, model, shape, machine, most_steps(call_limits(config), meta_episodes))
    if (message := refusal(requirements, config, model, shape, machine)) is not None:
        raise ValueError(message)
    return requirements


def check_started(machine: Hardware | None) -> None:
    """Raise WronglyStarted unless the hardware's number of processes was started. Others would split its rollouts."""
    num_started = processes_started()
    if machine is not None and num_started != machine.processes:
        ways = " or ".join(f"`{way} ...`" for way in machine.launch().values())
        raise WronglyStarted(
            f"a run on --hardware {machine.name} requires {machine.processes} processes, but {num_started} were "
            f"started; start it with {ways}."
        )


def check_disk(requirements: Requirements | None, folder: str | None) -> None:
    """Raise ValueError if the disk of the run's folder has too little space for its checkpoints."""
    if requirements is None:
        return
    path = Path(folder or ".").absolute()
    # The run's folder may not exist yet; its nearest parent is on the same disk.
    while not path.exists():
        path = path.parent
    free = shutil.disk_usage(path).free
    if requirements.checkpoints > free:
        raise ValueError(
            f"checkpoints need {format_bytes(requirements.checkpoints)} at once and {path} has {format_bytes(free)} "
            f"free; set save_total_limit=1, a larger save_steps, or another output_dir."
        )


def check_loggers(names: str | Sequence[str]) -> None:
    """Raise ValueError if a name is not a logger's, or ImportError if the package of a logger is not installed."""
    for name in [names] if isinstance(names, str) else names:
        if name not in (*LOGGERS, "all", "none"):
            raise ValueError(
                f"report_to={name!r} is unknown.{nearest_name(name, LOGGERS)} Use one of {', '.join(LOGGERS)}, none."
            )
        packages = LOGGERS.get(name, ())
        if packages and not any(find_spec(package) is not None for package in packages):
            package = packages[0]
            raise ImportError(
                f"report_to={name} needs the package {package}. Install it with: pip install {package}, or use "
                f"--report_to none; metrics.jsonl has all metrics."
            )


def check_hub(config: Any) -> None:
    """Raise ValueError if a run is to be published and the hub cannot be used (`config`: `MAGEConfig`)."""
    if not config.push_to_hub:
        return
    from huggingface_hub import constants, get_token

    if constants.is_offline_mode():
        raise ValueError("push_to_hub needs the hub, and HF_HUB_OFFLINE forbids it; unset it, or remove --push_to_hub.")
    if not (config.hub_token or get_token()):
        raise ValueError("push_to_hub needs an account; run hf auth login, or remove --push_to_hub.")


def check_present(model: str, revision: str = "main") -> None:
    """Raise ValueError if a model's files are neither local nor can be fetched.

    If the hub has the model, the files that `check` reads are fetched into the hub's cache.
    """
    if model.partition(":")[0] in MADE_HERE:
        return
    from huggingface_hub import constants, try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    folder = folder_of(model)
    has_weights = folder is not None and any(next(folder.glob(kind), None) for kind in WEIGHTS)
    if Path(model).is_dir():
        if not (has_weights and _is_described(Path(model))):
            raise ValueError(
                f"the folder {model} holds no model: config.json or weights ({WEIGHTS[0]}) are missing; pass the "
                f"folder of a saved model."
            )
        return
    try:
        try_to_load_from_cache(model, "config.json")
    except HFValidationError as error:
        raise ValueError(f"{model} is neither a folder nor a name that the hub could have; check --model.") from error
    # Online, loading fetches the weights later. Only the small files are needed now.
    if not constants.is_offline_mode():
        folder = _fetch(model, revision)
        if not _is_described(folder):
            raise ValueError(
                f"{model} at {constants.ENDPOINT} has no config.json, so it is not a model; check --model."
            )
    elif not has_weights and (file := naming_file()) is not None:
        raise ValueError(
            f"{file} names the model {model}, which is not in the hub's cache, and a name in a file is not fetched; "
            f"check it, then add --model {model}, or run hf download {model}."
        )
    elif not has_weights:
        raise ValueError(
            f"{model} is not a local folder and {'its weights are' if folder else 'it is'} not in the hub's cache, and "
            f"HF_HUB_OFFLINE forbids fetching it; run HF_HUB_OFFLINE=0 hf download {model} with a network connection, "
            f"or pass a saved model's folder as --model."
        )


def _is_described(folder: Path) -> bool:
    return any((folder / name).is_file() for name in ("config.json", "adapter_config.json"))


def _fetch(model: str, revision: str) -> Path:
    """Return the folder of a model's small files in the hub's cache: its config and its tokenizer.

    Raises ValueError if the hub does not return them.
    """
    # The hub's client, whose errors a missing network raises.
    import httpx
    from huggingface_hub import constants, errors, snapshot_download
    from huggingface_hub.utils.tqdm import disable_progress_bars

    hub = constants.ENDPOINT
    # The first class that matches counts: a gated repository is also one that is not found.
    messages = {
        errors.GatedRepoError: f"requires permission; request it at {hub}/{model}, then run hf auth login.",
        errors.RepositoryNotFoundError: f"is not a local folder, and no model at {hub} that you may see; check "
        f"--model, or run hf auth login if it is private.",
        errors.RevisionNotFoundError: f"at {hub} has no revision {revision!r}; check --model_revision.",
    }
    disable_progress_bars()
    try:
        return Path(snapshot_download(model, revision=revision, allow_patterns=DESCRIPTION))
    except (httpx.HTTPError, errors.LocalEntryNotFoundError) as error:
        cause = str(error).strip().partition("\n")[0].removeprefix("Got: ")
        refused = (
            f"is not a local folder and not in the hub's cache, and {hub} does not return it ({cause}); check the "
            f"network, or pass a saved model's folder as --model."
        )
        raise ValueError(
            f"{model} {next((text for kind, text in messages.items() if isinstance(error, kind)), refused)}"
        ) from error


def check_tokenizer(model: str) -> None:
    """Raise ValueError if a model's tokenizer, in a folder or in the hub's cache, cannot chat or end a reply."""
    folder = folder_of(model)
    if folder is not None:
        check_model_folder(folder)
    if folder is None or not (folder / "tokenizer_config.json").is_file():
        return
    tokenizer_config: Mapping[str, Any] = read_model_json(folder, "tokenizer_config.json")
    template_files = [
        folder / name for name in ("chat_template.jinja", "chat_template.json", "additional_chat_templates")
    ]
    if not tokenizer_config.get("chat_template") and not any(path.exists() for path in template_files):
        raise ValueError(f"the tokenizer of {model} has no chat template; use an instruction-tuned model.")
    end = tokenizer_config.get("eos_token")
    end = end.get("content") if isinstance(end, Mapping) else end
    if not end:
        raise ValueError(f"the tokenizer of {model} names no eos_token, so that no reply would end; set one.")
    # transformers has no id for an end token outside the vocabulary, so no reply could end with it.
    if (folder / "tokenizer.json").is_file():
        read = read_model_json(folder, "tokenizer.json")
        words = read.get("model", {}).get("vocab", {})
        added = {token["content"] for token in read.get("added_tokens", ())}
        if isinstance(words, Mapping) and end not in words and end not in added:
            raise ValueError(
                f"the vocabulary of {model} does not contain its end token {end!r}, so that no reply would end; set "
                f"another eos_token in its tokenizer_config.json."
            )


def describe(config: RunSettings, model: Any, machine: Hardware | None, requirements: Requirements | None) -> str:
    """Return the text of a dry run: settings, opponents, environment, needs, and one prompt of each kind.

    Args:
        machine: The named hardware, or None.
        requirements: The estimate of `check`, or None.
    """
    names = {item.name for item in fields(RunSettings)}
    settings = {name: _plain(vars(config)[name]) for name in names}
    settings |= {name: vars(model)[name] for name in _MODEL}
    sections: dict[str, Any] = {
        "settings": settings,
        "opponents": pool_weights(config),
        "environment": prompt_settings(config),
    }
    if machine is not None:
        sections["hardware"] = {"about": machine.about, **machine.launch()}
        sections["estimate"] = (
            requirements.to_text()
            if requirements
            else f"none: the shape of {model.model_name_or_path} is not known here"
        )
    prompts = [f"--- {kind} prompt ---\n{prompt}\n" for kind, prompt in sample_prompts(config).items()]
    return "\n".join([yaml.safe_dump(_mappings(sections), sort_keys=True, width=200), *prompts])


def _plain(value: Any) -> Any:
    """Return a value in a form that YAML can show."""
    value = getattr(value, "value", value)
    return value if isinstance(value, bool | int | float | str | list | Mapping | None) else str(value)


def _mappings(value: Any) -> Any:
    return {key: _mappings(entry) for key, entry in value.items()} if isinstance(value, Mapping) else value
