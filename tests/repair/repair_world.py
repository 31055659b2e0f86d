"""A facts table as the job writes it, and the master tables behind it, for the tests of the repair."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from pipeline.config.contracts import Contracts, TableContract
from pipeline.config.settings import load
from pipeline.laptop.stack.stack import Stack
from pipeline.plan import Plan, resolve
from pipeline.repair import Wishes, repair
from pipeline.warehouse.files import table_files
from pipeline.warehouse.port import Batch
from pipeline.warehouse.warehouse import Warehouse, make_warehouse

START = datetime(2026, 11, 18, 9, 30, 0, 250, timezone.utc)
CHANGED = datetime(2026, 11, 18, 10, 0, 0, 250_000, timezone.utc)  # all master rows were

Row = dict[str, Any]


@dataclass
class World:
    """One application's facts of one topic: a batch is a commit."""

    stack: Stack
    database: str
    folder: Path
    settings: tuple[str, ...] = ()
    is_new: bool = True

    def __post_init__(self) -> None:
        for name in ("product", "customer", "store") if self.is_new else ():
            self.execute(Contracts().ddl(name))

    @property
    def plan(self) -> Plan:
        reader = self.stack.database.accounts.reader
        server = {"host": "127.0.0.1", "port": self.stack.database.port, "database": self.database}
        server |= {"user": reader.user, "password": reader.password}
        given = [f"master.{name}={value}" for name, value in server.items()]
        return resolve(load(None, [*given, f"warehouse.path={self.folder / 'warehouse'}", *self.settings], {}))

    @property
    def uri(self) -> str:
        return f"{self.folder / 'warehouse'}/{self.plan.facts.name}"

    def execute(self, statement: str) -> None:
        with self.stack.database.connect("admin", self.database, charset="utf8mb4") as connection:
            with connection.cursor() as cursor:
                cursor.execute(statement)
            connection.commit()

    def add_products(self, codes: Iterable[str], first_key: int = 1000) -> None:
        rows = (f"('{c}', {first_key + i}, 'n', 'tea', 'own', '{CHANGED:%F %T.%f}')" for i, c in enumerate(codes))
        self.execute(f"INSERT INTO product VALUES {', '.join(rows)}")

    def add_customer(self, number: int, key: int) -> None:
        self.execute(f"INSERT INTO customer VALUES ({number}, {key}, 'n', 'shop', 'AT', '{CHANGED:%F %T.%f}')")

    def under(self, *settings: str) -> World:
        """The same world by other settings."""
        return World(self.stack, self.database, self.folder, settings, is_new=False)

    def with_contract(self, text: str) -> World:
        """The same world with a contract of the facts of its own."""
        folder = self.folder / "contracts" / "tables"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "fact_sales.toml").write_text(text)
        return self.under(f"contracts.folder={folder.parent}")

    def warehouse(self) -> Warehouse:
        plan = self.plan
        opened = make_warehouse(plan.settings.warehouse, plan.facts, [plan.rejects], plan.settings.job.name, None)  # type: ignore[arg-type]
        opened.prepare()
        return opened

    def write(self, *batches: list[Row], first: int = 0) -> None:
        warehouse = self.warehouse()
        for number, rows in enumerate(batches, start=first):
            warehouse.commit(batch_of(self.plan, number, rows))

    def repair(self, **wishes: Any) -> list[str]:
        return list(repair(self.plan, Wishes(**wishes)))

    def facts(self, version: int | None = None) -> list[Row]:
        """Ordered as Kafka has them."""
        table = DeltaTable(self.uri, version=version).to_pyarrow_table()
        return table.sort_by([("topic", "ascending"), ("partition", "ascending"), ("offset", "ascending")]).to_pylist()

    def version(self) -> int:
        return DeltaTable(self.uri).version()


def batch_of(plan: Plan, number: int, rows: list[Row]) -> Batch:
    files = table_files(plan.settings.warehouse, plan.facts, plan.settings.job.name, "1")
    files.write(pa.Table.from_pylist([{**row, "batch": number} for row in rows], plan.facts.schema))
    return Batch(number, files.close(), {}, {"offsets": {"sales/0": number}})


def fact(offset: int, product: str | None = "P-1", **values: Any) -> Row:
    """Its product is unknown; customer and store are known unless the values say otherwise."""
    return {
        "sale_id": f"s-{offset}",
        "sold_at": START,
        "product_key": -1,
        "customer_key": 7,
        "store_key": 3,
        "quantity": -2,
        "unit_price": Decimal("12.30"),
        "currency": "EUR",
        "customer_segment": "grün 🌲",
        "customer_country": "AT",
        "product_code": product,
        "customer_number": 70,
        "store_code": "S-1",
        "customer_version": START,
        "topic": "sales",
        "partition": offset % 2,
        "offset": offset,
        "kafka_timestamp": START + timedelta(minutes=offset),
        "application": "millrace",
        "batch": 0,
        "received_on": date(2026, 11, 18),
        **values,
    }


def known(offset: int, **values: Any) -> Row:
    """A fact that has all its master rows."""
    row = {"product_key": 9, "product_category": "old", "product_brand": None, "product_version": START}
    return fact(offset, **{**row, **values})


def healed(row: Row, key: int) -> Row:
    """The fact with the product that the tests add."""
    return {
        **row,
        "product_key": key,
        "product_category": "tea",
        "product_brand": "own",
        "product_version": CHANGED,
    }


def without(contract: TableContract, source: str) -> str:
    """The contract's file without the column from this source."""
    columns = [c for c in contract.columns if c.source != source]
    return as_toml(contract.name, contract.partition_by, [(c.name, type_name(c.type), c.source) for c in columns])


def as_toml(name: str, partition_by: Iterable[str], columns: Iterable[tuple[str, str, str]]) -> str:
    lines = [f'{{name = "{column}", type = "{kind}", from = "{source}"}},' for column, kind, source in columns]
    return "\n".join([f'name = "{name}"', f"partition_by = {[*partition_by]}", "column = [", *lines, "]"])


def type_name(kind: pa.DataType) -> str:
    names = {pa.date32(): "date", pa.timestamp("us", "UTC"): "timestamp", pa.decimal128(18, 2): "decimal(18,2)"}
    return names.get(kind, str(kind))
