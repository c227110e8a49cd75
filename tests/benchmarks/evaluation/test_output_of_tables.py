"""Tables on a terminal and in a pipe, and a demo without its packages."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from mage_envs.benchmarks import make_agent, summarise
from mage_envs.benchmarks.evaluation.suites.paper import setting_for
from mage_envs.benchmarks.evaluation.tables.layout import means
from mage_envs.benchmarks.records import record_store
from mage_envs.benchmarks.records.about import about_run
from mage_envs.benchmarks.records.record_store import Records, Writer
from mage_envs.cli.tables import print_report
from mage_envs.games.kuhn_poker import KuhnPoker
from tests.benchmarks.results import make_trajectory
from tests.mage_envs.cli.terminal import on_terminal

ROOT = Path(__file__).parents[3]
LONG = "kuhn/" + "a-very-long-name-of-an-opponent-" * 3


def test_a_terminal_gets_its_width_and_a_pipe_whole_names(monkeypatch, capsys):
    summary = summarise(
        [make_trajectory([1, -1], opponent=LONG), make_trajectory([1, -1], opponent="kuhn/nash")], KuhnPoker()
    )
    print_report(means(summary))
    output = capsys.readouterr().out
    assert output.count(LONG) == 1
    for columns in (40, 80, 120):
        lines = on_terminal(means(summary), columns, monkeypatch, capsys).splitlines()
        assert columns - 20 < max(map(len, lines)) <= columns
        # Long names and titles continue on the next line, and numbers are whole.
        for block in means(summary):
            cells = {cell for row in getattr(block, "rows", ()) for cell in row[1:]}
            assert all(any(cell in line for line in lines) for cell in cells)
        assert not any("…" in line for line in lines)


def test_the_progress_of_headroom_leaves_its_line_to_the_table():
    command = [sys.executable, "-m", "mage_envs", "headroom", "KuhnPoker", "--episodes", "2"]
    reader, terminal = pty.openpty()
    process = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=terminal, timeout=120, check=True)
    os.close(terminal)
    terminal_bytes = b""
    try:
        while part := os.read(reader, 65536):
            terminal_bytes += part
    except OSError:
        pass  # Linux ends a terminal whose other side is closed with an error
    os.close(reader)
    assert b"states before" in terminal_bytes
    assert terminal_bytes.endswith(b"\r\x1b[2K"), "the progress is removed before the table begins"
    assert process.stdout.startswith(b"KuhnPoker against")


def test_the_demo_names_the_package_that_it_lacks(tmp_path):
    block = (
        "import sys\n"
        "class Missing:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] in ('torch', 'trl', 'transformers'):\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
        "sys.meta_path.insert(0, Missing())\n"
        f"from mage_envs.cli.program import main; sys.exit(main(['demo', '--out', {str(tmp_path)!r}]))\n"
    )
    process = subprocess.run([sys.executable, "-c", block], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert process.returncode == 2
    pattern = r'mage: The demo requires \w+\. Install it with: pip install "mage-envs\[train,report\]"\n'
    assert re.fullmatch(pattern, process.stderr)


@pytest.fixture
def setting():
    return setting_for("kuhn-paper-128")


def test_long_lines_make_small_shards_and_too_long_ones_failures(tmp_path, setting, monkeypatch):
    """A reader bounds lines and shards, so the writer keeps below those bounds."""
    about = about_run(make_agent("scripted:random"), setting)
    [short_trajectory] = [make_trajectory([1, -1, 1])]
    trajectory = replace(short_trajectory, task=setting.tasks[0], category="c" * 20_000, steps=())
    monkeypatch.setattr(record_store, "MAX_UNPACKED_BYTES", 4 * 50_000)
    monkeypatch.setattr(record_store, "MAX_LINE_BYTES", 30_000)
    writer = Writer(tmp_path / "run", about, resume=False)
    for index in range(6):
        writer.add(index, trajectory)
    writer.add(6, replace(trajectory, opponent_calls=({"text": "x" * 40_000},)))
    writer.close()
    records = Records(tmp_path / "run")
    assert records.problems == []
    assert records.shards == 3, "three lines of 20 kB are above a quarter of the bound"
    assert len(records.lines) == 7
    assert records.lines[6]["failure"].startswith("record: its line has")
