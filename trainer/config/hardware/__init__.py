"""Hardware as data: the fields that a run sets on a kind of machine, its launch command and memory. No torch here."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

from mage_envs.loading.arguments import nearest_name

FOLDER = Path(__file__).parent
"""Folder of the YAML files, the configuration of accelerate and the Slurm template."""
TEMPLATE = {"nodes": 1, "gpus-per-node": 8, "cpus-per-task": 64}
"""Options that the Slurm template sets itself."""
USABLE = 0.92
"""Share of a device's memory that a run may plan with. The driver and fragmentation use the rest."""


@dataclass(frozen=True, kw_only=True)
class Hardware:
    """Kind of machine."""

    name: str
    about: str
    """Description in one line."""
    nodes: int
    """Number of nodes."""
    devices: int
    """Devices per node."""
    memory_gb: float | None
    """Memory of a device in GiB; None for the memory of this machine."""
    generate: float
    """Tokens per second that a device samples with a model of 4 billion parameters; an assumption for planning."""
    train: float
    """Tokens per second that a device trains on (forward and backward) with that model; an assumption, too."""
    sharded: bool = False
    """True if weights, gradient and optimiser are sharded over all devices (FSDP2)."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the run and of `trl.ModelConfig` that the hardware sets; they override the preset."""
    adapter: Mapping[str, Any] = field(default_factory=dict)
    """Further fields, unless the user sets `use_peft: false`."""

    @property
    def processes(self) -> int:
        """Return the number of processes of a run."""
        return self.nodes * self.devices

    @property
    def gpus(self) -> int:
        """Return the number of GPUs per node."""
        return 0 if self.fields.get("use_cpu") else self.devices

    @property
    def memory(self) -> int:
        """Return the memory of a device in bytes."""
        if self.memory_gb is not None:
            return int(self.memory_gb * 2**30)
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")

    def launch(self) -> dict[str, str]:
        """Return the commands that start a run, directly and by Slurm, without the arguments of mage train."""
        command = f"mage train --hardware {self.name}"
        if self.processes > 1:
            config = f"--config_file {FOLDER / 'fsdp2.accelerate.yaml'} --num_processes {self.processes}"
            command = f"accelerate launch {config} -m mage_envs train --hardware {self.name}"
        slurm_options = {"nodes": self.nodes, "gpus-per-node": self.gpus, "cpus-per-task": 8 * self.devices}
        # Only options that differ from those of the template are passed to sbatch.
        options = "".join(f"--{name}={number} " for name, number in slurm_options.items() if number != TEMPLATE[name])
        slurm = {"slurm": f"sbatch {options}{FOLDER / 'train.slurm'} --hardware {self.name}"}
        # Several nodes need a launcher on each of them, which the Slurm template starts.
        return slurm if self.nodes > 1 else {"command": command, **slurm}


def hardware_names() -> list[str]:
    """Return all names, from small to large."""
    # The product of the numbers in a name orders them: 1x24gb, 1x80gb, 8x80gb, 4x8x80gb. A name without numbers is 1.
    names = [path.stem for path in FOLDER.glob("*.yaml") if not path.stem.endswith(".accelerate")]
    return sorted(names, key=lambda name: prod(map(int, re.findall(r"\d+", name))))


def hardware(name: str) -> Hardware:
    """Return the hardware of that name. Raise ValueError, with the known names, if it is unknown."""
    import yaml

    names = hardware_names()
    if name not in names:
        raise ValueError(f"unknown hardware {name!r}.{nearest_name(name, names)} There are {', '.join(names)}.")
    return Hardware(name=name, **yaml.safe_load((FOLDER / f"{name}.yaml").read_text()))
