"""Files of experiments: what is put together from their layers, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.bench.definition.experiment import Place, places_and_points, reduced
from pipeline.bench.definition.files import load
from pipeline.errors import BadSetting

WHOLE = """
paper = "a-paper"
figure = "1b"
title = "A figure"
seeds = 2
[x]
name = "memory, %"
values = [1, 5, 10]
sets = {memory = "{} %", "sales.absent" = "0"}
[z]
name = "skew"
values = [0, 0.5]
sets = {"sales.skew" = "{}"}
[y]
name = "rate"
of = "rate"
[always]
machine = "hybridjoin-2011"
R = {rows = 1_000, row_bytes = 100}
join = "meshjoin"
[series.a]
label = "A"
settings = {published = true}
[series.b]
label = "B"
join = "inlj"
x = [5]
[[claims]]
says = "it rises"
series = ["a"]
take = "step"
at_least = 1
[[claims]]
says = "fast in the middle"
series = ["a"]
x = [5]
z = 0.5
at_least = 7
[smoke]
x = [2, 4]
z = [0.9]
always = {R = {rows = 50}}
over = {b = {R = {row_bytes = 30}}}
"""


def written(folder: Path, text: str) -> Path:
    file = folder / "a-paper" / "1b.toml"
    file.parent.mkdir(exist_ok=True)
    file.write_text(text.replace('"sales.absent" = "0"', '"R.seed" = "{}"'))
    return file


def test_a_point_is_what_its_layers_say_the_later_ones_winning(tmp_path: Path) -> None:
    points = dict(places_and_points(load(written(tmp_path, WHOLE))))
    assert list(points)[:4] == [Place("a", 1, 0), Place("a", 5, 0), Place("a", 10, 0), Place("a", 1, 0.5)]
    assert [place for place in points if place.series == "b"] == [Place("b", 5, 0), Place("b", 5, 0.5)]
    a, b = points[Place("a", 5, 0.5)], points[Place("b", 5, 0.5)]
    assert (a.join, a.settings, b.join, b.settings) == ("meshjoin", {"published": True}, "inlj", {})
    assert (a.memory_bytes, a.sales.skew, a.rows.row_bytes, a.machine) == (5_000, 0.5, 100, "hybridjoin-2011")


def test_who_shapes_a_point_otherwise_defines_another_one(tmp_path: Path) -> None:
    first = {point.definition for _, point in places_and_points(load(written(tmp_path, WHOLE)))}
    assert len(first) == 8
    same = {point.definition for _, point in places_and_points(load(written(tmp_path, WHOLE.replace('"A"', '"C"'))))}
    assert same == first
    other = WHOLE.replace("rows = 1_000", "rows = 1_001")
    assert not first & {point.definition for _, point in places_and_points(load(written(tmp_path, other)))}


def test_a_reduction_has_other_sizes_and_moves_claims_to_the_places_of_their_rank(tmp_path: Path) -> None:
    whole = load(written(tmp_path, WHOLE))
    small = reduced(whole, whole.smoke)
    points = dict(places_and_points(small))
    assert list(points) == [Place("a", 2, 0.9), Place("a", 4, 0.9), Place("b", 2, 0.9)]
    assert points[Place("b", 2, 0.9)].rows.row_bytes == 30
    assert points[Place("a", 2, 0.9)].rows.row_bytes == 100
    assert all(point.rows.rows == 50 for point in points.values())
    assert [(claim.x, claim.z) for claim in small.claims] == [([], None), ([2], 0.9)]


WRONG = {
    "unknown field `colour`": ("title =", 'colour = "red"\ntitle ='),
    "synthetic takes rows, row_bytes, skew, scattered, seed, not colour": ("s = 1_000", "s = 1_000, colour = 3"),
    "unknown field `labels`": ('label = "A"', 'label = "A"\nlabels = 3'),
    "rows: Expected `int`, got `str`": ("rows = 1_000", 'rows = "many"'),
    "synthetic needs rows besides": ("rows = 1_000, ", ""),
    "weather-like have a law of their own": ("rows = 1_000", 'of = "weather-like", rows = 9'),
    "Invalid enum value 'best' - at `$.claims[0].take`": ('take = "step"', 'take = "best"'),
    "calls itself a-paper/2": ('"1b"', '"2"'),
    "is about c, and there are a, b": ('["a"]\ntake', '["c"]\ntake'),
    "has no test": ("at_least = 1\n", "\n"),
    "x = [5.0], z = 0.4, where there is nothing": ("z = 0.5\nat", "z = 0.4\nat"),
    "a step is from one x to the next": ('take = "step"', 'take = "step"\nx = [5]'),
    "`over` is for": ('take = "step"', 'take = "ratio"'),
    "has x = [6.0], of which some are not among": ("x = [5]\n[[", "x = [6]\n[["),
    "series a at x = 1: 1 percent": ('"{} %"', '"{} percent"'),
    "there is no equation 'e'": ('label = "B"', 'label = "B"\nequation = "e"'),
    "there is no machine 'pdp11'": ('machine = "hybridjoin-2011"', 'machine = "pdp11"'),
    "there is no join 'mash'": ('join = "meshjoin"', 'join = "mash"'),
    "inlj: published unknown; there are batch": ('join = "inlj"', 'join = "inlj"\nsettings = {published = true}'),
    "there is no part of an accounting 'v_T', but v_S": (
        "row_bytes = 100}",
        "row_bytes = 100}\naccounting = {v_T = 1}",
    ),
    "a point that is run needs a join": ('join = "inlj"', 'join = ""'),
    "a reduction names series c": ("over = {b", "over = {c"),
    "at the end of a table declaration": ("[y]", "[y"),
}


@pytest.mark.parametrize(("sentence", "change"), WRONG.items(), ids=WRONG)
def test_what_is_not_understood_is_refused_with_its_file(
    tmp_path: Path, sentence: str, change: tuple[str, str]
) -> None:
    assert WHOLE.count(change[0]) >= 1
    with pytest.raises(BadSetting) as refused:
        load(written(tmp_path, WHOLE.replace(*change, 1)))
    assert "a-paper/1b.toml" in str(refused.value)
    assert not str(refused.value).endswith("..")
    assert sentence in str(refused.value).replace("Object contains ", "")
