"""Speed and memory of WebShop on this machine, beside their targets: `python -m dev.speed.webshop`.

    python -m dev.speed.webshop [--products 1000 100000 1180000] [--folder DIR] [--json FILE]

For each size, a catalogue is generated and written in the format of the original's files. One process imports it, and
two others open, search and play it. Times are CPU times. The default sizes take half a minute. 1180000, the size of the
original's full data, takes half an hour and 8 GB of disk in `--folder` (default: a temporary folder). All files are
removed at the end. Memory is measured on Linux only.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from mage_envs.files.atomic import write_atomically
from mage_envs.games.webshop.catalogue_maker.family import Member
from mage_envs.games.webshop.catalogue_maker.make import FamilyRecord, stream
from mage_envs.games.webshop.game import WebShop
from mage_envs.games.webshop.official import SIZES, import_official

PEOPLE = 12_087
"""Number of goals that are written as human instructions, as many as in the original."""
SEARCHES, EPISODES, READS = 300, 300, 5000
COLD_STARTS = 3
SMAPS = Path("/proc/self/smaps_rollup")
READING = ("description", "< prev", "features", "< prev")
MOST_TO_SEARCH = {1000: 1.0, 100_000: 3.0}
"""Upper limit of the median time of a search in milliseconds, by the number of products."""
BYTES_PER_PRODUCT = 7000
"""Disk space per product in bytes: the files (3.1 kB) and the imported data with its shards."""


@dataclass(frozen=True)
class WebShopLine:
    """Measured figure."""

    products: int
    name: str
    value: float
    unit: str
    target: float | None = None
    most: bool = True
    """True if the target is an upper limit, False if it is a lower limit."""

    @property
    def met(self) -> bool | None:
        """True if the target is met, None if there is none."""
        if self.target is None:
            return None
        return self.value <= self.target if self.most else self.value >= self.target


# -- the generated files -----------------------------------------------------------------------------------------


def write_files(folder: Path, products: int) -> None:
    """Write a catalogue in the format of the original's full data.

    One product in ten has a generated instruction. The first products have human instructions.
    """
    names = SIZES["full"]
    people: dict[str, list[dict[str, Any]]] = {}
    remaining = PEOPLE
    with (folder / names.products).open("w") as shelf, (folder / names.instructions).open("w") as instruction_file:
        # Written product by product, because the full size would not fit into memory.
        shelf.write("[")
        instruction_file.write("{")
        for number, (raw, entry, annotations) in enumerate(_entries(products)):
            comma = "," if number else ""
            asin = raw["asin"]
            shelf.write(f"{comma}\n{json.dumps(raw | _surplus_fields(raw))}")
            stored_entry = entry if number % 10 == 0 else {"attributes": entry["attributes"], "instruction": None}
            instruction_file.write(f"{comma}\n{json.dumps(asin)}: {json.dumps(stored_entry)}")
            if remaining > 0:
                people[asin] = annotations
                remaining -= len(annotations)
        shelf.write("]\n")
        instruction_file.write("}\n")
    (folder / "items_human_ins.json").write_text(json.dumps(people))


def _entries(products: int) -> Iterator[tuple[dict[str, Any], dict[str, Any], list[dict[str, Any]]]]:
    for family in stream(products):
        for member, listing in zip(family.members, family.listings, strict=True):
            yield listing.raw, about(member), _annotations(family, listing.raw["asin"])


def about(member: Member) -> dict[str, Any]:
    """Return the entry in the schema of `items_ins_v2.json`, with the start of the original's synthetic goals."""
    names = [attribute.name for attribute in member.attributes]
    wanted_names = [name for name in names if name in member.exposed][:2] or names[:2]
    stem = f"i'm looking for {member.kind.name} with {' and '.join(wanted_names)}"
    return {"attributes": names, "instruction": stem, "instruction_attributes": wanted_names}


def _annotations(family: FamilyRecord, asin: str) -> list[dict[str, Any]]:
    return [
        {
            "instruction": goal.instruction,
            "instruction_attributes": list(goal.attributes),
            "instruction_options": [value for _, value in goal.options],
        }
        for goal in family.goals
        if goal.asin == asin
    ]


def _surplus_fields(raw: dict[str, Any]) -> dict[str, Any]:
    """Return fields of the original's entries that the import drops. They make the files as long as the original's."""
    return {
        "product_information": {"ASIN": raw["asin"], "Department": raw["category"], "Notes": raw["name"] * 4},
        "brand_url": f"https://example.org/stores/{raw['asin']}",
        "images": [f"https://example.org/images/{raw['asin']}-{number}.jpg" for number in range(8)],
        "average_rating": 4.5,
        "seller_name": raw["name"].split(" ")[0],
    }


# -- measurements in child processes ----------------------------------------------------------------------------------


def child(*words: str) -> dict[str, float]:
    """Return the figures that `python -m dev.speed.webshop --child ...` prints."""
    # A process per measurement, because peak memory and caches of one would falsify the next.
    command = [sys.executable, "-m", "dev.speed.webshop", "--child", *words]
    process = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    figures: dict[str, float] = json.loads(process.stdout)
    return figures


def measure_import(source: str, cache: str) -> dict[str, float]:
    """Import the files. Return its CPU seconds and the peak memory in MB."""
    start_time = time.process_time()
    import_official(source, "full", cache)
    return {"import": time.process_time() - start_time, "import peak": _status("VmHWM")}


def measure_use(source: str, cache: str) -> dict[str, float]:
    """Open the imported files, search and play. Return the figures of all three, and of a forked process."""
    # The import is complete, so this call only returns its folder.
    folder = str(import_official(source, "full", cache))
    start_time = time.perf_counter()
    game = WebShop("train", data=folder, goals="human")
    opened = time.perf_counter() - start_time
    figures = {"open": opened} | measure_searches(game) | measure_steps(game)
    private = in_fork(game)
    return figures | ({} if private is None else {"private": private})


def measure_unforked(source: str, cache: str) -> dict[str, float]:
    """Return the private memory in MB that opening, searching and reading add in a process that was not forked."""
    folder = str(import_official(source, "full", cache))
    if not SMAPS.is_file():
        return {}
    memory_before = _private()
    search_and_read(WebShop("train", data=folder, goals="human"))
    return {"alone": _private() - memory_before}


def _draw_instructions(game: WebShop, count: int) -> list[str]:
    numbers = np.random.default_rng(0).integers(len(game.shop), size=count)
    return [game.shop.goal_at(int(number)).instruction.lower() for number in numbers]


def measure_searches(game: WebShop) -> dict[str, float]:
    """Return milliseconds per search, by whole instructions, instructions without the price, and their ends."""
    shapes = (lambda text: text, lambda text: text.partition(", and price")[0], lambda text: text[-40:])
    milliseconds = []
    for number, text in enumerate(_draw_instructions(game, SEARCHES + 3)):
        query = shapes[number % 3](text)
        # Instructions may repeat, and a cached search costs nothing.
        game.shop.search.cache_clear()
        start_time = time.process_time()
        game.shop.search(query)
        milliseconds.append(1000 * (time.process_time() - start_time))
    # The first three searches, one of each shape, only warm up.
    middle, slow = np.percentile(milliseconds[3:], [50, 99])
    return {"search p50": float(middle), "search p99": float(slow)}


def episode(game: WebShop, rng: np.random.Generator) -> int:
    """Play a purchase after a look at two pages of results and a product's texts. Return the number of steps."""
    state, count = game.initial_state(rng), 0
    for step in ("search", "next >", "< prev", "product", *READING, "option", "buy now"):
        legal, action = state.legal_actions, f"click[{step}]"
        if step == "search":
            action = f"search[{state.session.goal.instruction}]"
        elif step == "product":
            # The products follow an example of a search and two buttons.
            action = legal[3 + int(rng.integers(len(legal) - 3))]
        elif step == "option":
            # The options follow seven buttons. If the product has none, its reviews are opened.
            action = legal[7 + int(rng.integers(len(legal) - 7))] if len(legal) > 7 else "click[reviews]"
        state = state.after(action)
        state.observation(0)
        count += 1
        # Back to the product, because a purchase is possible on its page only.
        if action == "click[reviews]":
            state = state.after("click[< prev]")
    return count


def measure_steps(game: WebShop) -> dict[str, float]:
    """Return steps per CPU second, without cached searches from earlier episodes."""
    rng, steps, seconds = np.random.default_rng(0), 0, 0.0
    for number in range(EPISODES + 1):
        game.shop.search.cache_clear()
        start_time = time.process_time()
        count = episode(game, rng)
        # The first episode only warms up.
        if number:
            steps += count
            seconds += time.process_time() - start_time
    return {"steps": steps / seconds}


def in_fork(game: WebShop) -> float | None:
    """Return the private memory in MB of a forked process after searching and reading, or None if it is unknown."""
    if not SMAPS.is_file():
        return None
    reader, writer = os.pipe()
    # As in a server that forks. Otherwise a collection in the child would write to, and so copy, all parent objects.
    gc.freeze()
    if os.fork() == 0:
        search_and_read(game)
        os.write(writer, json.dumps(_private()).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        private = float(pipe.read())
    os.wait()
    gc.unfreeze()
    return private


def search_and_read(game: WebShop) -> None:
    """Search and read products, the work of a process before its memory is measured."""
    rng = np.random.default_rng(1)
    for query in _draw_instructions(game, SEARCHES):
        game.shop.search(query)
    for position in rng.integers(len(game.shop.catalogue), size=READS):
        game.shop.catalogue.product(int(position))


def _private() -> float:
    """Return the private memory of this process in MB."""
    # Dirty pages only. Clean pages of mapped files are shared by all processes.
    lines = SMAPS.read_text().splitlines()
    return next(int(line.split()[1]) / 1000 for line in lines if line.startswith("Private_Dirty:"))


def _status(name: str) -> float:
    """Return an entry of /proc/self/status in MB, or 0 if the file does not exist."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except FileNotFoundError:
        return 0.0
    return next(int(line.split()[1]) / 1000 for line in lines if line.startswith(f"{name}:"))


CHILDREN: dict[str, Callable[..., dict[str, float]]] = {
    "imported": measure_import,
    "used": measure_use,
    "alone": measure_unforked,
}


# -- the table -------------------------------------------------------------------------------------------------------


def measure(products: int, folder: Path) -> list[WebShopLine]:
    """Return the figures of one size.

    Args:
        folder: Folder of the files. It is empty before and after the call.

    Raises:
        OSError: If the disk has less than twice the required space.
    """
    need, free = products * BYTES_PER_PRODUCT, shutil.disk_usage(folder).free
    if free < 2 * need:
        raise OSError(
            f"{products:,} products need {need / 1e9:.1f} GB in {folder}, which must have twice as much free space, "
            f"got {free / 1e9:.1f} GB. Set --folder to a larger disk."
        )
    source, cache = folder / "files", folder / "cache"
    source.mkdir()
    try:
        start_time = time.process_time()
        write_files(source, products)
        generation_time = time.process_time() - start_time
        size = sum(file.stat().st_size for file in source.iterdir()) / 1e6
        figures: dict[str, float] = {}
        for name in CHILDREN:
            figures |= child(name, str(source), str(cache))
        cache_size = sum(file.stat().st_size for file in cache.rglob("*") if file.is_file()) / 1e6
    finally:
        shutil.rmtree(source)
        shutil.rmtree(cache, ignore_errors=True)
    line = partial(WebShopLine, products)
    return [
        line("generated files", size, "MB"),
        line("generating them", generation_time, "s"),
        line("importing them", figures["import"], "s"),
        line("peak memory of the import", figures["import peak"], "MB", target=500),
        line("imported", cache_size, "MB"),
        line("opening, wall time", figures["open"], "s", target=1),
        line("search, p50", figures["search p50"], "ms", target=MOST_TO_SEARCH.get(products)),
        line("search, p99", figures["search p99"], "ms"),
        line("steps per CPU-second", figures["steps"], "", target=5000 if products <= 1000 else None, most=False),
        *(
            line(f"private memory of a further process, {how}", figures[name], "MB", target=10)
            for name, how in (("private", "forked"), ("alone", "started"))
            if name in figures
        ),
    ]


COLD = """
import sys, time
import gymnasium as gym
import mage_envs
env = gym.make("mage/WebShop-v0", size=sys.argv[1])
env.reset(seed=0)
env.step("search[red shoes]")
sys.stdout.write(str(time.process_time()))
"""
"""Script that prints the CPU time from the start of a process to the first result of an environment. It is not a
function of this module, because its process would then import the benchmarks and the trainer, too."""


def cold_starts(size: str, folder: Path) -> list[WebShopLine]:
    """Return the figures of the built-in catalogue in new processes: the first to use it, and a later one.

    The figures are medians. Folders inside `folder` are the caches, one for each pair of processes.
    """
    durations: list[tuple[float, float]] = []
    for number in range(COLD_STARTS):
        places = os.environ | {"MAGE_ENVS_CACHE": str(folder / str(number))}
        first_duration, later_duration = (
            float(
                subprocess.run(
                    [sys.executable, "-c", COLD, size], env=places, stdout=subprocess.PIPE, text=True, check=True
                ).stdout
            )
            for _ in range(2)
        )
        durations.append((first_duration, later_duration))
    names = (f"first step, size {size!r} generated for it", f"first step, size {size!r} there")
    return [
        WebShopLine(0, name, statistics.median(times), "s", target=1)
        for name, times in zip(names, zip(*durations, strict=True), strict=True)
    ]


def table(lines: Sequence[WebShopLine]) -> str:
    """Return the figures as text."""
    rows = []
    for line in lines:
        value = f"{line.value:,.0f}" if line.value >= 100 else f"{line.value:.2f}"
        bound = "" if line.target is None else f"{'at most' if line.most else 'at least'} {line.target:,}"
        verdict = {None: "", True: "met", False: "MISSED"}[line.met]
        size = f"{line.products:>9,}" if line.products else " built in"
        rows.append(f"{size}  {line.name:<46} {value:>10} {line.unit:<3} {bound:<15} {verdict}".rstrip() + "\n")
    return "".join(rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print the figures. Return 1 if a target is missed."""
    parser = argparse.ArgumentParser(prog="python -m dev.speed.webshop", description="Speed of WebShop.")
    parser.add_argument("--products", type=int, nargs="+", default=[1000, 100_000], metavar="N", help="catalogue sizes")
    parser.add_argument(
        "--folder", type=Path, help="folder for the data, which is removed at the end (default: a temporary folder)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="file for the figures, as JSON (default: none)")
    parser.add_argument("--size", default="small", help=argparse.SUPPRESS)
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.child:
        name, *words = options.child
        sys.stdout.write(json.dumps(CHILDREN[name](*words)))
        return 0
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        (Path(folder) / "cold").mkdir()
        lines = cold_starts(options.size, Path(folder) / "cold")
        sys.stdout.write(table(lines))
        for products in options.products:
            size_lines = measure(products, Path(folder))
            sys.stdout.write(table(size_lines))
            sys.stdout.flush()
            lines += size_lines
    if options.json is not None:
        rows = [asdict(line) | {"met": line.met} for line in lines]
        write_atomically(options.json, json.dumps(rows, indent=1) + "\n")
    return int(any(line.met is False for line in lines))


if __name__ == "__main__":
    raise SystemExit(main())
