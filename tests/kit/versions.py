"""A master table whose products have versions, each valid for a time of its own, and the contract that says so."""

from __future__ import annotations

from pathlib import Path

from pipeline.config import resources

TABLE = """
    CREATE TABLE product (
      product_code VARCHAR(32) NOT NULL, product_key BIGINT NOT NULL PRIMARY KEY,
      category VARCHAR(32), brand VARCHAR(32),
      valid_from DATETIME(6) NULL, valid_to DATETIME(6) NULL, updated_at DATETIME(6) NOT NULL,
      UNIQUE begins (product_code, valid_from)
    ) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"""


def contract_in(folder: Path) -> Path:
    """The dimension *product* over that table, in a folder of contracts that is made."""
    shipped = (resources.schemas() / "dimensions" / "product.toml").read_text("utf-8")
    attributes = 'valid_from = "timestamp"\nvalid_to = "timestamp"\n'
    validity = '[validity]\nfrom = "valid_from"\nto = "valid_to"\nat = "sold_at"\n'
    (folder / "dimensions").mkdir(parents=True)
    (folder / "dimensions" / "product.toml").write_text(shipped + attributes + validity, "utf-8")
    return folder
