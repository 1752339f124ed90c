"""Examples that papers work through with numbers of their own: Chen & Shrivastava's Figures 1 to 3, and what Theorem 2
of Zhao & Xing comes to. They need no data; the code is that which runs use."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from pipeline.report.numbers import percent
from pipeline.reproduce.chen_shrivastava import PAPER as CHEN
from pipeline.reproduce.chen_shrivastava import VALUES as CODES
from pipeline.reproduce.figure import Cell, Claim, Number, PaperFigure, Shown, Table, Verdict, decided, number, share
from pipeline.reproduce.found import Found
from pipeline.reproduce.zhao_xing import PAPER as ZHAO
from pipeline.reproduce.zhao_xing import VALUES as HASHES
from tasks.hashing.code_rows import CodeHash
from tasks.hashing.collisions import lost_bound, lost_expected, lost_features
from tasks.hashing.wta import CodeParams
from tasks.rows import Dense
from tasks.rows.base import Array

EQUAL = {True: "equal", False: "not equal"}
SHIFT = 4  # C of Figure 3; the paper has any C > K = 3
FIGURE_2 = CODES["figure-2"]


def codes_of(figure: str, kind: str, empty: str = "first") -> Array:
    """(n_rows, n_hashes) int64 codes of a figure's rows, from 1 as the paper counts; 0 for none."""
    rows = np.array(CODES[figure]["rows"], np.float32)
    windows = np.array(CODES[figure]["windows"], np.int32) - 1
    shift = SHIFT if kind == "dwta" else None
    params = CodeParams(kind, windows.shape[0], windows.shape[1], shift, None, empty)
    codes, _ = CodeHash(params, rows.shape[1], windows).codes(Dense(rows))
    plain = codes.astype(np.int64) + 1
    plain[codes == params.sentinel] = 0
    return plain


def table_of(figure: str, codes: Array, expected: list[list[str]]) -> Table:
    """Each row's codes beside those that the paper prints."""
    rows: list[list[Cell]] = []
    for place, (own, theirs) in enumerate(zip(codes.tolist(), expected, strict=True)):
        given = [str(value_of(text)) for text in theirs]
        same = EQUAL[[str(code) for code in own] == given]
        rows.append([f"x{place + 1}", ", ".join(map(str, own)), ", ".join(theirs), same])
    return Table(f"Codes of {CODES[figure]['source']}", ["row", "here", "paper", "equal?"], rows, words=4)


def value_of(text: str) -> int:
    """2+2C with the C of this page."""
    base, _, steps = text.partition("+")
    return int(base) + (int(steps.rstrip("C") or "1") * SHIFT if steps else 0)


def texts(codes: list[list[int]]) -> list[list[str]]:
    return [[str(code) for code in row] for row in codes]


EXPECTED = {
    "figure-1": texts(CODES["figure-1"]["codes"]),
    "figure-2": texts(FIGURE_2["codes"]),
    "figure-3": CODES["figure-3"]["codes"],
}


def made(figure: str) -> Array:
    return codes_of("figure-2", "dwta") if figure == "figure-3" else codes_of(figure, "wta")


def shows(figure: str) -> Callable[[Found], Shown]:
    return lambda _: Shown([table_of(figure, made(figure), EXPECTED[figure])])


def equal_codes(figure: str) -> Claim:
    def judge(_: Found) -> Verdict:
        told = [[value_of(text) for text in row] for row in EXPECTED[figure]]
        same = made(figure).tolist() == told
        return decided(same, f"{EQUAL[same]}: {made(figure).tolist()}")

    return Claim("the codes are those printed", CODES[figure]["source"], "every code is equal", judge)


def matching(figure: str, text: str) -> Claim:
    def judge(_: Found) -> Verdict:
        first, second = made(figure)
        n = int((first == second).sum())
        return decided(n == CODES[figure]["matches"], f"{n} of {first.size} samples collide")

    return Claim(text, CODES[figure]["source"], "as many samples collide as printed", judge)


def judge_empty(_: Found) -> Verdict:
    found = [(np.flatnonzero(row == 0) + 1).tolist() for row in codes_of("figure-2", "wta", "none")]
    return decided(found == FIGURE_2["empty"], f"x1: {found[0]}; x2: {found[1]}")


EMPTY = Claim(
    "samples 1, 4 and 6 of x1, and 1, 3, 4 and 6 of x2, are empty", FIGURE_2["source"], "these alone", judge_empty
)


# ---- Theorem 2 of Zhao & Xing --------------------------------------------------------------------------------------

THEOREM = HASHES["theorem-2"]
EXAMPLE = (THEOREM["d"], 1 << THEOREM["bits"], THEOREM["tau"])
FURNITURE = {bits: (THEOREM["furniture_d"], 1 << bits, THEOREM["furniture_levels"]) for bits in (18, 21)}


def show_theorem(_: Found) -> Shown:
    cases = [("section 3.2", EXAMPLE), *((f"furniture, {bits} bits", case) for bits, case in FURNITURE.items())]
    rows: list[list[Cell]] = [
        [
            name,
            Number(d, f"{d:,}"),
            Number(m, f"{m:,}"),
            Number(tau, str(tau)),
            number(lost_bound(d, m, tau), 2),
            share(lost_bound(d, m, tau) / d),
            number(lost_expected(d, m, tau), 2),
            Number(counted(d, m, tau), f"{counted(d, m, tau):,}"),
        ]
        for name, (d, m, tau) in cases
    ]
    heading = ["case", "features d", "buckets m", "levels", "bound (20)", "of d", "expected exactly", "counted"]
    note = (
        "Expected exactly: d (1 - (1 - 1/m)^(d - 1))^levels; the bound takes (d - 1)/m for the chance of a collision. "
        "Counted: features that share their bucket under every one of so many hash functions, of seeds 0, 1, 2 ..."
    )
    return Shown([Table("Features lost to collisions", heading, rows, note)])


def counted(d: int, m: int, tau: int) -> int:
    """Lost features under MurmurHash3 of seeds 0..tau - 1."""
    return lost_features(np.arange(tau, dtype=np.uint32), d, m)


def judge_less_than_four(_: Found) -> Verdict:
    bound, really = lost_bound(*EXAMPLE), counted(*EXAMPLE)
    told = f"bound {bound:.2f}, exactly {lost_expected(*EXAMPLE):.2f} expected, {really} counted"
    return decided(bound < THEOREM["lost_below"], told)


def judge_share(_: Found) -> Verdict:
    d, m, _tau = EXAMPLE
    part = m / (THEOREM["classes"] * d)
    told = f"m is {percent(part, 2)} of kd (k = {THEOREM['classes']:,}); HESHING has m numbers on each of {_tau} levels"
    return decided(f"{100 * part:.1f}%" == THEOREM["share_of_kd"], f"{told}, {percent(_tau * part)}")


def judge_few(_: Found) -> Verdict:
    d, m, tau = FURNITURE[21]
    lost = lost_expected(d, m, tau)
    return decided(lost < d / 1000, f"{lost:.1f} of {d:,} features expected, {counted(d, m, tau)} counted")


def judge_fifth(_: Found) -> Verdict:
    d, m, tau = FURNITURE[18]
    bound, exact, really = (lost / d for lost in (lost_bound(d, m, tau), lost_expected(d, m, tau), counted(d, m, tau)))
    told = f"the bound (20) is {percent(bound)} of the features; exactly {percent(exact)} are expected"
    return decided(0.15 <= bound <= 0.2, f"{told}, {percent(really)} counted")


THEOREM_CLAIMS = (
    Claim("HESHING loses less than 4 features (d = 130K, m = 2^20, tau = 5)", "section 3.2", "", judge_less_than_four),
    Claim("m = 2^20 is only 0.8% of kd", "section 3.2", "of 1,000 classes", judge_share),
    Claim("a 21 bit hash table causes almost no collisions", "section 4.2", "one feature in 1,000 is lost", judge_few),
    Claim(
        "an 18 bit hash has almost 20% collisions (by the theorem's bound)",
        "section 4.2",
        "the bound (20) is 15 to 20 % of d",
        judge_fifth,
    ),
)


# ---- the figures ---------------------------------------------------------------------------------------------------

HASHED = "Chen & Shrivastava count attributes and codes from 1, and so does this page; runs count from 0."
NOTHING = ("nothing",)
FIGURES = (
    PaperFigure(
        "chen-figure-1",
        CHEN,
        CODES["figure-1"]["source"],
        "winner-take-all codes of four vectors",
        NOTHING,
        "a second",
        shows("figure-1"),
        (equal_codes("figure-1"),),
        data="The paper's own vectors.",
        differs=(HASHED,),
    ),
    PaperFigure(
        "chen-figure-2",
        CHEN,
        FIGURE_2["source"],
        "codes of two sparse vectors, empty samples among them",
        NOTHING,
        "a second",
        shows("figure-2"),
        (equal_codes("figure-2"), EMPTY, matching("figure-2", "the estimated collision probability is 5/6")),
        data="The paper's own vectors.",
        differs=(HASHED,),
    ),
    PaperFigure(
        "chen-figure-3",
        CHEN,
        CODES["figure-3"]["source"],
        "the same codes densified",
        NOTHING,
        "a second",
        shows("figure-3"),
        (equal_codes("figure-3"), matching("figure-3", "the collision similarity comes down to 3/6")),
        data="The paper's own vectors.",
        differs=(
            HASHED,
            f"C, which the paper leaves open above K = 3, is {SHIFT}.",
            "The printed rule for the sample to borrow from, CN(i) mod (n + 1) + 1, names another sample than Figure 3 "
            "does; what is done is what the figure shows: the next sample to the right that is not empty.",
        ),
    ),
    PaperFigure(
        "zhao-xing-theorem-2",
        ZHAO,
        "Theorem 2, sections 3.2 and 4.2",
        "features lost to collisions: the bound, the expectation, and counted",
        NOTHING,
        "a second",
        show_theorem,
        THEOREM_CLAIMS,
        data="The paper's own sizes.",
        differs=("The paper says a number of collisions and means the bound of its Theorem 2.",),
    ),
)
