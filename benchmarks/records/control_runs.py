"""Runs of the verdict's controls, stored in the folder `controls` of their run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from mage_envs.benchmarks.evaluation.run.agents import NO_MODEL
from mage_envs.benchmarks.records.about import identity_fields, setting_of
from mage_envs.benchmarks.records.controls import apply_control
from mage_envs.benchmarks.records.record_store import RUN, read_about, reading
from mage_envs.files.bounded import names_inside
from mage_envs.loading.arguments import parse
from mage_envs.wrappers.controls import SOURCED

CONTROLS = ("none", "other")
"""Controls of the verdict: without memory, and with the memory of another opponent."""


def control_of(memory: str) -> str | None:
    """Return the name of the control in the name of a memory: `other` of `other@1f2e/reflection`; None without one."""
    head, slash, _ = memory.partition("/")
    return head.partition("@")[0] if slash else None


def control_folder(folder: Path, name: str) -> Path:
    """Return the folder of a run's control. Raises UnsafeFile if it is a link, which could lead anywhere."""
    for part in ("controls", f"controls/{name}"):
        names_inside(folder, part)
    return folder / "controls" / name


def stored_controls(folder: Path) -> dict[str, Path]:
    """Return the folders of the controls that a run holds, by name. Raises UnsafeFile as `control_folder`."""
    folders = {name: control_folder(folder, name) for name in CONTROLS}
    return {name: path for name, path in folders.items() if (path / RUN).exists()}


def check_control(name: str, folder: Path, main: Path) -> None:
    """Raise ValueError if a stored run has another agent, other tasks or other options than the main run."""
    with reading(folder):
        main_about, about = read_about(main), read_about(folder)
    memory = re.escape(main_about["setting"]["options"]["memory"])
    forms = {"none": rf"none(/{memory})?", "other": rf"other@[0-9a-f]{{32}}/{memory}"}
    ours, theirs = ((run["agent"], identity_fields(run)) for run in (main_about, about))
    if ours != theirs or not re.fullmatch(forms[name], about["setting"]["options"]["memory"]):
        raise ValueError(f"{folder} is not the control {name!r} of this run. Remove it.")


def restore_source(folder: Path, main: Path) -> None:
    """Put the memories that a control copies from its main run into this machine's cache.

    Without them the control cannot be executed again. They are made from the records of the main run.

    Args:
        folder: Folder of the control, such as `other`.
        main: Folder of the main run.

    Raises:
        ValueError: If the control was played with other memories than those of the main run.
    """
    memory = str(read_about(folder)["env_kwargs"].get("memory"))
    with reading(main):
        about = read_about(main)
        setting, control = setting_of(about), memory.partition("@")[0]
        by_policy = parse(about["agent"]["name"]).name in NO_MODEL
        if control not in SOURCED or apply_control(setting, control, str(main), by_policy).options["memory"] != memory:
            raise ValueError(f"{folder} was not played with the memories of {main}.")


def prepare_control(name: str, folder: Path, main: Path) -> None:
    """Check that a run is a control of another one, and make it executable here. Raises as the functions above."""
    check_control(name, folder, main)
    if name in SOURCED:
        restore_source(folder, main)


def runs_with_controls(folder: Path) -> Iterator[Path]:
    """Yield the folder of a run and those of its controls. Raises ValueError as `prepare_control`."""
    yield folder
    for name, path in stored_controls(folder).items():
        prepare_control(name, path, folder)
        yield path
