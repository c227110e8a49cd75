"""The original's files: read as streams, checked, converted once."""

import json
import re
import tracemalloc
from pathlib import Path

import pytest

from mage_envs import progress
from mage_envs.cli.program import main
from mage_envs.games.webshop import official
from mage_envs.games.webshop.cache import MANIFEST
from mage_envs.games.webshop.official import DataFileError, import_official, read_array, read_object
from mage_envs.games.webshop.shop import open_shop
from tests.games.webshop.raw import ATTRIBUTES, PRODUCTS, raw, write_official


def write(path, text):
    path.write_text(text, "utf-8")
    return path


VALUES = [{"a": [1, "é\U0001f600", None]}, 'text with ] and " and \\', 12345678, -1.5e10, [], {}, True, None, "x" * 300]


@pytest.mark.parametrize("chunk", [1, 2, 3, 7, 64, 1 << 20])
@pytest.mark.parametrize("indent", [None, 2])
def test_streams_equal_json_for_any_window(tmp_path, monkeypatch, chunk, indent):
    monkeypatch.setattr(official, "CHUNK", chunk)
    for ascii_only in (True, False):
        path = write(tmp_path / "array.json", json.dumps(VALUES, indent=indent, ensure_ascii=ascii_only))
        assert list(read_array(path)) == VALUES
        members = {f"key {number}": value for number, value in enumerate(VALUES)}
        path = write(tmp_path / "object.json", json.dumps(members, indent=indent, ensure_ascii=ascii_only))
        assert dict(read_object(path)) == members


def test_empty_and_marked_files(tmp_path):
    assert list(read_array(write(tmp_path / "a", " [ ] "))) == []
    assert dict(read_object(write(tmp_path / "b", "{}\n"))) == {}
    assert list(read_array(write(tmp_path / "c", "\ufeff[1]"))) == [1]


def test_a_long_file_says_how_much_of_it_is_read(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(progress, "FIRST_TOLD", 0.0)
    path = write(tmp_path / "items.json", json.dumps(["x" * 1000] * 3200))
    with caplog.at_level("INFO", progress.__name__):
        assert sum(1 for _ in read_array(path)) == 3200
    assert re.fullmatch(re.escape(f"WebShop reads {path}: 1 of 3 MiB, ") + r"\d+ s left\.", caplog.messages[0])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", r"character 0: expected '\[', but the file ends"),
        ("{}", r"character 0: expected '\[', got '\{'"),
        ("[1, 2", "character 5: expected ',' or ']', but the file ends"),
        ("[1 2]", "character 3: expected ',' or ']', got '2'"),
        ('[{"a": 1}, {"b" 2}]', r"character 11: this is not JSON \(Expecting ':' delimiter\)"),
        ("[1,]", "not JSON"),
        ('["open', "not JSON"),
        ("[nul]", "not JSON"),
    ],
)
def test_malformed_text_is_placed(tmp_path, text, message):
    with pytest.raises(DataFileError, match=message):
        list(read_array(write(tmp_path / "items.json", text)))


def test_what_is_no_text(tmp_path):
    (tmp_path / "items.json").write_bytes(b"[1, \xff]")
    with pytest.raises(DataFileError, match=r"items.json, character \d+: this is not UTF-8 text"):
        list(read_array(tmp_path / "items.json"))


def test_an_endless_entry_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(official, "CHUNK", 16)
    monkeypatch.setattr(official, "LARGEST", 1000)
    path = write(tmp_path / "items.json", '["' + "x" * 100_000)
    with pytest.raises(DataFileError, match="character 1: this is not JSON"):
        list(read_array(path))


def test_a_large_file_is_never_in_memory(tmp_path):
    path = tmp_path / "items.json"
    with path.open("w") as file:
        file.write("[" + ", ".join(json.dumps({"n": number, "text": "x" * 2000}) for number in range(20_000)) + "]")
    size = path.stat().st_size
    tracemalloc.start()
    assert sum(1 for _ in read_array(path)) == 20_000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert size > 40_000_000
    assert peak < 10_000_000


def test_conversion_happens_once(data, tmp_path):
    folder = import_official(data, cache=tmp_path)
    mark = (folder / MANIFEST).stat().st_mtime_ns
    assert import_official(data, cache=tmp_path) == folder
    assert (folder / MANIFEST).stat().st_mtime_ns == mark
    assert not list(folder.glob("instruct*"))


def test_changed_files_are_another_catalogue(tmp_path):
    (tmp_path / "in").mkdir()
    source = write_official(tmp_path / "in", human=False)
    first_import = import_official(source, cache=tmp_path)
    with pytest.raises(ValueError, match="has no human goals; it has: synthetic"):
        open_shop(first_import, "human", 0)
    write_official(source)
    second_import = import_official(source, cache=tmp_path)
    assert first_import != second_import
    assert len(open_shop(second_import, "human", 0)) == 4


def test_the_full_size_has_files_of_its_own(tmp_path):
    write_official(tmp_path, size="")
    with pytest.raises(DataFileError, match="no items_shuffle_1000.json and no items_ins_v2_1000.json"):
        import_official(tmp_path, cache=tmp_path)
    assert import_official(tmp_path, "full", cache=tmp_path).name.startswith("official-full-")
    with pytest.raises(ValueError, match="size='tiny' is unknown for the original's data; choose one of: 'small'"):
        import_official(tmp_path, "tiny")


def test_the_first_entries_alone(data, tmp_path):
    folder = import_official(data, cache=tmp_path, products=9)
    shop = open_shop(folder, "synthetic", 0)
    assert len(shop.catalogue) == 9
    assert shop.goal("B000000001-s3") == open_shop(import_official(data), "synthetic", 0).goal("B000000001-s3")
    assert shop.fingerprint != open_shop(import_official(data), "synthetic", 0).fingerprint
    with pytest.raises(ValueError, match="products=0 must be at least 1"):
        import_official(data, products=0)


def _spoil(folder, **files):
    for name, content in files.items():
        path = folder / f"{name}.json"
        path.unlink() if content is None else path.write_text(content)
    return folder


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"items_shuffle_1000": None}, "has no items_shuffle_1000.json"),
        ({"items_ins_v2_1000": None}, "has no items_ins_v2_1000.json"),
        ({"items_shuffle_1000": "[1]"}, "items_shuffle_1000.json: entry 0 must be an object, got 1"),
        ({"items_shuffle_1000": "[]"}, "items_shuffle_1000.json: a catalogue must have at least one product"),
        (
            {"items_shuffle_1000": json.dumps([raw("B1", "x"), raw("B2", "y", pricing="?")])},
            "items_shuffle_1000.json, entry 1: product B2: 'pricing' must be as in",
        ),
        ({"items_shuffle_1000": "[{}]"}, "entry 0: the 'asin' of a product must be"),
        ({"items_ins_v2_1000": "[]"}, r"items_ins_v2_1000.json, character 0: expected '\{', got '\['"),
        ({"items_ins_v2_1000": '{"B1": 3}'}, "the entry of B1 must be an object, got 3"),
        ({"items_ins_v2_1000": "{}"}, "items_ins_v2_1000.json must have at least one entry"),
        (
            {"items_ins_v2_1000": '{"B000000001": {"attributes": "x"}}'},
            "items_ins_v2_1000.json: product B000000001: 'attributes' must be a list of strings, got 'x'",
        ),
        ({"items_human_ins": '{"B1": {}}'}, "items_human_ins.json: the entry of B1 must be a list of objects"),
        (
            {"items_human_ins": '{"B000000001": [{}]}'},
            "items_human_ins.json: product B000000001: a human instruction must have 'instruction_options'",
        ),
        ({"items_human_ins": "{} x"}, "items_human_ins.json, character 3: found 'x' after the end"),
        ({"items_ins_v2_1000": '{"B1": {}}]'}, r"items_ins_v2_1000.json, character 10: found '\]' after the end"),
        (
            {"items_shuffle_1000": json.dumps([raw("B1", "x")]) + "{}"},
            r"items_shuffle_1000.json, character \d+: found '\{' after the end",
        ),
    ],
)
def test_each_bad_file_is_named(tmp_path, files, message):
    (tmp_path / "in").mkdir()
    source = _spoil(write_official(tmp_path / "in"), **files)
    with pytest.raises(DataFileError, match=message):
        import_official(source, cache=tmp_path)
    assert not list((tmp_path / "webshop").glob("official-small-*/")) if (tmp_path / "webshop").exists() else True


def test_no_such_folder(tmp_path):
    with pytest.raises(DataFileError, match=r"The folder .* does not exist; it must contain items_shuffle_1000.json"):
        import_official(tmp_path / "nowhere")


def test_synthetic_goals_without_an_entry_for_every_product(tmp_path):
    """The original fails on a product that the file of attributes does not have."""
    (tmp_path / "in").mkdir()
    source = write_official(tmp_path / "in")
    assert {entry["asin"] for entry in PRODUCTS} - set(ATTRIBUTES)
    assert len(open_shop(import_official(source, cache=tmp_path), "synthetic", 0)) == 47


def test_the_command(data, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("MAGE_ENVS_CACHE", str(tmp_path))
    assert main(["doctor", f"webshop:{data}", "--json"]) == 0
    facts = {row["part"]: row["finding"] for row in json.loads(capsys.readouterr().out)}
    assert (facts["products"], facts["human goals"][:3], facts["synthetic goals"][:3]) == ("23", "4 (", "47 ")
    folder = Path(facts["small data, converted"])
    assert folder.is_relative_to(tmp_path)
    assert main(["doctor", f"webshop:{folder}"]) == 0
    assert re.search(r"^checksums +all files match$", capsys.readouterr().out, re.MULTILINE)
    (folder / next(path.name for path in folder.iterdir() if path.suffix != ".json")).write_bytes(b"changed")
    assert main(["doctor", f"webshop:{folder}"]) == 2
    assert main(["doctor", f"webshop:{tmp_path / 'nowhere'}"]) == 2
    assert "has no items_shuffle_1000.json and items_ins_v2_1000.json" in capsys.readouterr().err
