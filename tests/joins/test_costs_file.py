"""The file of unit costs, and what is told when it is none."""

import pytest

from pipeline.errors import BadSetting
from pipeline.joins.cost import costs_file as costs
from pipeline.joins.cost.unit_costs import Line, UnitCosts


def test_what_was_measured_is_read_again_and_other_dimensions_stay(tmp_path):
    file = str(tmp_path / "deep" / "costs.toml")
    product = UnitCosts(scan=Line(0.5, 0.25), c_H=2.0, loops=(("meshjoin", 0.125), ("r-meshjoin", 0.5)))
    costs.save(file, {"product": product}, "a test")
    costs.save(file, {"store": UnitCosts(c_H=1.0)}, "a test")
    assert costs.load(file)["product"] == product
    assert costs.load(file)["store"].c_H == 1.0
    assert costs.load(file)["product"].of("meshjoin").loop == 0.125
    assert costs.load(file)["product"].of("inlj").loop == product.loop


def test_without_a_file_the_built_in_costs_count(tmp_path):
    assert costs.load(str(tmp_path / "none.toml")) == {}
    assert costs.load("") == {}


def test_a_file_of_an_older_version_still_counts(tmp_path):
    (tmp_path / "costs.toml").write_text("[product]\nc_H = 0.5\nc_W = 3.0e-9\n")
    assert costs.load(str(tmp_path / "costs.toml")) == {"product": UnitCosts(c_H=0.5)}


@pytest.mark.parametrize(
    "text", ["[product", "[product]\nc_X = 1.0", "[product]\nscan = [1.0]", "[product]\nscan = 'x'"]
)
def test_a_file_that_is_none_of_costs_is_refused_with_the_remedy(tmp_path, text):
    file = tmp_path / "costs.toml"
    file.write_text(text)
    with pytest.raises(BadSetting, match="millrace calibrate"):
        costs.load(str(file))
