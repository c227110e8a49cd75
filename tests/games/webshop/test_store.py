"""Building once, sharing, and noticing damage."""

import json
import multiprocessing
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

from mage_envs.files.atomic import draft_beside
from mage_envs.games.webshop import cache
from mage_envs.games.webshop.cache import MANIFEST, DamagedCache, build_cached_folder, cache_root, read_manifest, verify
from mage_envs.games.webshop.official import import_official
from mage_envs.games.webshop.products import from_record
from mage_envs.games.webshop.shop import Shop
from mage_envs.games.webshop.store import Catalogue, KeyedRecords, RecordWriter, write_catalogue


def test_records_by_position_and_key(tmp_path):
    things = {"b": b"two", "a": b"", "é": b"\x00\xff", "abc": b"x" * 5000}
    with RecordWriter(tmp_path, "things", "names") as writer:
        for key, record in things.items():
            writer.add(key, record)
    records = KeyedRecords(tmp_path, "things", "names")
    assert [records[position] for position in range(len(records))] == list(things.values())
    assert [records.find(key) for key in things] == [0, 1, 2, 3]
    assert [records.find(key) for key in ("", "ab", "c", "zz", "éé")] == [None] * 5


def test_a_key_of_any_length_is_found_without_a_copy_of_all_keys(tmp_path):
    with RecordWriter(tmp_path, "things", "names") as writer:
        for number in range(50_000):
            writer.add(f"{number:010d}", b"")
    records = KeyedRecords(tmp_path, "things", "names")
    keys = [*(f"{number:010d}" for number in (0, 41_999, 49_999)), "9", "0000042000x", "x" * 400]
    tracemalloc.start()
    positions = [records.find(key) for key in keys]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert positions == [0, 41_999, 49_999, None, None, None]
    assert peak < 100_000  # the keys take 500,000 bytes


def test_products_come_back_as_they_went_in(shop):
    catalogue = shop.catalogue
    assert len(catalogue) == 23
    for position in range(len(catalogue)):
        product = catalogue.product(position)
        assert from_record(product.to_record()) == product
        assert catalogue.find(product.asin) == position
    assert catalogue.find("B0NOTHERE0") is None
    assert catalogue.product(0).title == "Alba Canvas Ballet Flats Shoes for Women"  # the first of two


def test_a_catalogue_needs_products(tmp_path):
    with pytest.raises(ValueError, match="must have at least one product"):
        write_catalogue(tmp_path, [])


def test_the_cache_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("MAGE_ENVS_CACHE", str(tmp_path))
    assert cache_root() == tmp_path
    monkeypatch.delenv("MAGE_ENVS_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_root() == tmp_path / ".cache" / "mage-envs"


def test_a_failed_build_leaves_nothing(tmp_path):
    def fails(draft):
        (draft / "half").write_text("x")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        build_cached_folder("key", fails, tmp_path)
    assert [path.name for path in (tmp_path / "webshop").iterdir()] == ["key.lock"]
    draft_beside(tmp_path / "webshop" / "key").mkdir()  # of a process that was killed
    assert build_cached_folder("key", lambda draft: {}, tmp_path).name == "key"
    assert sorted(path.name for path in (tmp_path / "webshop").iterdir()) == ["key", "key.lock"]


def test_a_cache_that_cannot_be_written(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "mkdir", refuse)  # root may write anywhere, so that a mode does not do it
    with pytest.raises(PermissionError, match=r"cannot write to .* \(Permission denied\); set MAGE_ENVS_"):
        build_cached_folder("key", lambda draft: {}, tmp_path)


def _build_counting(root, counts):
    def build(draft):
        with counts.get_lock():
            counts.value += 1
        (draft / "file").write_text("content")
        return {"format": 1}

    build_cached_folder("key", build, root)


def test_processes_that_start_together_build_once(tmp_path):
    context = multiprocessing.get_context("spawn")
    counts = context.Value("i", 0)
    workers = [context.Process(target=_build_counting, args=(tmp_path, counts)) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0] * 4
    assert counts.value == 1
    assert read_manifest(tmp_path / "webshop" / "key")["format"] == 1


def test_damage_is_noticed(data, tmp_path):
    folder = import_official(data, cache=tmp_path)
    verify(folder)
    target = folder / "products.bin"
    content = target.read_bytes()
    target.write_bytes(content.replace(b"Canvas", b"Canvaz"))
    with pytest.raises(DamagedCache, match=r"products.bin does not match its checksum\. Delete the folder"):
        Catalogue(folder).product(0)
    with pytest.raises(DamagedCache, match=r"products.bin does not match its checksum\. Delete the folder"):
        verify(folder)
    target.write_bytes(content[:-1])
    with pytest.raises(DamagedCache, match="products.bin is missing, a link out of the folder, or does not have"):
        Catalogue(folder)
    (folder / MANIFEST).write_text("{")
    with pytest.raises(DamagedCache, match="manifest.json cannot be read"):
        Catalogue(folder)


def reading(folder: Path, kind: str) -> None:
    """Read all files that a shop reads."""
    catalogue = Catalogue(folder)
    shop = Shop(catalogue, kind)
    shop.search("shirt")
    catalogue.where("queries", "none")
    for name in catalogue.about["files"]:
        if name.endswith(".npy") and "/" not in name:
            catalogue.table(name.removesuffix(".npy"))
    catalogue.product(0)


def test_a_flipped_bit_is_noticed_where_its_file_is_first_read(data, tmp_path):
    """Sizes and times are as they were: of such decay the file system knows nothing."""
    folder = import_official(data, cache=tmp_path)
    kind = next(kind for kind, count in read_manifest(folder)["goals"].items() if count)
    reading(folder, kind)
    for name in read_manifest(folder)["files"]:
        file = folder / name
        content, stat = file.read_bytes(), file.stat()
        flipped = bytearray(content)
        flipped[len(content) // 2] ^= 1
        file.write_bytes(flipped)
        os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
        with pytest.raises(DamagedCache, match=f"{name} does not match its checksum"):
            reading(folder, kind)
        file.write_bytes(content)
    reading(folder, kind)


def test_a_file_is_compared_once_and_only_if_it_is_read(data, tmp_path, monkeypatch):
    folder = import_official(data, cache=tmp_path)
    compared = []
    checksum_function = cache.checksum
    monkeypatch.setattr(cache, "checksum", lambda path: (compared.append(path.name), checksum_function(path))[1])
    catalogue = Catalogue(folder)
    assert compared == ["products.off.npy", "asins.npy", "asins.rank.npy"]
    for _ in range(2):
        catalogue.product(0)
        catalogue.product(1)
        catalogue.where("queries", "none")
    assert compared[3:] == ["products.bin", "names.json"]


def test_a_folder_of_another_format(data, tmp_path):
    folder = import_official(data, cache=tmp_path)
    about = json.loads((folder / MANIFEST).read_text())
    (folder / MANIFEST).write_text(json.dumps(about | {"format": 0}))
    with pytest.raises(ValueError, match=r"has format 0, expected 1\.\d"):
        Catalogue(folder)


def test_the_same_bytes_in_every_process(data, tmp_path):
    script = "import sys; from mage_envs.games.webshop import official; official.import_official(*sys.argv[1:])"
    for seed in ("0", "1"):
        command = [sys.executable, "-c", script, str(data), "small", str(tmp_path / seed)]
        subprocess.run(command, check=True, env=os.environ | {"PYTHONHASHSEED": seed})
    first_manifest, second_manifest = (
        next((tmp_path / seed / "webshop").glob(f"official*/{MANIFEST}")) for seed in ("0", "1")
    )
    assert first_manifest.read_bytes() == second_manifest.read_bytes()
