"""X-HYBRIDJOIN: x-hybridjoin-kais2013, section 6, equations 4 to 9; 1 to 3 are 4 to 6 with k = l = 1."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from pipeline.joins.cost.search import peak
from pipeline.joins.published.calculus import harmonic, share_of_first
from pipeline.joins.published.unit_costs import UnitCosts


@dataclass(frozen=True)
class Setting:
    """Sizes as table 1 and section 6.1 name them."""

    M: float  # bytes
    R_t: int  # rows of R, sorted by how often they are wanted
    v_R: float
    v_S: float
    node: float  # bytes of a node of the queue
    v_P: float  # bytes of a page
    k: int = 1  # pages of the swappable part
    l: int = 1  # pages of the non-swappable part  # noqa: E741

    @property
    def d_S(self) -> int:
        """Rows of the swappable part: k v_P / v_R."""
        return int(self.k * self.v_P / self.v_R)

    @property
    def d_N(self) -> int:
        """Rows of the non-swappable part: l v_P / v_R."""
        return int(self.l * self.v_P / self.v_R)

    @property
    def alpha(self) -> float:
        """The hash table's weight, which the paper does not print: so every sale in H has its node in Q."""
        return self.v_S / (self.v_S + self.node)

    @property
    def n(self) -> float:
        """Partitions of R' = R_t - d_N, of d_S rows each."""
        return max(1.0, (self.R_t - self.d_N) / self.d_S)


# Table 2 and section 5.2: 2 M rows at 50 to 250 MB, 0.5 to 8 M rows at 50 MB. The size of a page is not printed: here
# it is that of hybridjoin-2011, figure 3, same authors, same machine: 16 000 pages, of 125 rows if R had 2 M.
KAIS2013 = Setting(M=50e6, R_t=2_000_000, v_R=120, v_S=20, node=12, v_P=125 * 120)
BUDGETS = (50e6, 100e6, 150e6, 200e6, 250e6)  # section 5.2.1; that the steps are of 50 MB is our reading of the ends
SIZES_OF_R = (500_000, 1_000_000, 2_000_000, 4_000_000, 8_000_000)  # table 2, "exponentially"
ITERATIONS = 4_000  # section 5.2.4


def memory(setting: Setting) -> float:
    """Equation 4: (k + l) v_P + alpha [M - (k + l) v_P] + (1 - alpha) [M - (k + l) v_P], without the stream buffer."""
    parts = (setting.k + setting.l) * setting.v_P
    return parts + setting.alpha * (setting.M - parts) + (1 - setting.alpha) * (setting.M - parts)


def h_S(setting: Setting) -> float:
    """Sales in the hash table: alpha [M - (k + l) v_P] / v_S."""
    return setting.alpha * (setting.M - (setting.k + setting.l) * setting.v_P) / setting.v_S


def p_m(m: int, setting: Setting) -> float:
    """Section 6.3: the share of the old part of the queue that wants partition m, the first one being 1.

    Sum of 1 / x from d_N + (m - 1) d_S + 1 to d_N + m d_S, over that from d_N + 1 to R_t.
    """
    first, last = setting.d_N + (m - 1) * setting.d_S, min(setting.R_t, setting.d_N + m * setting.d_S)
    return (harmonic(last) - harmonic(first)) / (harmonic(setting.R_t) - harmonic(setting.d_N))


def p_old(setting: Setting) -> float:
    """Equation 7: the mean of p_m over all partitions, 1 / n.

    All partitions count alike, though the oldest sale's is read: so the wanted ones are read more often.
    """
    return 1 / setting.n


def p_new(setting: Setting) -> float:
    """Equation 8: p_N + p_S / n."""
    p_N = share_of_first(setting.d_N, setting.R_t)
    return p_N + (1 - p_N) / setting.n


def w_as_printed(setting: Setting) -> float:
    """Equation 9: w = h_S p_old (1 - p_old) / (1 + p_old (1 - p_old) - p_new (1 - p_new)).

    p (1 - p) is the variance of whether one sale matches; how many of n sales do is n p in the mean. As p (1 - p)
    is 1 / 4 at most, w is never more than 4 / 3 of HYBRIDJOIN's h_S p_old, whatever stays in memory.
    """
    return _w(setting, lambda p: p * (1 - p))


def w_by_the_mean(setting: Setting) -> float:
    """Equation 9 with the binomial law's mean where it has the variance: w = h_S p_old / (1 + p_old - p_new)."""
    return _w(setting, lambda p: p)


def c_loop(w: float, setting: Setting, costs: UnitCosts) -> float:
    """Equation 5: c_IO(k v_P) + (d_N + d_S) c_H + w (c_O + c_E + c_S + c_A); 10^-9 makes seconds of ns."""
    return costs.c_IO(setting.k * setting.v_P) + (setting.d_N + setting.d_S) * costs.c_H + w * costs.sale


def mu(setting: Setting, costs: UnitCosts, w: Callable[[Setting], float] = w_by_the_mean) -> float:
    """Equation 6: mu = w / c_loop."""
    matched = w(setting)
    return matched / c_loop(matched, setting, costs)


def tuned(setting: Setting, costs: UnitCosts, w: Callable[[Setting], float] = w_by_the_mean) -> Setting:
    """The k and l with which M serves most sales (section 6.3)."""
    most = int(min(setting.M, setting.R_t * setting.v_R) / setting.v_P) - 1

    def with_best_l(k: int) -> Setting:
        l = peak(lambda l: mu(replace(setting, k=k, l=l), costs, w), 1, max(1, most - k))  # noqa: E741
        return replace(setting, k=k, l=l)

    return with_best_l(peak(lambda k: mu(with_best_l(k), costs, w), 1, max(1, most - 1)))


def by_the_resident_part(iterations: int, setting: Setting, w: Callable[[Setting], float] = w_by_the_mean) -> float:
    """Sales that the non-swappable part serves in so many iterations (figure 3d): the share p_N of all."""
    return iterations * w(setting) * share_of_first(setting.d_N, setting.R_t)


def _w(setting: Setting, matching: Callable[[float], float]) -> float:
    """w = (h_S - w) p_old + w p_new, solved for w; with what is taken for the matches of a probability p."""
    old, new = matching(p_old(setting)), matching(p_new(setting))
    return h_S(setting) * old / (1 + old - new)
