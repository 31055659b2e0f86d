"""HYBRIDJOIN: hybridjoin-2011, section 4.3 (theorems 1 and 2) and 4.4 (equations 1 to 4)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from pipeline.joins.cost.search import peak
from pipeline.joins.published.unit_costs import UnitCosts

K = 1.36  # -k: "a constant whose value in our settings is -1.36"


@dataclass(frozen=True)
class Setting:
    """Sizes as table 1 names them."""

    M: float  # bytes
    R_t: int  # rows of R
    v_R: float  # bytes of a row
    v_S: float  # bytes of a sale in the hash table
    node: float  # bytes of a node of the queue
    page: int  # rows that make a page for figure 3; tuning varies it

    @property
    def alpha(self) -> float:
        """The hash table's weight. The paper prints neither: so every sale in H has its node in Q."""
        return self.v_S

    @property
    def beta(self) -> float:
        """The queue's weight."""
        return self.node


# Table 2 and section 4.5; no fudge factor is printed, so v_S = 20 and node = 12 make 32 bytes a sale. Figure 3 has
# 16 000 pages; the paper does not say of how many rows: 125, if its R is section 4.5's 2 M.
HYBRIDJOIN2011 = Setting(M=50e6, R_t=2_000_000, v_R=120, v_S=20, node=12, page=125)
SIZES_OF_R = (500_000, 1_000_000, 2_000_000, 4_000_000, 8_000_000)  # table 2: 0.5 to 8 M, "exponentially"
ARRIVALS = (125, 2_000)  # sales a second, table 2: from, to


def H_m(v_P: float, setting: Setting) -> float:
    """Bytes of the hash table: alpha / (alpha + beta) (M - v_P)."""
    return setting.alpha / (setting.alpha + setting.beta) * (setting.M - v_P)


def Q_m(v_P: float, setting: Setting) -> float:
    """Bytes of the queue: beta / (alpha + beta) (M - v_P)."""
    return setting.beta / (setting.alpha + setting.beta) * (setting.M - v_P)


def memory(v_P: float, setting: Setting) -> float:
    """Equation 1: v_P + alpha / (alpha + beta) (M - v_P) + beta / (alpha + beta) (M - v_P); the stream buffer (0.05 MB)
    is left out. It gives M whatever v_P is: what it says is in its terms."""
    return v_P + H_m(v_P, setting) + Q_m(v_P, setting)


def H_t(v_P: float, setting: Setting) -> float:
    """Sales in the hash table: H_m / v_S."""
    return H_m(v_P, setting) / setting.v_S


def D_t(v_P: float, setting: Setting) -> float:
    """Rows of the disk buffer: v_P / v_R."""
    return v_P / setting.v_R


def w(H_t: float, D_t: float, R_t: float, e: float = -1.0) -> float:
    """Equation 2: w = k H_t D_t / (e R_t), with k = -1.36 and e = -1: w = 1.36 H_t D_t / R_t.

    The text we have of the equation is damaged: it reads `-- H, D, / R_t` beside `k ... is -1.36`. That k multiplies is
    inferred: so both signs cancel, and theorem 1 holds; were it the divisor, w = 0.74 H_t D_t / R_t would be less than
    MESHJOIN's. Printed is a law "inversely proportional to e", fitted at e = -1 alone: at e = 0 it would be infinite,
    where the paper says that the join is worst. It knows no bound either: more than H_t cannot match, and less than one
    sale cannot (theorem 2), which it forgets where R_t > 1.36 H_t D_t.
    """
    return K * H_t * D_t / (-e * R_t)


def c_loop(v_P: float, w: float, setting: Setting, costs: UnitCosts) -> float:
    """Equation 3: c_IO(v_P) + (v_P / v_R) c_H + w (c_O + c_E + c_S + c_A); its 10^-9 makes seconds of ns."""
    return costs.c_IO(v_P) + v_P / setting.v_R * costs.c_H + w * costs.sale


def mu(v_P: float, setting: Setting, costs: UnitCosts) -> float:
    """Equation 4: mu = w / c_loop, as a function of v_P (figure 6)."""
    matched = w(H_t(v_P, setting), D_t(v_P, setting), setting.R_t)
    return matched / c_loop(v_P, matched, setting, costs)


def fastest(setting: Setting, costs: UnitCosts) -> int:
    """D_t*: the rows of the page with which M serves most sales."""
    most = min(setting.R_t, int(setting.M / setting.v_R) - 1)
    return peak(lambda rows: mu(rows * setting.v_R, setting, costs), 1, most)


def theorem_1(sales: int, H_t: int, D_t: int, R_t: int) -> int:
    """HYJ(s) = O(MEJ(s)): the most pages that are read for so many sales, which is what MESHJOIN reads for them.

    A page that has been read is not wanted again before the next H_t sales have come.
    """
    return math.ceil(R_t / D_t) * math.ceil(sales / H_t)


def theorem_2(sales: int) -> int:
    """HYJ(s) = O(INLJ(s)): the most pages that are read for so many sales, one for each, if INLJ reads one for each."""
    return sales


def w_of_meshjoin(H_t: float, D_t: float, R_t: float) -> float:
    """What theorem 1 says of w: it is H_t D_t / R_t at least, for so many leave at each read of MESHJOIN's."""
    return H_t * D_t / R_t


def processing_time_of_meshjoin(v_P: float, setting: Setting, costs: UnitCosts) -> float:
    """Section 3, not numbered: 1/2 (seek time + access time) for the whole of R; in our text a blot stands for 1/2."""
    return setting.R_t * setting.v_R / v_P * costs.c_IO(v_P) / 2
