"""Explicit feature maps of additive kernels (Vedaldi & Zisserman, CVPR 2010; PAMI 34(3), 2012).

A kernel sum_j k(x_j, y_j) with k(c x, c y) = c k(x, y) is k(x, y) = sqrt(x y) K(log y - log x). K is the Fourier
transform of a spectrum kappa; sampled at 0, L, ..., n L it gives 2n + 1 numbers per feature whose inner products come
close to the kernel (PAMI eq. 17), with a period 2 pi / L of K that is long enough for the ratios that count:

    psi(x) = sqrt(x) (a_0, a_1 cos(L log x), a_1 sin(L log x), ..., a_n cos(n L log x), a_n sin(n L log x))
    a_0^2 = L kappa(0),  a_j^2 = 2 L kappa(j L),  psi(0) = 0

chi2          k = 2 x y / (x + y)   K(w) = sech(w / 2)     kappa(l) = sech(pi l)
intersection  k = min(x, y)         K(w) = exp(-|w| / 2)   kappa(l) = 2 / (pi (1 + 4 l^2))
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tasks.errors import ParamError
from tasks.later import numba
from tasks.rows.base import Array

CHI2, INTERSECTION = "chi2-map", "hi-map"
KERNELS = (CHI2, INTERSECTION)
MOST_SAMPLES = 100
LONGEST = 1000.0  # period: K has long vanished
MOST_COLUMNS = 2**31 - 1  # of mapped rows: numbers of sparse columns are int32

RUN = 512  # values mapped at once: what they are computed with stays in the first cache
WORDS = 6  # numbers kept of each while that is done


@dataclass(frozen=True, slots=True)
class MapParams:
    """Which map.

    kernel   "chi2-map" or "hi-map" (intersection)
    samples  n: frequencies above 0; a feature becomes 2n + 1
    period   of the approximated K, along log y - log x; None: the paper's for this kernel and n
    """

    kernel: str = CHI2
    samples: int = 1
    period: float | None = None

    def __post_init__(self) -> None:
        """Raises ParamError."""
        if self.kernel not in KERNELS:
            raise ParamError("kernel", self.kernel, " or ".join(KERNELS), "these spectra are known")
        if not 1 <= self.samples <= MOST_SAMPLES:
            why = "a feature becomes 2 samples + 1"
            raise ParamError(f"{self.kernel}.samples", self.samples, f"1 to {MOST_SAMPLES}", why)
        if self.period is not None and not 0 < self.period <= LONGEST:
            why = "it is the period of the approximated kernel along log y - log x"
            raise ParamError(f"{self.kernel}.period", self.period, f"above 0, at most {LONGEST:g}", why)

    @property
    def width(self) -> int:
        """Columns of a feature: 2n + 1."""
        return 2 * self.samples + 1

    @property
    def known_period(self) -> float:
        """The one given, or the paper's."""
        return self.period or best_period(self.kernel, self.samples)

    @property
    def step(self) -> float:
        """L, the distance of two samples of the spectrum."""
        return 2 * math.pi / self.known_period

    @property
    def amplitudes(self) -> Array:
        """(n + 1,) float64: a_0 ... a_n."""
        step, kernel = self.step, self.kernel
        squares = [(2 if j else 1) * step * spectrum(kernel, j * step) for j in range(self.samples + 1)]
        found: Array = np.sqrt(np.array(squares))
        return found


def best_period(kernel: str, samples: int) -> float:
    """The period at which the largest error is least (PAMI, section 4.3, fitted for a uniform window)."""
    if kernel == CHI2:
        return 5.86 * math.sqrt(samples) + 3.65
    return 2.38 * math.log(samples + 0.8) + 5.6


def spectrum(kernel: str, frequency: float) -> float:
    """kappa(l) of PAMI Table 1."""
    if kernel == CHI2:
        turned = math.exp(-math.pi * abs(frequency))  # sech, without overflow
        return 2 * turned / (1 + turned * turned)
    return 2 / (math.pi * (1 + 4 * frequency * frequency))


def check_columns(params: MapParams, n_features: int) -> int:
    """Columns of mapped rows; raises ParamError when there are more than int32 can number."""
    columns = n_features * params.width
    if columns > MOST_COLUMNS:
        why = f"{n_features:,} features would become {columns:,} columns, more than int32 numbers"
        raise ParamError(f"{params.kernel}.samples", params.samples, f"fewer than {params.samples}", why)
    return columns


def map_values(values: Array, amplitudes: Array, step: float, out: Array) -> int:
    """out <- psi of each value; returns the place of the first negative one (then the rest is not mapped), or -1.

    values      (m,) float32 or float64, finite
    amplitudes  (n + 1,) float64; step L
    out         (m, 2n + 1) float32, computed in float64; zeros of 0
    """
    room = np.empty((WORDS, RUN))
    return int(map_into(values, amplitudes, step / HALF_PI, room, room.view(np.int64), out))


LN2 = math.log(2.0)
SQRT2 = math.sqrt(2.0)
MANTISSA, EXPONENT_OF_ONE = np.int64((1 << 52) - 1), np.int64(1023 << 52)
ROUNDER = 6755399441055744.0  # 1.5 x 2^52: what is added to it loses its fraction, which its low bits then are
HALF_PI = math.pi / 2
S3, S5, S7, S9, S11, S13, S15 = ((-1) ** k * HALF_PI ** (2 * k + 1) / math.factorial(2 * k + 1) for k in range(1, 8))
C2, C4, C6, C8, C10, C12, C14, C16 = ((-1) ** k * HALF_PI ** (2 * k) / math.factorial(2 * k) for k in range(1, 9))
LOG, COS, SIN, ROOT, COS_J, SIN_J = range(WORDS)


@numba.njit(cache=True, nogil=True)
def map_into(values: Array, amplitudes: Array, quarters: float, room: Array, bits: Array, out: Array) -> int:
    """out (m, 2n + 1) <- psi of values (m,), run by run; returns the place of the first negative value, or -1.

    quarters  L / (pi / 2): quarter turns of an angle of L
    room      (WORDS, RUN) float64, and bits the same memory as int64
    """
    for start in range(0, values.size, RUN):
        n = min(RUN, values.size - start)
        part, target = values[start : start + n], out[start : start + n]
        for i in range(n):
            if part[i] < 0:
                return start + i
        take_logarithms(part, room, bits)
        turn(n, quarters, room, bits)
        write_harmonics(n, amplitudes, room, target)
    return -1


@numba.njit(cache=True, nogil=True, error_model="numpy")  # a check for divisors of 0 would not vectorise
def take_logarithms(values: Array, room: Array, bits: Array) -> None:
    """room[LOG] <- log x, room[ROOT] <- sqrt(x); a finite number for x = 0, to within 1e-15 for x >= 2.3e-308.

    log x = e ln 2 + 2 artanh s, s = (f - 1) / (f + 1), for x = 2^e f with f in [1/sqrt 2, sqrt 2): |s| < 0.172.
    """
    n = values.size
    fractions, words, exponents = room[SIN, :n], bits[SIN, :n], room[COS, :n]
    logs, roots = room[LOG, :n], room[ROOT, :n]
    for i in range(n):
        fractions[i] = values[i] + 0.0  # which takes its sign from -0
        roots[i] = np.sqrt(fractions[i])
    for i in range(n):
        exponents[i] = np.float64((words[i] >> 52) - 1023)
        words[i] = (words[i] & MANTISSA) | EXPONENT_OF_ONE
    for i in range(n):
        f = fractions[i]
        halved = f > SQRT2
        f = 0.5 * f if halved else f
        s = (f - 1.0) / (f + 1.0)
        q = s * s
        series = (
            (((((q * (1 / 17) + 1 / 15) * q + 1 / 13) * q + 1 / 11) * q + 1 / 9) * q + 1 / 7) * q + 1 / 5
        ) * q + 1 / 3
        logs[i] = (exponents[i] + (1.0 if halved else 0.0)) * LN2 + 2.0 * (s + s * q * series)


@numba.njit(cache=True, nogil=True)
def turn(n: int, quarters: float, room: Array, bits: Array) -> None:
    """room[COS], room[SIN] <- cosine and sine of quarters x pi / 2 x room[LOG]; series within an eighth of a turn."""
    angles, rounded, words = room[LOG, :n], room[COS_J, :n], bits[COS_J, :n]
    cosines, sines = room[COS, :n], room[SIN, :n]
    for i in range(n):
        angles[i] *= quarters
        rounded[i] = angles[i] + ROUNDER
    for i in range(n):
        r = angles[i] - (rounded[i] - ROUNDER)
        q = r * r
        odd = ((((((S15 * q + S13) * q + S11) * q + S9) * q + S7) * q + S5) * q + S3) * q * r + HALF_PI * r
        even = (((((((C16 * q + C14) * q + C12) * q + C10) * q + C8) * q + C6) * q + C4) * q + C2) * q + 1.0
        quarter = words[i] & 3
        swapped = (quarter & 1) == 1
        cosine, sine = (odd, even) if swapped else (even, odd)
        cosines[i] = -cosine if quarter == 1 or quarter == 2 else cosine
        sines[i] = -sine if quarter >= 2 else sine


@numba.njit(cache=True, nogil=True)
def write_harmonics(n: int, amplitudes: Array, room: Array, out: Array) -> None:
    """out (n, 2 samples + 1) <- room[ROOT] times the harmonics of the angles, each the one before turned once more."""
    cosines, sines, roots = room[COS, :n], room[SIN, :n], room[ROOT, :n]
    cosine, sine = room[COS_J, :n], room[SIN_J, :n]
    for i in range(n):
        cosine[i], sine[i] = roots[i], 0.0
        out[i, 0] = amplitudes[0] * roots[i]
    for j in range(1, amplitudes.size):
        a = amplitudes[j]
        for i in range(n):
            c = cosine[i] * cosines[i] - sine[i] * sines[i]
            s = cosine[i] * sines[i] + sine[i] * cosines[i]
            cosine[i], sine[i] = c, s
            out[i, 2 * j - 1] = a * c + 0.0  # again
            out[i, 2 * j] = a * s + 0.0
