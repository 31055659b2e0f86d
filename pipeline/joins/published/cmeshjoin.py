"""CMESHJOIN: cmeshjoin-cikm2013 section 3.2, equations 1 to 7: how large the cache before MESHJOIN should be."""

from __future__ import annotations

from dataclasses import dataclass

from pipeline.joins.published.calculus import harmonic, share_of_first

SLOT = 8  # bytes of the frequency recorder for a row of H_R


@dataclass(frozen=True)
class Setting:
    """Sizes as table 1 names them."""

    M: float  # bytes
    R_t: int  # rows of R
    v_R: float = 120  # section 4, with v_S = 20 and pointers of 4 bytes, which enter none of the equations

    @property
    def most(self) -> float:
        """The rows for which all of the memory is cache: M / (8 + v_R)."""
        return self.M / (SLOT + self.v_R)


# Section 4, whose GB are 2^30 bytes: 100 M rows of 120 B are its 11.18 GB. Figure 2 has 0.11 GB.
FIGURE_2 = Setting(M=0.11 * 2**30, R_t=100_000_000)
ONE_PERCENT = Setting(M=0.01 * 100_000_000 * 120, R_t=100_000_000)  # figures 3b and 3d: 1 to 10 % of R
TEN_PERCENT = Setting(M=0.10 * 100_000_000 * 120, R_t=100_000_000)
FIGURE_3C = Setting(M=TEN_PERCENT.M, R_t=20_000_000)  # 1.12 GB; R from 20 to 100 M rows
FIGURE_3F = Setting(M=0.01 * 20_000_000 * 128, R_t=20_000_000, v_R=128)  # weather; M is not printed: 1 % of R


def p_N(h_R: float, R_t: float) -> float:
    """Equation 1: the sum of 1 / x from 1 to h_R over that from 1 to R_t."""
    return share_of_first(h_R, R_t)


def dp_N(h_R: float, R_t: float) -> float:
    """Equation 2: p_N(h_R + 1) - p_N(h_R); it is 1 / ((h_R + 1) times the sum of 1 / x from 1 to R_t)."""
    return 1 / ((h_R + 1) * harmonic(R_t))


def mu_dp(h_R: float, setting: Setting) -> float:
    """Equation 3: (M - (8 + v_R) h_R) / (R_t v_R), only proportional to a rate: its ratios have a meaning."""
    return (setting.M - (SLOT + setting.v_R) * h_R) / (setting.R_t * setting.v_R)


def mu_cm(h_R: float, setting: Setting) -> float:
    """Equation 4: mu_dp / (1 - p_N). A hit costs nothing, and MESHJOIN is as fast without the wanted keys."""
    return mu_dp(h_R, setting) / (1 - p_N(h_R, setting.R_t))


def dmu_as_printed(h_R: float, setting: Setting) -> float:
    """Equations 5 and 6: dmu_cm / dp_N * dp_N / dh_R = mu_dp / (1 - p_N)^2 * (p_N(h_R + 1) - p_N(h_R)).

    All of its factors are above 0 until mu_dp is 0: as printed it has no root but that all memory is cache, where mu_cm
    is 0, its least. It leaves out that a larger cache leaves less to MESHJOIN; see `dmu`.
    """
    return mu_dp(h_R, setting) / (1 - p_N(h_R, setting.R_t)) ** 2 * dp_N(h_R, setting.R_t)


def dmu(h_R: float, setting: Setting) -> float:
    """Equation 6 with the term that it lacks: dmu_dp / dh_R / (1 - p_N), dmu_dp / dh_R being -(8 + v_R) / (R_t v_R)."""
    less = (SLOT + setting.v_R) / (setting.R_t * setting.v_R)
    return dmu_as_printed(h_R, setting) - less / (1 - p_N(h_R, setting.R_t))


def d2mu_as_printed(h_R: float, setting: Setting) -> float:
    """Equation 7: 2 mu_dp / (1 - p_N)^3 * (dp_N / dh_R)^2.

    It is to prove a maximum, for which it would have to be below 0; it is above. d2p_N / dh_R^2 and dmu_dp / dh_R are
    left out of it.
    """
    return 2 * mu_dp(h_R, setting) / (1 - p_N(h_R, setting.R_t)) ** 3 * dp_N(h_R, setting.R_t) ** 2


def best_h_R(setting: Setting) -> float:
    """h_R*: the root of `dmu`, that is of M / (8 + v_R) = h + (h + 1) (H(R_t) - H(h)), H(m) the sum of 1 / x to m.

    For many rows it is the root of M / (8 + v_R) = h (1 + ln(R_t / h)).
    """
    low, high = 0.0, min(setting.most, setting.R_t)
    while high - low > 0.5:
        middle = (low + high) / 2
        low, high = (middle, high) if dmu(middle, setting) > 0 else (low, middle)
    return (low + high) / 2


def gain(h_R: float, setting: Setting) -> float:
    """How many times as fast as MESHJOIN with all of the memory: mu_cm(h_R) / mu_dp(0)."""
    return mu_cm(h_R, setting) / mu_dp(0, setting)


def bound(setting: Setting) -> float:
    """What no h_R exceeds: 1 / (1 - p_N) with all memory as cache, before a MESHJOIN as fast as if all were its own."""
    return 1 / (1 - p_N(setting.most, setting.R_t))
