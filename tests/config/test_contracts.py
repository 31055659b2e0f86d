"""Contract files that are not what they must be: each is refused when the plan is made, with the file's name."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from pipeline.config import resources
from pipeline.config.settings import load
from pipeline.errors import BadContract
from pipeline.plan import resolve

SALE = json.loads((resources.schemas() / "topics" / "sale.v1.json").read_text("utf-8"))
KEY = '[[natural_key]]\ncolumn = "product_code"\nfield = "product_code"\ntype = "string"\n'
PRODUCT = 'table = "product"\nsurrogate_key = "product_key"\nupdated_at = "updated_at"\n'
COLUMN = '[[column]]\nname = "id"\ntype = "string"\nfrom = "sale.sale_id"\n'


def sale(field: Any) -> str:
    return json.dumps({**SALE, "properties": {**SALE["properties"], "extra": field}})


WRONG = {
    "topics/sale.v1.json": {
        "[]": "no `properties`",
        "null": "no `properties`",
        '{"properties": []}': "no `properties`",
        '{"properties": {"a": null}}': "field a has no `x-type`",
        "[" * 100_000: "not JSON",
        json.dumps({**SALE, "required": 5}): "`required` = 5 must be a list of names",
        json.dumps({**SALE, "required": [["sale_id"]]}): "must be a list of names",
        json.dumps({**SALE, "required": ["nothing"]}): "`required` names nothing",
        sale({"x-type": 5}): "5 is not a type",
        sale({"x-type": "string", "x-column": 5}): "x-column = 5",
        sale({"x-type": "string", "x-column": "sale_id"}): "the column sale_id",
        sale({"x-type": "string", "type": 5}): "field extra",
        sale({"x-type": "int64", "type": "integer", "minimum": "x"}): "field extra",
        sale({"x-type": "int64", "type": "integer", "enum": 4}): "field extra",
        sale({"x-type": "string", "type": "string", "pattern": "["}): "field extra",
        sale({"x-type": "string", "type": "string", "pattern": None}): "`pattern` is None; it must be a text",
        sale({"x-type": "string", "type": "string", "maxLength": "9"}): "'9' characters; it must be a whole number",
        sale({"x-type": "string", "type": "string", "minLength": -1}): "-1 characters; it must be a whole number",
        '{"properties": {"a": 1e9999999999999999999}}': "not JSON",
        sale({"x-type": "int64", "type": "integer", "minimum": 4711}).replace("4711", "1e999999999"): "finite number",
    },
    "dimensions/product.toml": {
        "a = " + "[" * 5_000: "not TOML (nested too deep)",
        f"{PRODUCT}attributes = 3\n{KEY}": "`attributes` = 3 must be a table",
        f"{PRODUCT}{KEY}[attributes]\nbrand = 3\n": "3 is not a type",
        f'{PRODUCT}{KEY}[attributes]\nsurrogate_key = "string"\n': "surrogate_key comes twice",
        f'natural_key = ["a"]\n{PRODUCT}': "'a' must be a table",
        PRODUCT + KEY.replace('"string"', '["int64"]'): "type = ",
        PRODUCT + KEY.replace('"string"', '"int32"'): "must be one of int64, uint64, string, binary",
    },
    "tables/fact_sales.toml": {
        f'name = "x"\npartition_by = 3\n{COLUMN}': "`partition_by` = 3 must be a list of names",
        f'name = "x"\npartition_by = [["id"]]\n{COLUMN}': "must be a list of names",
        f'name = "x"\n{COLUMN}{COLUMN}': "id comes twice",
        f'name = "../x"\n{COLUMN}': "becomes a folder's name",
        f'name = ""\n{COLUMN}': "becomes a folder's name",
        'name = "x"\n' + COLUMN.replace('"sale.sale_id"', "3"): "from = 3",
        'name = "x"\n' + COLUMN.replace('"id"', "3"): "name = 3",
        'name = "x"\ncolumn = ["a"]\n': "'a' must be a table",
    },
}


@pytest.mark.parametrize(
    ("file", "text", "says"),
    [(file, text, says) for file, cases in WRONG.items() for text, says in cases.items()],
    ids=lambda word: word[:40].replace("\n", " "),
)
def test_a_contract_that_is_not_one_is_refused_with_a_sentence(file: str, text: str, says: str, tmp_path: Path) -> None:
    shutil.copytree(resources.schemas(), tmp_path / "own")
    (tmp_path / "own" / file).write_text(text, "utf-8")
    with pytest.raises(BadContract) as refused:
        resolve(load(None, [f"contracts.folder={tmp_path / 'own'}"], {}))
    assert says in str(refused.value)


def test_a_folder_of_contracts_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadContract, match=r"contracts\.folder = .*nowhere is no folder\. Make it"):
        resolve(load(None, [f"contracts.folder={tmp_path / 'nowhere'}"], {}))
