"""The extras of this distribution by the modules that they install, for errors about a module that is missing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version

EXTRAS: Mapping[str, str] = {
    **dict.fromkeys(("torch", "transformers", "trl", "accelerate", "peft", "datasets", "yaml"), "train"),
    **dict.fromkeys(("huggingface_hub", "safetensors", "tokenizers"), "train"),
    "vllm": "vllm",
    "gym_sokoban": "gym-sokoban",
    "pygame": "render",
    **dict.fromkeys(("flask", "waitress", "werkzeug"), "arena"),
    "httpx2": "endpoints",
    "gguf": "lm",
    **dict.fromkeys(("matplotlib", "jinja2"), "report"),
    "pyarrow": "records",
    "ray": "ray",
    "submitit": "slurm",
    "openenv": "openenv",
    "verifiers": "verifiers",
    "inspect_ai": "inspect",
    **dict.fromkeys(("choix", "networkx", "scipy"), "tournament"),
}
"""Module to the extra that installs it, directly or as a dependency."""


def install_command(extra: str) -> str:
    """Return the command that installs an extra."""
    return f'pip install "mage-envs[{extra}]"'


@contextmanager
def requires(subject: str, extra: str, package: str | None = None) -> Iterator[None]:
    """Raise ImportError with the remedy in place of the error for a module that is missing inside this context.

    Args:
        subject: What needs the module, the first words of the message.
        package: Name of the package, if it is not that of the module.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise ImportError(
            f"{subject} requires {package or error.name}. Install it with: {install_command(extra)}"
        ) from error


def describe_missing(error: ImportError) -> str:
    """Return the message of an import error, with the command that installs a missing module of an extra."""
    module = (error.name or "").partition(".")[0]
    if not isinstance(error, ModuleNotFoundError) or module not in EXTRAS:
        return str(error)
    return f"{module} is missing. Install it with: {install_command(EXTRAS[module])}"


def version_or(package: str, otherwise: str) -> str:
    """Return the version of an installed distribution, else `otherwise`."""
    # From the metadata, because importing an engine would load it.
    try:
        return version(package)
    except PackageNotFoundError:
        return otherwise
