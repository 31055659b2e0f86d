"""MESHJOIN: meshjoin-icde2007 3.2, equations 1 to 6, and meshjoin-default-vs-optimal-2010 3, equations 1 to 5.

The equations of 2010 are those of 2007 numbered anew: 1 and 2 are the same, 3 is 1 solved for w, 4 is 3, 5 is 3 in 4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from pipeline.joins.cost.search import peak
from pipeline.joins.published.unit_costs import Disk, UnitCosts


@dataclass(frozen=True)
class Setting:
    """Sizes in bytes, as table 1 of both papers names them."""

    n_R: int  # rows of R
    v_R: float
    v_S: float
    ptr: float  # sizeof(ptr)
    f: float  # fudge factor of the hash table
    v_P: float  # a page
    sigma: float = 0.0  # selectivity: results that a row of R has, on average, when it probes H
    budgets: tuple[float, ...] = ()  # M of the experiments

    @property
    def N_R(self) -> float:
        """Pages of R."""
        return self.n_R * self.v_R / self.v_P


# Neither paper names the size of a page, and b * v_P is all that depends on it: a page of one row makes b fine.
# f and sizeof(ptr) are those of 2010, for 2007 prints none. "0.1 % (M = 200KB)" of 2007's section 4.2 is a slip: 0.1 %
# of 3.5 M rows of 120 B are 420 kB; its 4 and 40 MB are 1 and 10 % of the 420 MB, rounded down.
ICDE2007 = Setting(  # table 2; section 4.2 for the budgets: 0.5, 1, 5 and 10 %
    n_R=3_500_000, v_R=120, v_S=20, ptr=4, f=4.8, v_P=120, budgets=(2e6, 4e6, 20e6, 40e6)
)
ICDE2007_WEATHER = Setting(  # section 4.1, "Real-Life Data Set"; figure 6d has 1 to 10 %, its 4 and 40 MB
    n_R=10_000_000, v_R=32, v_S=32, ptr=4, f=4.8, v_P=32, budgets=(4e6, 40e6)
)
DEF2010 = Setting(  # table 2; section 4.4, and 5 for the 320 MB
    n_R=3_500_000, v_R=120, v_S=20, ptr=4, f=4.8, v_P=120, budgets=(20e6, 40e6, 80e6, 160e6, 320e6)
)
DEFAULT_BUFFER = 0.93e6  # bytes; 2010, table 2: the optimum for 20 MB

# Fitted, not printed: b*(20 MB) = 0.93 MB is had where a seek takes as long as the transfer of 48.1 kB. "Transfer" is
# all that a byte of R costs, c_H with it. What a sale costs does not move b*: it adds the same to 1 / mu whatever b is.
SEEK = 48_100.0  # bytes
DEF2010_COSTS = UnitCosts(c_IO=Disk(seek=SEEK * 1e-8, byte=1e-8))
# With the same SEEK, two more are fitted to 2007's 6 000 sales a second at 4 MB and 26 000 at 40 MB: a byte and a sale.
# With G = (SEEK + b v_P) / w bytes read for a sale, 1 / mu = byte G + sale, and equation 1 gives G(4 MB) = 13 072 B and
# G(40 MB) = 1 126 B: byte = (1 / 6 000 - 1 / 26 000) / (13 072 - 1 126) s = 10.73 ns, sale = 1 / 26 000 s - 1 126 byte.
ICDE2007_COSTS = UnitCosts(c_IO=Disk(seek=SEEK * 1.0732e-8, byte=1.0732e-8), c_A=2.6376e-5)


def memory(b: float, w: float, setting: Setting) -> float:
    """Equation 1: M = b v_P + w v_S + w (N_R / b) sizeof(ptr) + w f (N_R / b) v_S."""
    k = setting.N_R / b
    return b * setting.v_P + w * setting.v_S + w * k * setting.ptr + w * setting.f * k * setting.v_S


def w_within(M: float, b: float, setting: Setting) -> float:
    """Equation 3 of 2010: w = (M - b v_P) / (v_S + (N_R / b) sizeof(ptr) + (N_R / b) v_S f)."""
    k = setting.N_R / b
    return (M - b * setting.v_P) / (setting.v_S + k * setting.ptr + k * setting.v_S * setting.f)


def c_loop(b: float, w: float, setting: Setting, costs: UnitCosts) -> float:
    """Equation 2: c_IO(b) + w c_E + w c_S + w c_A + b (v_P / v_R) c_H + sigma b (v_P / v_R) c_O.

    sigma is a constant there, though what a row finds in H grows with H: in the steady state, all sales having one row,
    w = sigma b v_P / v_R. c_H is "of probing a hash table of size w N_R / b", and a constant likewise.
    """
    rows = b * setting.v_P / setting.v_R
    return (
        costs.c_IO(b * setting.v_P)
        + w * (costs.c_E + costs.c_S + costs.c_A)
        + rows * costs.c_H
        + setting.sigma * rows * costs.c_O
    )


def mu(b: float, w: float, setting: Setting, costs: UnitCosts) -> float:
    """Equation 3 (4 of 2010): mu = w / c_loop."""
    return w / c_loop(b, w, setting, costs)


def IO_s(b: float, w: float) -> float:
    """Equation 4, left: b / w, the pages read for a sale. Table 1 of 2007 has the two names the other way round."""
    return b / w


def IO_t(b: float, w: float, setting: Setting, costs: UnitCosts) -> float:
    """Equation 4, right: b / c_loop, the pages read in a second."""
    return b / c_loop(b, w, setting, costs)


def keeps_up(arrivals: float, b: float, w: float, setting: Setting, costs: UnitCosts) -> bool:
    """Equation 5: lambda <= mu, that is lambda c_loop <= w."""
    return arrivals * c_loop(b, w, setting, costs) <= w


def w_for(arrivals: float, b: float, setting: Setting, costs: UnitCosts) -> float:
    """Equation 6: w = lambda c_loop; infinite where a sale's own costs are more than the time between two sales.

    c_loop has w in it, so printed as it stands it is to be solved: lambda of what a read costs whatever w is, over
    1 - lambda (c_E + c_S + c_A).
    """
    left = 1 - arrivals * (costs.c_E + costs.c_S + costs.c_A)
    return arrivals * c_loop(b, 0, setting, costs) / left if left > 0 else math.inf


def memory_for(arrivals: float, b: float, setting: Setting, costs: UnitCosts) -> float:
    """M as a function of b for a given rate (2007, figure 5a): equation 6 in equation 1."""
    w = w_for(arrivals, b, setting, costs)
    return memory(b, w, setting) if math.isfinite(w) else math.inf


def mu_within(M: float, b: float, setting: Setting, costs: UnitCosts) -> float:
    """Equation 5 of 2010: mu as a function of b for a given memory (2007, figure 5b)."""
    return mu(b, w_within(M, b, setting), setting, costs)


def fastest(M: float, setting: Setting, costs: UnitCosts) -> int:
    """b*: the pages of the disk buffer with which M serves most sales, "by numerical methods"."""
    most = min(int(setting.N_R), int(M / setting.v_P) - 1)
    return peak(lambda b: mu_within(M, b, setting, costs), 1, most)


def leanest(arrivals: float, setting: Setting, costs: UnitCosts) -> int:
    """The pages of the disk buffer with which a rate needs least memory."""
    return peak(lambda b: -memory_for(arrivals, b, setting, costs), 1, int(setting.N_R))


def loss(M: float, buffer: float, setting: Setting, costs: UnitCosts) -> float:
    """The share of the best service rate that a disk buffer of so many bytes forgoes (2010, figures 7 and 9)."""
    best = mu_within(M, fastest(M, setting, costs), setting, costs)
    return 1 - mu_within(M, buffer / setting.v_P, setting, costs) / best
