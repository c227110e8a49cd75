"""Run folders as a stranger could make them: each changes one thing of a sound run."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mage_envs.benchmarks.canonical import canonical
from mage_envs.benchmarks.records.lines import digest

MODULE = "stranger_module"
"""A module beside the records that writes a file when it is imported."""
ESCAPES = "x\x1b]0;P\x07\x1b[2J\u202e\nFAKE ROW"
Change = Callable[[Path], None]


def forge(sound: Path, folder: Path, change: Change) -> Path:
    """Copy a sound run and change the copy."""
    shutil.copytree(sound, folder)
    change(folder)
    return folder


def edit_run(change: Callable[[dict[str, Any]], Any]) -> Change:
    """Return a change of run.json."""

    def apply(folder: Path) -> None:
        about = json.loads((folder / "run.json").read_text())
        (folder / "run.json").write_text(json.dumps(change(about) or about))

    return apply


def edit_lines(change: Callable[[dict[str, Any]], Any]) -> Change:
    """Return a change of every line; the digests are made to fit."""

    def apply(folder: Path) -> None:
        for shard in (folder / "episodes").glob("*.gz"):
            lines = [json.loads(raw) for raw in gzip.decompress(shard.read_bytes()).splitlines()]
            for line in lines:
                change(line)
                line["digest"] = digest(line)
            shard.write_bytes(gzip.compress(b"".join(canonical(line) + b"\n" for line in lines)))

    return apply


def name_opponent(name: str) -> Change:
    """Return a change that names another opponent in the panel and in every task."""

    def panel(about: dict[str, Any]) -> None:
        about["panel"]["opponents"] = [[name, 1.0]]
        about["setting"]["weights"] = {name: 1.0}

    def task(line: dict[str, Any]) -> None:
        line["task"]["opponent"] = line["opponent"] = name

    return lambda folder: (edit_run(panel)(folder), edit_lines(task)(folder))[0]


def set_options(**options: Any) -> Change:
    """Return a change of the environment's options."""

    def change(about: dict[str, Any]) -> None:
        about["env_kwargs"].update(options)

    return edit_run(change)


def play_elsewhere(env_id: str, **options: Any) -> Change:
    """Return a change of the environment, with options."""

    def change(about: dict[str, Any]) -> None:
        about["panel"].update(env_id=env_id, opponents="")
        about["env_kwargs"].update(options)

    def task(line: dict[str, Any]) -> None:
        line["task"].update(env_id=env_id, opponent=None)

    return lambda folder: (edit_run(change)(folder), edit_lines(task)(folder))[0]


def set_at(*path: str | int, value: Any) -> Change:
    """Return a change of one value in run.json."""

    def change(about: dict[str, Any]) -> None:
        container: Any = about
        for key in path[:-1]:
            container = container[key]
        container[path[-1]] = value

    return edit_run(change)


def link(name: str, target: Path) -> Change:
    """Return a change that replaces a file or folder by a link."""

    def apply(folder: Path) -> None:
        target_path = folder / name
        shutil.rmtree(target_path) if target_path.is_dir() else target_path.unlink()
        target_path.symlink_to(target)

    return apply


def pipe(name: str) -> Change:
    """Return a change that replaces a file by a named pipe."""

    def apply(folder: Path) -> None:
        (folder / name).unlink(missing_ok=True)
        os.mkfifo(folder / name)

    return apply


def write(name: str, content: bytes) -> Change:
    """Return a change that replaces a file's content."""
    return lambda folder: (folder / name).write_bytes(content) and None


def in_run(text: str) -> Change:
    """Return a change that puts raw JSON text in place of the field `platform`."""

    def apply(folder: Path) -> None:
        about = json.loads((folder / "run.json").read_text())
        about["platform"] = "PLACE"
        (folder / "run.json").write_text(json.dumps(about).replace('"PLACE"', text))

    return apply


def forgeries(outside: Path, url: str) -> dict[str, Change]:
    """Return all forgeries by name.

    Args:
        outside: Folder beside the records with `run.json`, `secret.txt` and a model whose mage.json imports `MODULE`.
        url: Address of a server that nothing may call.
    """
    shell = f"os:system:touch {outside / 'PWNED'}"
    secret = str(outside / "secret.txt")
    shard, bomb = "episodes/00000.jsonl.gz", gzip.compress(bytes(64 * 2**20))
    return {
        # names that would execute code
        "shell": name_opponent(shell),
        "shell in the panel": set_at("panel", "opponents", value=[[shell, 1.0]]),
        "shell in the tasks": edit_lines(lambda line: line["task"].update(opponent=shell)),
        "shell as a pool": set_at("panel", "opponents", value=shell),
        "shell inside switch": name_opponent(f"switch:{shell},kuhn/nash,1"),
        "shell as the default opponent": set_options(opponent=shell),
        "opponent of a module": name_opponent(f"{MODULE}:Policy"),
        "standard library": name_opponent("antigravity:Policy"),
        "imports": set_at("imports", value=[MODULE]),
        "imports of a path": set_at("imports", value=[f"../{MODULE}"]),
        "environment of a module": set_at("panel", "env_id", value=f"{MODULE}:mage/KuhnPoker-Meta-v0"),
        "memory of a module": set_options(memory=f"{MODULE}:Memory"),
        "memory under a control": set_options(memory=f"frozen/{MODULE}:Memory"),
        "encoder of a module": set_options(memory=f"amem:encoder={MODULE}:Encoder"),
        "style of a module": set_options(style=f"{MODULE}:Style"),
        "wrapper of a module": set_options(additional_wrappers=[f"{MODULE}:Wrapper"]),
        "model that imports": name_opponent(f"checkpoint:{outside / 'model'}"),
        "model behind an address": name_opponent(f"llm:m@{url}/v1"),
        # paths outside of the folder
        "bank outside": set_options(memory=f"amem:bank={secret}"),
        "encoder outside": set_options(memory=f"amem:encoder=minilm:{outside}"),
        "source outside": set_options(memory=f"other@../../{outside.name}/secret/reflection"),
        "levels outside": play_elsewhere("mage/Sokoban-Meta-v0", levels=secret),
        "shop outside": play_elsewhere("mage/WebShop-Meta-v0", data=str(outside)),
        "goals outside": play_elsewhere("mage/WebShop-Meta-v0", goals=f"{outside}/goals.json"),
        "house outside": play_elsewhere("mage/ALFWorld-Meta-v0", data=str(outside)),
        "game file outside": play_elsewhere("mage/OpenSpiel-Meta-v0", game=f"efg_game(filename={secret})"),
        # files that are not files of the folder
        "linked run": link("run.json", outside / "run.json"),
        "linked shard": link(shard, outside / "secret.txt"),
        "linked root": link("root.json", outside / "secret.txt"),
        "linked summary": link("summary.json", outside / "secret.txt"),
        "linked episodes": link("episodes", outside),
        "pipe as run": pipe("run.json"),
        "pipe as shard": pipe(shard),
        "pipe as root": pipe("root.json"),
        "pipe as summary": pipe("summary.json"),
        "device as shard": link(shard, Path("/dev/zero")),
        "suite of other folders": write(
            "suite.json", json.dumps({"runs": [{"folder": f"../{outside.name}"}]}).encode()
        ),
        # bombs and numbers
        "unpacks to much": write(shard, bomb * 4),
        "torn": lambda folder: (folder / shard).write_bytes((folder / shard).read_bytes()[:-20]) and None,
        "deep run": in_run("[" * 100_000 + "]" * 100_000),
        "deep options": set_options(deep=json.loads("[" * 900 + "]" * 900)),
        "deep line": write(shard, gzip.compress(b"[" * 100_000 + b"\n")),
        "huge integer": in_run("1" * 5000),
        "no JSON": write("run.json", b"\xff\xfe{"),
        "a list": write("run.json", b"[]"),
        "meta-episodes": set_at("setting", "meta_episodes", value=10**10),
        "half a meta-episode": set_at("setting", "meta_episodes", value=1.5),
        "rows": set_at("panel", "rows_per_cell", value=10**9),
        "size": set_at("panel", "size", value=10**12),
        "seed": set_at("panel", "seed", value=-1),
        "hands": set_options(hands_per_episode=10**12),
        "episodes": set_options(num_episodes=10**9),
        "no panel": lambda folder: edit_run(lambda about: about.pop("panel") and None)(folder),
        "types": set_at("versions", value={"mage-envs": 3}),
        "episode's types": edit_lines(lambda line: line["episodes"][0].update(value="1e999", hands=-1)),
        "index": edit_lines(lambda line: line.update(index=10**7)),
        "call's types": edit_lines(lambda line: line["calls"][0].update(tokens=[10**400, 1])),
        "name of a shard": lambda folder: (folder / shard).rename(folder / "episodes" / "x.jsonl.gz") and None,
        "number of a shard": lambda folder: (folder / shard).rename(folder / f"episodes/{'9' * 60}.jsonl.gz") and None,
        # text that controls a terminal
        "agent's name": set_at("agent", "name", value=ESCAPES),
        "opponent's name": name_opponent(ESCAPES),
        "setting's name": set_at("setting", "name", value=ESCAPES),
        "panel's name": set_at("panel", "name", value=ESCAPES),
        "failure": edit_lines(lambda line: line.update(failure=f"opponent: {ESCAPES}")),
        "reply": edit_lines(lambda line: line["calls"][0].update(reply=ESCAPES)),
        "observation": edit_lines(lambda line: line["calls"][0].update(observation=ESCAPES)),
        "category": edit_lines(lambda line: line.update(category=ESCAPES)),
        "surrogate": set_at("agent", "name", value="\ud800"),
    }
