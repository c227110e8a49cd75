"""Series of a report differ in shape, and in colour also for readers with red or green colour blindness."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import numpy as np
import pytest

PAGE = Path(__file__).parents[3] / "benchmarks" / "report" / "page"
COLOURS = 8
# Vienot, Brettel and Mollon 1999 (Color Research and Application 24, 243-252), in linear RGB.
PROTAN = np.array([[0.11238, 0.88762, 0.0], [0.11238, 0.88762, 0.0], [0.00401, -0.00401, 1.0]])
DEUTAN = np.array([[0.29275, 0.70725, 0.0], [0.29275, 0.70725, 0.0], [-0.02234, 0.02234, 1.0]])
LEAST = 30.0
"""CIE76 distance; 2.3 is just noticeable."""


def palettes():
    pairs = re.findall(r"--c(\d): light-dark\((#\w{6}), (#\w{6})\)", (PAGE / "page.css").read_text())
    assert [int(number) for number, _, _ in pairs] == list(range(COLOURS))
    return [[pair[column] for pair in pairs] for column in (1, 2)]


def lab(linear):
    xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]) @ linear
    scaled = xyz / [0.9505, 1.0, 1.089]
    f = np.where(scaled > 0.008856, np.cbrt(np.maximum(scaled, 0)), 7.787 * scaled + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def linear(colour):
    values = np.array([int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)])
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


@pytest.mark.parametrize("vision", [np.eye(3), PROTAN, DEUTAN], ids=["all", "protan", "deutan"])
@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_no_two_series_look_alike(scheme, vision):
    places = [lab(np.clip(vision @ linear(colour), 0, 1)) for colour in palettes()[scheme]]
    near = [
        (first_index, second_index, round(float(np.linalg.norm(places[first_index] - places[second_index])), 1))
        for first_index, second_index in itertools.combinations(range(COLOURS), 2)
    ]
    assert min(distance for _, _, distance in near) >= LEAST, sorted(near, key=lambda first_index: first_index[2])[:3]


def test_every_series_has_a_shape_of_its_own():
    marks = re.findall(r'<(\w+) id="mark(\d)" (.*)/>', (PAGE / "chart.html").read_text())
    assert [int(number) for _, number, _ in marks] == list(range(COLOURS))
    assert len({(tag, shape) for tag, _, shape in marks}) == COLOURS
