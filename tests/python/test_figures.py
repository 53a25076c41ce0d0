# What tests/bench keeps of its runs, and the pictures that are drawn of it.
# SPDX-License-Identifier: Apache-2.0
import json
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "bench"))
from figures.__main__ import PICTURES
from figures.results import FOLDER, newest
from figures.svg import Scale


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_every_result_says_where_when_and_how(path):
    result = json.loads(path.read_text())
    assert path.stem.startswith(result["date"] + "_")
    assert result["command"]
    assert result.get("machine") or result["device"]


def test_the_newest_result_with_a_part_is_found(tmp_path):
    for name, parts in (("2026-01-02_device_1", ["cold"]), ("2026-03-01_device_2", ["hot"]), ("2027-01-01_other", [])):
        (tmp_path / f"{name}.json").write_text(json.dumps({"name": name, **dict.fromkeys(parts, {})}))
    assert newest(r"device(_\d+)?", folder=tmp_path)["name"] == "2026-03-01_device_2"
    assert newest(r"device(_\d+)?", having="cold", folder=tmp_path)["name"] == "2026-01-02_device_1"
    with pytest.raises(FileNotFoundError, match="with 'maps' in it"):
        newest(r"device(_\d+)?", having="maps", folder=tmp_path)


@pytest.mark.parametrize("name", PICTURES)
def test_pictures_are_drawn_as_they_are_kept(name, tmp_path):
    path = tmp_path / f"{name}.svg"
    picture = PICTURES[name]()
    picture.write(path)
    assert path.read_text() == (FOLDER / f"{name}.svg").read_text(), "run ./dev figures"
    root = ElementTree.parse(path).getroot()
    for mark in root:
        for x, y in (("x", "y"), ("cx", "cy"), ("x1", "y1"), ("x2", "y2")):
            assert 0 <= float(mark.get(x, 0)) <= picture.width, ElementTree.tostring(mark)
            assert 0 <= float(mark.get(y, 0)) <= picture.height, ElementTree.tostring(mark)


def test_scales():
    assert Scale(0, 10, 100, 200)(5) == 150
    assert Scale(1, 100, 0, 2, log=True)(10) == pytest.approx(1)
