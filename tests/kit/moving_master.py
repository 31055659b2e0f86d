"""A master that changes under a job, with the moment of every change: each fact is held against it afterwards."""

from __future__ import annotations

import random
import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pymysql
from deltalake import DeltaTable

from pipeline.generate.keys import Sizes, product_codes
from pipeline.generate.seed import seed
from pipeline.laptop.stack.stack import Stack

GONE = None  # the state of a product that has no row
State = str | None  # else: its category, which every change makes another one
_PAUSE = 0.1  # seconds, when the server is away
_FIRST_NEW_KEY = 10**9


@dataclass
class Verdict:
    facts: int = 0
    of_changed: int = 0  # facts of products that changed
    never_was: int = 0  # facts with a state that the product never had
    stale: list[float] = field(
        default_factory=list
    )  # seconds by which a state had been replaced when the sale was sent
    stale_sent: list[float] = field(default_factory=list)  # when these sales were sent

    def quantile(self, share: float) -> float:
        fresh = np.zeros(self.of_changed - self.never_was - len(self.stale))
        return float(np.quantile(np.concatenate([fresh, self.stale]), share)) if self.of_changed else 0.0


class MovingMaster:
    """A thread that changes products at a rate: nine in ten changes are of a row, one removes it; chosen again, it
    comes back. It goes on through restarts of the server."""

    def __init__(self, stack: Stack, database: str, sizes: Sizes, changes: float) -> None:
        """`changes`: a second."""
        self._stack, self._database, self._rate = stack, database, changes
        self._codes = product_codes(np.arange(sizes.products)).to_pylist()
        self._over = threading.Event()
        with stack.database.connect("owner", database) as connection, connection.cursor() as cursor:
            seed(connection, sizes, progress=False)
            cursor.execute("UPDATE product SET category = CONCAT('v', product_key)")
            cursor.execute("SELECT product_code, category FROM product")
            rows = cursor.fetchall()
        self._history: dict[str, list[tuple[float, State]]] = defaultdict(list)  # when a state began
        for code, category in rows:
            self._history[code].append((0.0, category))
        self.changes = 0
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> MovingMaster:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def judge(self, facts: DeltaTable) -> Verdict:
        """Of the facts with a natural key that the master has ever had."""
        columns = ["product_code", "product_key", "product_category"]
        rows = facts.to_pyarrow_table(columns=[*columns, "kafka_timestamp"])
        verdict = Verdict(facts=len(rows))
        for row in rows.group_by(columns, use_threads=False).aggregate([("kafka_timestamp", "list")]).to_batches():
            codes, keys, categories, sent = (row[name] for name in (*columns, "kafka_timestamp_list"))
            states = zip(codes.to_pylist(), keys.to_pylist(), categories.to_pylist(), sent, strict=True)
            for code, key, category, times in states:
                moments = np.asarray(times.values.cast(pa.int64())) / 1e6
                self._judge(code, GONE if key == -1 else category, moments, verdict)
        return verdict

    def _judge(self, code: str, state: State, sent: np.ndarray, verdict: Verdict) -> None:
        """The facts of sales that were sent then, and have this state of the product."""
        states = self._history.get(code, [])
        if len(states) < 2:
            return
        verdict.of_changed += len(sent)
        ends = [*(begin for begin, _ in states[1:]), float("inf")]
        ends = [end for end, (_, known) in zip(ends, states, strict=True) if known == state]
        if not ends:
            verdict.never_was += len(sent)
        else:
            late = sent - max(ends)
            verdict.stale += late[late > 0].tolist()
            verdict.stale_sent += sent[late > 0].tolist()

    def _run(self) -> None:
        choose, doubtful = random.Random(1), None
        while not self._over.is_set():
            try:
                with self._stack.database.connect("owner", self._database) as connection, connection.cursor() as cursor:
                    if doubtful is not None:
                        self._look(cursor, doubtful)  # whether the last change came through before the server went
                    began, before = time.monotonic(), self.changes
                    while not self._over.is_set():
                        doubtful = choose.choice(self._codes)
                        self._change(cursor, doubtful, gone=choose.random() < 0.1)
                        time.sleep(max(0.0, began + (self.changes - before) / self._rate - time.monotonic()))
            except (OSError, pymysql.MySQLError):
                time.sleep(_PAUSE)

    def _change(self, cursor: Any, code: str, gone: bool) -> None:
        self.changes += 1
        state: State = f"n{self.changes}"
        if self._history[code][-1][1] is GONE:
            cursor.execute(
                "INSERT INTO product SET product_code = %s, product_key = %s, category = %s, name = '', brand = ''",
                (code, _FIRST_NEW_KEY + self.changes, state),
            )
        elif gone:
            cursor.execute("DELETE FROM product WHERE product_code = %s", (code,))
            state = GONE
        else:
            cursor.execute("UPDATE product SET category = %s WHERE product_code = %s", (state, code))
        self._history[code].append((time.time(), state))

    def _look(self, cursor: Any, code: str) -> None:
        state: State = GONE
        if cursor.execute("SELECT category FROM product WHERE product_code = %s", (code,)):
            [(state,)] = cursor.fetchall()
        if state != self._history[code][-1][1]:
            self._history[code].append((time.time(), state))
