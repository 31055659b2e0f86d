"""A master table that changes, its own history kept by triggers of the database, and the one that a sync keeps."""

from __future__ import annotations

import json
import random
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from pipeline.config.settings import load
from pipeline.history import Wishes, sync
from pipeline.laptop.stack.stack import Stack
from pipeline.plan import Plan, resolve
from tests.kit.audit import Audit, States, plain, versions

Row = tuple[Any, ...]

# Column, its type in the database, its type in the contract.
COLUMNS = (
    ("product_code", "VARCHAR(32) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL", "string"),
    ("product_key", "BIGINT NOT NULL", "int64"),
    ("updated_at", "TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6)", "timestamp"),
    ("category", "VARCHAR(400) CHARACTER SET latin1 NULL", "string"),
    ("brand", "TEXT CHARACTER SET utf8mb4 NULL", "string"),
    ("size", "ENUM('small','it''s \"large\"','größer') CHARACTER SET utf8mb4 NULL", "string"),
    ("tags", "SET('red','green','blue') NULL", "string"),
    ("price", "DECIMAL(12,3) NULL", "decimal(12,3)"),
    ("exact", "DECIMAL(38,20) NULL", "decimal(38,20)"),
    ("whole", "DECIMAL(10,0) NULL", "decimal(10,0)"),
    ("weight", "DOUBLE NULL", "double"),
    ("stock", "BIGINT UNSIGNED NULL", "uint64"),
    ("shelf", "MEDIUMINT NULL", "int32"),
    ("is_sold", "TINYINT(1) NULL", "boolean"),
    ("made", "DATE NULL", "date"),
    ("seen", "DATETIME(3) NULL", "timestamp"),
    ("tried", "DATETIME NULL", "timestamp"),
    ("photo", "BLOB NULL", "binary"),
    ("mark", "BINARY(5) NULL", "binary"),
)  # fmt: skip
NAMES = [name for name, *_ in COLUMNS]


def _values(choose: random.Random) -> dict[str, Any]:
    """Something for each column that the workload changes."""
    some = {
        "product_key": choose.randrange(1, 10**12),
        "category": choose.choice(["tea", "Thé à 5 €", "", "x" * 300]),
        "brand": choose.choice(["日本 'quoted' \\ \"text\"", "a", "\n\t"]),
        "size": choose.choice(["small", 'it\'s "large"', "größer"]),
        "tags": choose.choice(["", "red", "red,blue", "red,green,blue"]),
        "price": choose.choice(["0.000", "-0.001", "123456789.999", "-5.250"]),
        "exact": choose.choice(["-123456789012345678.00000000000000000001", "0.5", "7"]),
        "whole": choose.randrange(-(10**9), 10**9),
        "weight": choose.choice([0.1, -1e300, 1.0, 2.5e-7, 12345678.9]),
        "stock": choose.choice([0, 7, 2**64 - 1]),
        "shelf": choose.randrange(-(2**23), 2**23),
        "is_sold": choose.choice([0, 1]),
        "made": choose.choice(["2026-11-19", "1000-01-01", "9999-12-31"]),
        "seen": choose.choice(["2026-11-19 23:59:59.999", "1970-01-01 00:00:00.001"]),
        "tried": "2026-02-28 12:30:00",
        "photo": choose.randbytes(choose.choice([0, 3, 700])),
        "mark": choose.choice([b"\0\0\0\0\0", b"a\0b\0\0", b"abcde"]),
    }
    return {name: None if name != "product_key" and choose.random() < 0.2 else value for name, value in some.items()}


@dataclass
class World:
    stack: Stack
    database: str
    folder: Path
    history: str = "type 2"
    settings: tuple[str, ...] = ()
    places: list[tuple[int, tuple[str, int]]] = field(
        default_factory=list
    )  # last number in the audit, place in the log

    def __post_init__(self) -> None:
        may_be_null = {name: kind.split(" DEFAULT")[0].replace("NOT NULL", "NULL") for name, kind, _ in COLUMNS}
        self.audit = Audit(self.execute, "product", may_be_null)

    def make(self) -> None:
        kinds = {name: kind for name, _, kind in COLUMNS}
        ddl = ", ".join(f"`{name}` {kind}" for name, kind, _ in COLUMNS)
        self.execute(f"CREATE TABLE product (id BIGINT AUTO_INCREMENT PRIMARY KEY, {ddl}, UNIQUE INDEX (product_code))")
        self.audit.make()
        folder = self.folder / "contracts" / "dimensions"
        folder.mkdir(parents=True)
        attributes = "\n".join(f'{name} = "{kinds[name]}"' for name in NAMES[3:])
        (folder / "product.toml").write_text(
            'table = "product"\nsurrogate_key = "product_key"\nupdated_at = "updated_at"\n[[natural_key]]\n'
            f'column = "product_code"\nfield = "product_code"\ntype = "string"\n[attributes]\n{attributes}\n'
        )

    def execute(self, *statements: str) -> list[Row]:
        with self.stack.database.connect("admin", self.database, charset="utf8mb4") as connection:
            with connection.cursor() as cursor:
                cursor.execute("SET time_zone = '+00:00'")
                for statement in statements:
                    cursor.execute(statement)
                found = list(cursor.fetchall())
            connection.commit()
        return found

    @property
    def assignments(self) -> list[str]:
        reader = self.stack.database.accounts.reader
        server = {"host": "127.0.0.1", "port": self.stack.database.port, "database": self.database}
        server |= {"user": reader.user, "password": reader.password}
        given = [f"master.{name}={value}" for name, value in server.items()]
        given += [f"warehouse.path={self.folder / 'warehouse'}", f"contracts.folder={self.folder / 'contracts'}"]
        given.append("metrics.sync_port=0")
        return [*given, f"dimensions.product.history={self.history}", *self.settings]

    @property
    def plan(self) -> Plan:
        return resolve(load(None, self.assignments, {}))

    def sync(self) -> list[str]:
        said: list[str] = []
        sync(self.plan, Wishes(), threading.Event(), said.append)
        return said

    @property
    def table(self) -> DeltaTable:
        return DeltaTable(str(self.folder / "warehouse" / "dim_product"))

    def versions(self) -> list[dict[str, Any]]:
        return versions(self.table)

    def states(self) -> States:
        return self.audit.states_in(self.table)

    def kept_by_triggers(self, behind: int = 0) -> States:
        return self.audit.states(behind)

    def rows(self) -> list[Row]:
        return [tuple(plain(version[name]) for name in NAMES) for version in self.versions()]

    def notes(self) -> list[dict[str, Any]]:
        """What the syncs' commits say, the oldest first."""
        said = (commit.get("userMetadata") for commit in self.table.history())
        return [json.loads(text) for text in said if text][::-1]

    def behind_now(self) -> int:
        return self.audit.behind_now()

    def behind(self, place: str) -> int:
        """Up to which number the audit was filled at a place in the log, by what the workload saw."""
        file, _, offset = place.rpartition("/")[2].rpartition(":")
        return max((number for number, seen in self.places if seen <= (file, int(offset))), default=0)


class Workload:
    """Changes of all kinds by one session, which notes after each transaction where the log is."""

    def __init__(self, world: World, seed: int, keys: int = 60) -> None:
        self._world, self._choose = world, random.Random(seed)
        self._keys = [f"P-{number:03}" for number in range(keys)]
        self.transactions = 0

    def run(self, transactions: int, stop: threading.Event | None = None) -> None:
        connection = self._world.stack.database.connect("admin", self._world.database, charset="utf8mb4")
        with connection, connection.cursor() as cursor:
            cursor.execute("SET time_zone = '+00:00', sql_mode = 'NO_ENGINE_SUBSTITUTION'")
            status = "SHOW BINARY LOG STATUS" if self._world.stack.database.kind == "mysql" else "SHOW MASTER STATUS"
            for _ in range(transactions):
                if stop is not None and stop.is_set():
                    return
                self._transaction(cursor)
                cursor.execute(status)
                file, offset, *_ = cursor.fetchone()
                cursor.execute("SELECT MAX(n) FROM audit")
                self._world.places.append((cursor.fetchone()[0] or 0, (file, offset)))
                self.transactions += 1

    def _transaction(self, cursor: Any) -> None:
        choose = self._choose
        cursor.execute("BEGIN")
        for _ in range(choose.choice([1, 1, 1, 2, 5])):
            self._change(cursor)
        cursor.execute(choose.choice(["COMMIT"] * 9 + ["ROLLBACK"]))

    def _change(self, cursor: Any) -> None:
        choose, key = self._choose, self._choose.choice(self._keys)
        does = choose.random()
        if does < 0.45:
            self._put(cursor, key)
        elif does < 0.65:
            for stock in (1, 2):  # quickly, twice
                cursor.execute("UPDATE product SET stock = %s, shelf = %s WHERE product_code = %s", (stock, stock, key))
        elif does < 0.75:
            cursor.execute("DELETE FROM product WHERE product_code = %s", (key,))
        elif does < 0.85:
            other = choose.choice(self._keys)
            cursor.execute("DELETE FROM product WHERE product_code = %s AND %s <> %s", (other, other, key))
            cursor.execute("UPDATE product SET product_code = %s WHERE product_code = %s", (other, key))
        elif does < 0.9:
            cursor.execute("UPDATE product SET price = price + 1 WHERE product_code < %s", (key,))
        elif does < 0.95:
            cursor.execute("SAVEPOINT s")
            self._put(cursor, key)
            cursor.execute("ROLLBACK TO s")
        else:
            cursor.execute("UPDATE product SET price = price WHERE product_code = %s", (key,))

    def _put(self, cursor: Any, key: str) -> None:
        values = _values(self._choose)
        cursor.execute("SELECT COUNT(*) FROM product WHERE product_code = %s", (key,))
        if cursor.fetchone()[0]:
            changes = ", ".join(f"`{name}` = %s" for name in values) + ", updated_at = NOW(6)"
            cursor.execute(f"UPDATE product SET {changes} WHERE product_code = %s", (*values.values(), key))
        else:
            names = ", ".join(f"`{name}`" for name in ("product_code", *values))
            places = ", ".join(["%s"] * (len(values) + 1))
            cursor.execute(f"INSERT INTO product ({names}) VALUES ({places})", (key, *values.values()))
