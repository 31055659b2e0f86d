"""The target `charged`: trials on declared disks and a virtual clock, the same on any machine."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy

from pipeline import joins
from pipeline.bench.charged.curves import CURVES
from pipeline.bench.charged.known import accounting, settings
from pipeline.bench.charged.machines import MACHINES
from pipeline.bench.charged.told import options
from pipeline.bench.charged.trial import Trial
from pipeline.bench.point.points import Arrivals, Point
from pipeline.bench.point.target import Measured
from pipeline.bench.workload.stream import bursty, even
from pipeline.errors import BudgetTooSmall, NotUnique
from pipeline.joins.cost.prediction import Prediction
from pipeline.master.charged import ChargedMaster
from pipeline.master.disks import VirtualClock


class Charged:
    """Nothing is measured but counts, which declared costs turn into seconds."""

    name = "charged"
    tells = "charged: declared disks and processors on a virtual clock, nothing measured"

    def versions(self) -> Mapping[str, str]:
        return {}

    def close(self) -> None:
        pass

    def measure(self, point: Point, seed: int) -> Measured:
        if not point.join:
            return _curve(point, seed, None)
        try:
            trial = Trial(
                point.join,
                point.rows,
                point.memory_bytes,
                MACHINES[point.machine],
                skew=point.data.skew,
                absent=point.sales.absent,
                seed=seed,
                pool_bytes=point.pool_bytes,
                indexed=point.indexed,
                settings=settings(point),
                accounting=accounting(point),
                law=point.data.law,
                chained=point.chained,
            )
        except (BudgetTooSmall, NotUnique) as refusal:
            return Measured(refused=str(refusal))
        if point.arrivals:
            return Measured(numbers=_arriving(trial, point.arrivals, seed), predicted=predicted(trial.prediction))
        return _saturated(trial, point, seed)


def predict(point: Point) -> dict[str, float]:
    """What our models say of a point that nobody runs."""
    clock, machine, data = VirtualClock(), MACHINES[point.machine], point.data
    master = ChargedMaster(data.rows, machine.disk, clock, point.pool_bytes, point.indexed, chained=point.chained)
    return predicted(
        joins.predict(
            point.join,
            point.memory_bytes,
            joins.relation(master.statistics(), 1, master.unique),
            options(
                machine,
                data.rows,
                data.law,
                data.skew,
                point.sales.absent,
                settings(point),
                accounting(point),
                clock,
                point.pool_bytes,
                point.chained,
            ),
        )
    )


def predicted(prediction: Prediction) -> dict[str, float]:
    """By the names that measured numbers have."""
    numbers = {"rate": prediction.mu, "processing_time": prediction.processing_time, **sizes(prediction)}
    if prediction.queries:
        numbers |= {
            "c_loop": 1 / prediction.queries,
            "sales_a_query": prediction.mu / prediction.queries,
            "queries_a_second": prediction.queries,
        }
    return {name: float(number) for name, number in numbers.items()}


def _curve(point: Point, seed: int, trial: Trial | None) -> Measured:
    assert point.curve
    return Measured(curve=CURVES[point.curve.of](point, seed, trial))


def _saturated(trial: Trial, point: Point, seed: int) -> Measured:
    warm_up = point.warm_up
    trial.warm_up(warm_up.sales, warm_up.cycles, warm_up.sales_a_cached_row)
    if point.curve:
        return _curve(point, seed, trial)
    steps = trial.join.statistics.steps
    counted = deepcopy(trial.join.statistics)
    seen = trial.measure(point.length)
    counts = trial.join.statistics - counted
    queries = sum(seen.reads.by_kind[kind].queries for kind in ("scan", "page", "lookup"))
    numbers = {
        "rate": seen.rate,
        "processing_time": float(seen.processing.mean()),
        "sales": seen.sales,
        "seconds": seen.seconds,
        "hits": seen.hits,
        "misses": counts.misses,
        "matched": seen.matched,
        "unmatched": seen.unmatched,
        "steps": trial.join.statistics.steps - steps,
        "queries": queries,
        "rows_read": sum(seen.reads.by_kind[kind].rows for kind in ("scan", "page", "lookup")),
        **{f"{kind}_queries": seen.reads.by_kind[kind].queries for kind in ("scan", "page", "lookup")},
        "requests": seen.disk.requests,
        "disk_bytes": seen.disk.bytes,
        "disk_seconds": seen.disk.seconds,
        "pool_hits": seen.disk.pool_hits,
        "pool_misses": seen.disk.pool_misses,
        **sizes(trial.prediction),
    }
    if queries:
        numbers |= {
            "c_loop": seen.seconds / queries,
            "sales_a_query": seen.sales / queries,
            "queries_a_second": queries / seen.seconds,
        }
    told = {name: float(number) for name, number in numbers.items()}
    return Measured(numbers=told, predicted=predicted(trial.prediction))


def _arriving(trial: Trial, arrivals: Arrivals, seed: int) -> dict[str, float]:
    come = even(arrivals.rate) if arrivals.law == "even" else bursty(arrivals.rate, arrivals.streams, seed)
    seen = trial.run(come, arrivals.seconds, arrivals.warm_up)
    times = {"waiting_time": seen.waiting, "processing_time": seen.processing}
    means = {name: float(each.mean()) for name, each in times.items() if len(each)}
    if len(means) == len(times):
        means["delay"] = sum(means.values())
    numbers = {
        **means,
        "queued": seen.mean_queued,
        "pending": seen.mean_pending,
        "arrived": float(seen.arrived),
        "served": float(seen.served),
        "seconds": seen.seconds,
        "rate": seen.served / seen.seconds,
    }
    return {name: float(number) for name, number in numbers.items()}


def sizes(prediction: Prediction) -> dict[str, float]:
    """What the memory was split into: w, b, h_S, ..., and bytes by part."""
    parts = {f"{part} bytes": float(size) for part, size in prediction.split.items()}
    return {name: float(size) for name, size in prediction.parameters.items()} | parts
