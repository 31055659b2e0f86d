"""What it takes to ask for keys by name where R is on a disk: keys that lie side by side share a seek."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Touched:
    """Blocks of a disk that are read, and in how many runs: a seek for each."""

    blocks: float
    runs: float

    def __mul__(self, times: float) -> Touched:
        return Touched(self.blocks * times, self.runs * times)

    def __add__(self, other: Touched) -> Touched:
        return Touched(self.blocks + other.blocks, self.runs + other.runs)


@dataclass(frozen=True)
class Blocks:
    """A disk on which look-ups seek: keys whose rows lie in one block, or in blocks side by side, share a seek.

    A key that is asked for together with the page it lies on costs nothing there.
    """

    rows: float  # of R in a block
    seek: float  # seconds
    transfer: float  # of a block
    pooled: int = 0  # blocks that were used last, and are not read again
    chained: bool = False  # where a key has many rows, each lies in a block anywhere; else one behind the other


NOTHING = Touched(0.0, 0.0)


def side_by_side(keys: Floats) -> Touched:
    """For so many keys, in the mean, on each of these blocks, which follow each other.

    >>> side_by_side(np.array([50.0, 50.0, 0.0, 50.0]))
    Touched(blocks=3.0, runs=2.0)
    """
    wanted = -np.expm1(-keys)
    return Touched(float(wanted.sum()), float((wanted * (1 - np.concatenate([[0.0], wanted[:-1]]))).sum()))


def anywhere(keys: Floats, blocks: float, weights: Floats) -> Touched:
    """The mean over such weights of so many keys that lie anywhere among so many blocks, which follow each other.

    >>> anywhere(np.array([1e3, 0.0]), 9.0, np.array([0.5, 0.5]))
    Touched(blocks=4.5, runs=0.5)
    """
    wanted = -np.expm1(-keys / blocks)
    runs = wanted + (blocks - 1) * wanted * (1 - wanted)
    return Touched(float((weights * wanted).sum() * blocks), float((weights * runs).sum()))


def among(keys: Floats, blocks: float, weights: Floats) -> Touched:
    """The sum over such weights of just so many keys, each in any of so many blocks, which follow each other.

    >>> among(np.array([1.0, 0.0, 1e3]), 4.0, np.array([2.0, 1.0, 1.0]))
    Touched(blocks=6.0, runs=3.0)
    """
    without = (1 - 1 / blocks) ** keys  # one block, and one and the next
    without_both = max(0.0, 1 - 2 / blocks) ** keys
    runs = 1 - without + (blocks - 1) * (without - without_both)
    return Touched(float((weights * (1 - without)).sum() * blocks), float((weights * runs).sum()))
