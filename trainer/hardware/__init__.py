"""Hardware as data: what a run sets on a machine of a kind, how it is started there, and what fits. No torch here."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

from mage_envs.arguments import nearest_name

FOLDER = Path(__file__).parent
"""Of the YAML files, accelerate's configuration and the Slurm template."""
TEMPLATE = {"nodes": 1, "gpus-per-node": 8, "cpus-per-task": 64}
"""What that asks of Slurm by itself."""
USABLE = 0.92
"""Share of a device's memory that a run may plan with; the rest is the driver's and lost between blocks."""


@dataclass(frozen=True, kw_only=True)
class Hardware:
    """A kind of machine."""

    name: str
    about: str
    nodes: int
    devices: int
    """Of a node."""
    memory_gb: float | None
    """Of a device, in GiB; None: this machine's own memory."""
    generate: float
    """Tokens that a device samples in a second with a model of 4 billion parameters: an assumption, to plan with."""
    train: float
    """Tokens that it forwards and backwards in a second, likewise."""
    sharded: bool = False
    """Whether weights, gradient and optimiser are spread over all devices (FSDP2)."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """What it sets of a run's fields and of `trl.ModelConfig`'s; they come after a preset's."""
    adapter: Mapping[str, Any] = field(default_factory=dict)
    """Further ones, unless the user says `use_peft: false`."""

    @property
    def processes(self) -> int:
        """Of a run."""
        return self.nodes * self.devices

    @property
    def gpus(self) -> int:
        """Of a node."""
        return 0 if self.fields.get("use_cpu") else self.devices

    @property
    def memory(self) -> int:
        """Bytes of a device."""
        if self.memory_gb is not None:
            return int(self.memory_gb * 2**30)
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")

    def launch(self) -> dict[str, str]:
        """How a run is started there, before the arguments of mage-train: by itself, and by Slurm."""
        started = f"mage-train --hardware {self.name}"
        if self.processes > 1:
            config = f"--config_file {FOLDER / 'fsdp2.accelerate.yaml'} --num_processes {self.processes}"
            started = f"accelerate launch {config} -m trainer --hardware {self.name}"
        asked = {"nodes": self.nodes, "gpus-per-node": self.gpus, "cpus-per-task": 8 * self.devices}
        options = "".join(f"--{name}={number} " for name, number in asked.items() if number != TEMPLATE[name])
        slurm = {"slurm": f"sbatch {options}{FOLDER / 'train.slurm'} --hardware {self.name}"}
        return slurm if self.nodes > 1 else {"command": started, **slurm}


def hardware_names() -> list[str]:
    """All, from small to large."""
    found = [path.stem for path in FOLDER.glob("*.yaml") if not path.stem.endswith(".accelerate")]
    return sorted(found, key=lambda name: prod(map(int, re.findall(r"\d+", name))))


def hardware(name: str) -> Hardware:
    """One by its name; raises ValueError for an unknown one, with those that there are."""
    import yaml

    names = hardware_names()
    if name not in names:
        raise ValueError(f"unknown hardware {name!r}.{nearest_name(name, names)} There are {', '.join(names)}.")
    return Hardware(name=name, **yaml.safe_load((FOLDER / f"{name}.yaml").read_text()))
