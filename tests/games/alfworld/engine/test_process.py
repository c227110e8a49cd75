"""The engine leaves no trace in the process that it runs in. Each check has a process of its own."""

from __future__ import annotations

import sys

import pytest

from tests.games.alfworld.engine.games import needs_engine, run_python

pytestmark = needs_engine
START = """
import os, pathlib, sys, threading
from mage_envs.games.alfworld.engine import FastEngine
from tests.games.alfworld.engine.games import plan, tiny, transcript
"""


@pytest.mark.parametrize(
    "ending", ["", "[engine.close() for engine in engines]", "engines = engine = None", "os.fork() or os._exit(0)"]
)
def test_the_process_exits_cleanly(ending):
    code = """
engines = [FastEngine() for _ in range(3)]
for number, engine in enumerate(engines):
    engine.load(tiny(index=number % 2))
    engine.reset()
    engine.step("look")
"""
    run_python(START + code + ending)


def test_threads_that_compile_leave_arguments_and_output_alone(tmp_path):
    code = """
arguments, output = list(sys.argv), sys.stdout
sys.argv = mine = ["mine", "--flag"]
found = {}
def compile(number):
    found[number] = transcript(tiny(index=number), 5)
threads = [threading.Thread(target=compile, args=(number,)) for number in range(4)]
for thread in threads:
    thread.start()
lines = 0
while any(thread.is_alive() for thread in threads):
    print("line", lines)
    lines += 1
    threads[0].join(0.001)
assert sys.argv is mine and mine == ["mine", "--flag"], sys.argv
assert sys.stdout is output
assert len(found) == 4
print("end", lines)
"""
    lines = run_python(START + code, MAGE_ENVS_CACHE=str(tmp_path)).splitlines()
    count = int(lines.pop().split()[1])
    assert count > 10
    assert lines == [f"line {number}" for number in range(count)]


def test_the_stock_engine_leaves_arguments_and_output_alone():
    code = """
from mage_envs.games.alfworld.game import StockEngine
before = sys.argv, list(sys.argv), sys.stdout
engine = StockEngine()
engine.load(tiny())
engine.reset()
assert (sys.argv, list(sys.argv), sys.stdout) == before
"""
    assert run_python(START + code) == ""


def test_a_forked_child_plays_on():
    code = """
engine = FastEngine()
engine.load(tiny())
engine.reset()
middle = len(plan(tiny())) // 2
for command in plan(tiny())[:middle]:
    engine.step(command)
child = os.fork()
won = [engine.step(command).won for command in plan(tiny())[middle:]][-1]
other = transcript(tiny(index=7), 5)  # compiled on either side of the fork
if child == 0:
    os._exit(0 if won and len(other) == 6 else 1)
print(won, os.waitpid(child, 0)[1])
"""
    assert run_python(START + code).split() == ["True", "0"]


def test_a_child_forked_while_a_thread_compiles_can_compile(tmp_path):
    code = """
thread = threading.Thread(target=transcript, args=(tiny(index=8), 1))
thread.start()
thread.join(0.15)
child = os.fork()
if child == 0:
    os._exit(len(transcript(tiny(index=9), 5)))
thread.join()
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    if sys.version_info >= (3, 12):
        pytest.skip("Python 3.12 warns of a fork with threads")
    assert run_python(START + code, MAGE_ENVS_CACHE=str(tmp_path)) == "6\n"


def test_transcripts_do_not_depend_on_the_hash_seed(tmp_path):
    code = "print(transcript(tiny('pick_two_obj_and_place'), 20))"
    first_output, second_output = (
        run_python(START + code, PYTHONHASHSEED=seed, MAGE_ENVS_CACHE=str(tmp_path / seed)) for seed in ("0", "1")
    )
    assert first_output == second_output
    stored_files = [
        {path.name: path.read_bytes() for path in (tmp_path / seed / "alfworld").iterdir()} for seed in ("0", "1")
    ]
    assert stored_files[0] == stored_files[1]


@pytest.mark.parametrize("data_folder", [None, "", "/no/such/folder"])
def test_alfworld_is_imported_without_its_side_effects(tmp_path, data_folder):
    code = """
before = os.environ.get("ALFWORLD_DATA")
from mage_envs.games.alfworld.packages import import_engine
import_engine("alfworld.info")
assert "alfworld" in sys.modules
assert os.environ.get("ALFWORLD_DATA") == before
assert not os.path.exists("/no/such/folder")
print(os.listdir(os.environ["HOME"]))
"""
    assert run_python("import os, sys" + code, ALFWORLD_DATA=data_folder, HOME=str(tmp_path)) == "[]\n"


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_library_pins_little_of_the_temporary_folder(tmp_path):
    code = """
engines = [FastEngine() for _ in range(4)]
for engine in engines:
    engine.load(tiny())
    engine.reset()
sizes = {}
for line in pathlib.Path("/proc/self/maps").read_text().splitlines():
    if "libdownward" in line:
        assert line.endswith("(deleted)")
        addresses, _, offset, _, inode, _ = line.split(maxsplit=5)
        begin, end = (int(word, 16) for word in addresses.split("-"))
        sizes[inode] = max(sizes.get(inode, 0), int(offset, 16) + end - begin)
print(len(sizes), max(sizes.values()), os.listdir(os.environ["TMPDIR"]))
"""
    count, size, leftovers = run_python(START + code, TMPDIR=str(tmp_path)).split()
    assert count == "4"
    assert int(size) < 1_900_000, "256 of them must stay under 500 MB"
    assert leftovers == "[]"
