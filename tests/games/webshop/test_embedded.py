"""The built-in catalogue: generated once, and only if it is the proven one."""

import re

import pytest

from mage_envs import progress
from mage_envs.cli.program import main
from mage_envs.games.webshop import embedded
from mage_envs.games.webshop.cache import read_manifest
from mage_envs.games.webshop.catalogue_maker.make import SIZES, certificates
from mage_envs.games.webshop.embedded import Unproven
from mage_envs.games.webshop.store import FORMAT

BIG = ("medium", "large")


def test_a_catalogue_that_takes_long_says_how_far_it_is(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("MAGE_ENVS_CACHE", str(tmp_path))
    monkeypatch.setattr(progress, "FIRST_TOLD", 0.0)
    assert main(["doctor", "webshop:tiny"]) == 0
    progress_line, done_line = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"WebShop makes its catalogue 'tiny': \d+ of 100 products, \d+ s left\.", progress_line)
    assert re.fullmatch(r"WebShop makes its catalogue 'tiny': 100 of 100 products, \d+\.\d s\.", done_line)
    assert main(["doctor", "webshop:tiny"]) == 0
    assert capsys.readouterr().err == ""  # it is there now


def test_every_proven_catalogue_has_a_certificate_of_this_format():
    counts = {size: [len(certificates(size, held_out)) for held_out in (False, True)] for size in SIZES}
    assert counts == {"tiny": [1, 1], "small": [20, 20], "medium": [1, 1], "large": [1, 1], "xl": [0, 0]}
    names = [name for size in SIZES for held_out in (False, True) for name in certificates(size, held_out)]
    assert len(set(names)) == len(names)
    assert {name.partition("-")[0] for name in names} == {FORMAT}


@pytest.mark.parametrize("split", ["train", "ood_catalogue"])
@pytest.mark.parametrize("size", ["tiny", "small", *(pytest.param(size, marks=pytest.mark.slow) for size in BIG)])
def test_the_generated_catalogue_is_the_proven_one(size, split):
    about = read_manifest(embedded.generate_catalogue(size, split))
    assert about["proven"] is True
    assert about["certificate"] == certificates(size, split == "ood_catalogue")[0]
    assert sum(about["goals"]["made"].values()) == 2 * SIZES[size]


def test_a_further_catalogue_is_the_proven_one():
    about = read_manifest(embedded.generate_catalogue("small", "train", 19))
    assert about["certificate"] == certificates("small", False)[19]
    assert about["source"]["seed"] == 19


def test_a_catalogue_without_a_certificate_is_said_to_be_unproven(tmp_path, monkeypatch, caplog):
    """Warn if the proof of a catalogue was never run, as for `xl`."""
    monkeypatch.setattr(embedded, "certificates", lambda size, held_out: ())
    monkeypatch.setenv("MAGE_ENVS_CACHE", str(tmp_path))
    assert read_manifest(embedded.generate_catalogue("tiny", "train"))["proven"] is False
    assert "The goals of the catalogue 'tiny', seed 0, are not proven." in caplog.text


def test_a_catalogue_that_is_not_the_proven_one_is_not_kept(tmp_path, monkeypatch):
    """Refuse the catalogue if the generator changed without a new proof."""
    to_made_goal = embedded.to_made_goal
    monkeypatch.setattr(
        embedded, "to_made_goal", lambda goal: to_made_goal(goal)._replace(attributes=("another attribute",))
    )
    monkeypatch.setenv("MAGE_ENVS_CACHE", str(tmp_path))
    with pytest.raises(Unproven, match="The goals of the generated catalogue 'tiny', seed 0, are not proven"):
        embedded.generate_catalogue("tiny", "train")
    assert [path.suffix for path in (tmp_path / "webshop").iterdir()] == [".lock"]
