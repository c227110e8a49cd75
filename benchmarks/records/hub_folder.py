"""A run as the folder of a Hugging Face data set: its panel, meta-episodes and calls as tables, and its own files.

FOLDER/README.md        card, whose front matter names the tables
FOLDER/data/*.parquet   panel, meta_episodes, calls
FOLDER/run/             run.json, root.json and episodes/, as `mage verify` reads them
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mage_envs.benchmarks.records.about import setting_of
from mage_envs.benchmarks.records.record_store import ROOT, RUN, Records, reading, shard_names
from mage_envs.files.atomic import draft_beside, write_atomically
from mage_envs.files.bounded import copy_inside
from mage_envs.loading.extras import requires


def write_parquet(columns: Mapping[str, Sequence[Any]], path: Path, to: str) -> None:
    """Write a table.

    Args:
        columns: Values of each column by its name.
        to: Format that the user chose, for the message if pyarrow is missing.
    """
    with requires(f"--to {to}", "records", "pyarrow"):
        import pyarrow
        import pyarrow.parquet
    # Renamed at the end, so that an interrupted export leaves no truncated file.
    draft = draft_beside(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        pyarrow.parquet.write_table(pyarrow.table({**columns}), draft)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


FORMAT = "hub-folder"
CARD = "README.md"
SPLIT = "test"
"""The only split. A panel is for evaluation, so its rows must not be trained on."""
DEFAULT = "meta_episodes"
"""Table that `load_dataset` returns if none is named."""
_DATA, _RUN = "data", "run"
_EPISODES = {"rewards": "reward", "values": "value", "successes": "success", "timeouts": "timeout"}
"""Column of lists to the key of an episode."""
_LINE = ("category", "opponent", "seat0", "played", "retries", "failure", "num_episodes", "digest")
_ABOUT = {
    "panel": "the tasks as planned: the arguments of `reset`",
    DEFAULT: "one row per recorded meta-episode, with one list entry per episode",
    "calls": "one row per model call: the new messages of the prompt, the reply, and the result",
}
"""Table to its contents."""


def write_folder(records: Records, calls: Mapping[str, Sequence[Any]], folder: Path) -> None:
    """Write the folder. Files of the same names are replaced.

    Args:
        calls: Columns of the table of calls.

    Raises:
        ValueError: If the folder contains other files, which a push would publish too, or if the run was killed.
    """
    if folder.exists() and not (folder.is_dir() and {path.name for path in folder.iterdir()} <= {CARD, _DATA, _RUN}):
        raise ValueError(f"{folder} has other files. Name an empty or new folder with --out.")
    if not (records.folder / ROOT).exists():
        raise ValueError(f"{records.folder} has no {ROOT}: its run was killed. Finish it with mage eval … --resume.")
    with reading(records.folder):
        panel = [asdict(task) for task in setting_of(records.about).tasks]
    lines = [line for _, line in sorted(records.lines.items())]
    meta_episodes = {
        "index": [line["index"] for line in lines],
        **{name: [line[name] for line in lines] for name in _LINE},
        **{
            name: [[_number(episode[key]) for episode in line["episodes"]] for line in lines]
            for name, key in _EPISODES.items()
        },
    }
    tables = {
        "panel": {"index": list(range(len(panel))), **{name: [row[name] for row in panel] for name in panel[0]}},
        DEFAULT: meta_episodes,
        "calls": calls,
    }
    for name, columns in tables.items():
        write_parquet(columns, folder / _DATA / f"{name}.parquet", FORMAT)
    # Shards of an earlier export may have other names.
    shutil.rmtree(folder / _RUN, ignore_errors=True)
    for name in (RUN, ROOT, *shard_names(records.folder)):
        copy_inside(records.folder, name, folder / _RUN / name)
    counts = {name: len(next(iter(columns.values()))) for name, columns in tables.items()}
    # Last, because the card is what makes the folder a data set.
    write_atomically(folder / CARD, card(records.about, counts))


def _number(value: Any) -> Any:
    """Return a number as a float, because a column has one type and records have `NaN` as a string."""
    return value if value is None or isinstance(value, bool) else float(value)


def card(about: Mapping[str, Any], counts: Mapping[str, int]) -> str:
    """Return the card of a run.

    Args:
        about: Content of run.json.
        counts: Number of rows of each table.
    """
    # Imported late, because it belongs to the same extra as pyarrow.
    import yaml

    configs = [
        {"config_name": name, "data_files": [{"split": SPLIT, "path": f"{_DATA}/{name}.parquet"}]} for name in counts
    ]
    front = {
        "license": "mit",
        "language": ["en"],
        "tags": ["mage-envs"],
        "configs": [config | {"default": True} if config["config_name"] == DEFAULT else config for config in configs],
    }
    agent, setting = about["agent"]["name"], about["setting"]
    rows = "".join(f"| `{name}` | {count} | {_ABOUT[name]} |\n" for name, count in counts.items())
    return f"""---
{yaml.safe_dump(front, sort_keys=False)}---

# MAGE Envs: records of an evaluation

| | |
|---|---|
| agent | `{_cell(agent)}` |
| panel | `{_cell(setting["name"])}` |
| environment | `{_cell(setting["options"]["env_id"])}` |
| memory | `{_cell(setting["options"]["memory"])}` |
| episodes | {setting["options"]["num_episodes"]} |
| fingerprint | `{about["fingerprint"]}` |
| mage-envs | {_cell(about["versions"]["mage-envs"])} |

```python
from datasets import load_dataset

load_dataset("FOLDER", "{DEFAULT}", split="{SPLIT}")  # or the id of the data set
```

| table | rows | contents |
|---|---|---|
{rows}
`python -m mage_envs.benchmarks.records.schema` of mage-envs prints the schema. `run/` has the files of the run:
`mage verify run` checks their digests, and `mage verify run --replay` plays the recorded replies again.

The rows are for evaluation. The license is that of mage-envs: change it if the texts of a game or the replies of a
model have other terms. This card states no score; `mage report run` computes them with intervals.
"""


def _cell(value: Any) -> str:
    """Return a value as one line of a table's cell."""
    return " ".join(str(value).replace("|", "\\|").replace("`", "'").split())
