"""What picks the penalties of trace norm best: paths solved in memory, every pair measured on validation and test rows.

    python tests/bench/trace_norm_choice.py SHARED/data FOLDER [--sets tiny tiny-sift clinc-dense]
        [--classes 10 50 200] [--samples 0 1 2] [--lambda2 0 0.01] [--steps 28]

The classes are those of trace_norm_classes.py. lambda1 falls by the root of a half from lambda1_max; lambda2 is given
in shares of lambda1_max squared (the scale that `lambda2 = "auto"` uses). A row of one lambda2 ends where neither the
accuracy nor the log-loss of the validation rows has become better for six steps. FOLDER/choice.csv has every pair.
Prints what each way to choose loses against the pair that is best on the test rows, in points of top-1 accuracy and in
log-loss, and its share of the processor time of all pairs.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from tasks.rows import Csr, Dense
from tasks.seeds import stream
from tasks.trace.certificate import lambda1_max
from tasks.trace.reg_path import geometric, grid, path
from tasks.trace.risk import LocalRisk
from tasks.trace.solution import SolverParams, unwatched
from tasks.trace.subspace import subspace_descent
from tests.bench.class_samples import SETS, Array, Case, Rows, cases_of, read_case
from tests.bench.trace_norm_tables import Row, write_csv

KEPT = 10  # one row in so many of the training rows is for validation
DEFAULT = range(1, 28, 2)  # of the steps: lambda1 by halves, fourteen of them
PATIENCE = 2  # of these without a better one, after which a row ends; twice as many of finer steps
LAST = 6  # steps without a better one by any rule


def split(rows: Rows, labels: Array, sample: int) -> tuple[tuple[Rows, Array], tuple[Rows, Array]]:
    """Training rows, shuffled, and validation rows, each with their labels."""
    order = stream(sample, "choice").permutation(len(labels))
    cut = len(labels) // KEPT
    return (rows[order[cut:]], labels[order[cut:]]), (rows[order[:cut]], labels[order[:cut]])


def body(rows: Rows) -> Dense | Csr:
    if isinstance(rows, np.ndarray):
        return Dense(np.ascontiguousarray(rows, np.float32))
    return Csr(rows.data, rows.indices, rows.indptr, rows.shape[1])


def measured(rows: Dense | Csr, labels: Array, weights: Array, bias: Array | None) -> tuple[float, float]:
    """Top-1 accuracy and log-loss."""
    scores = rows.scores(np.ascontiguousarray(weights, np.float32)).astype(np.float64)
    scores += 0.0 if bias is None else bias
    losses = np.logaddexp.reduce(scores, axis=1) - scores[np.arange(len(labels)), labels]
    return float(np.mean(scores.argmax(axis=1) == labels)), float(losses.mean())


def walk(case: Case, data: Path, shares2: Sequence[float], steps: int) -> list[Row]:
    """One line a pair of penalties."""
    parts = read_case(case, data)
    (train, y_train), (validation, y_validation) = split(*parts["train"], case.sample)
    test, y_test = parts["test"]
    risk = LocalRisk(body(train), y_train, case.n_classes, np.float32)
    top = lambda1_max(risk, True)
    found = []
    for share in shares2:
        pairs = grid(geometric(top * 0.5**0.5, 0.5**0.5, steps), [share * top**2])
        began = time.process_time()
        for i, pair, solution in path(risk, pairs, SolverParams(), True, subspace_descent, unwatched):
            factors, bias = solution.factors, solution.bias
            weights = (factors.u * factors.theta) @ factors.v.T
            line: Row = {"set": case.source, "classes": case.n_classes, "sample": case.sample, "lambda2_share": share}
            line |= {"step": i, "lambda1": pair.lambda1, "rank": factors.rank, "iterations": solution.iterations}
            line |= {"gap": solution.certificate.relative_gap, "seconds": time.process_time() - began}
            for part, rows, labels in (("validation", validation, y_validation), ("test", test, y_test)):
                line[f"{part}_top1"], line[f"{part}_loss"] = measured(body(rows), labels, weights, bias)
            line["validation_rows"] = len(y_validation)
            found.append(line)
            row = [pair for pair in found if pair["lambda2_share"] == share]
            if all(over(row, better, LAST) for better in RULES.values()):
                break
            began = time.process_time()
    return found


Rule = Callable[[Row], tuple[float, float]]  # a pair's place in the order of preference: the largest is chosen

RULES: dict[str, Rule] = {
    "top1": lambda pair: (pair["validation_top1"], -pair["validation_loss"]),
    "log-loss": lambda pair: (-pair["validation_loss"], pair["validation_top1"]),
}


def over(row: list[Row], rule: Rule, patience: int) -> bool:
    """Whether the last `patience` pairs are no better than the best before them."""
    return len(row) > patience and max(map(rule, row[:-patience])) >= max(map(rule, row[-patience:]))


def walked(row: list[Row], rule: Rule, patience: int) -> list[Row]:
    """The pairs of a row that are solved until it is over."""
    for end in range(1, len(row)):
        if over(row[:end], rule, patience):
            return row[:end]
    return row


def grids(pairs: list[Row], rule: Rule) -> dict[str, list[Row]]:
    """What is solved of several paths and grids."""
    shares = dict.fromkeys(pair["lambda2_share"] for pair in pairs)
    fine = {share: [p for p in pairs if p["lambda2_share"] == share] for share in shares}
    coarse = {share: walked([p for p in row if p["step"] in DEFAULT], rule, PATIENCE) for share, row in fine.items()}
    found = {f"halves, {share:g}": row for share, row in coarse.items()}
    found["finer, 0"] = walked([p for p in fine[0.0] if p["step"] <= max(DEFAULT)], rule, 2 * PATIENCE)
    found["halves, 0 & rest"] = [pair for row in coarse.values() for pair in row]
    return found


def report(cases: dict[Case, list[Row]]) -> str:
    """What each grid and rule loses on test rows against the best pair of all, per set and number of classes."""
    lines = [
        f"{'set':12} {'classes':>7} {'lambda1, lambda2':18} {'rule':9} {'top-1 lost':>10} {'loss lost':>9} {'rank':>6} "
        f"{'step':>6} {'time':>6}"
    ]
    for source, n_classes in dict.fromkeys((case.source, case.n_classes) for case in cases):
        of = [pairs for case, pairs in cases.items() if (case.source, case.n_classes) == (source, n_classes)]
        for rule, better in RULES.items():
            for name in grids(of[0], better):
                every = [lost(pairs, grids(pairs, better)[name], better) for pairs in of]
                top1, loss, rank, step, seconds = np.mean(every, axis=0)
                lines.append(
                    f"{source:12} {n_classes:7} {name:18} {rule:9} {100 * top1:10.2f} {loss:9.4f} {rank:6.1f} "
                    f"{step:6.1f} {seconds:6.0%}"
                )
    return "\n".join(lines)


def lost(pairs: list[Row], solved: list[Row], rule: Rule) -> tuple[float, float, float, float, float]:
    """Accuracy and log-loss lost, rank, step, and share of the time of all pairs."""
    one = max(solved, key=rule)
    accuracy = max(pair["test_top1"] for pair in pairs) - one["test_top1"]
    loss = one["test_loss"] - min(pair["test_loss"] for pair in pairs)
    time_share = sum(pair["seconds"] for pair in solved) / sum(pair["seconds"] for pair in pairs)
    return accuracy, loss, one["rank"], one["step"], time_share


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sets", nargs="+", choices=list(SETS), default=list(SETS))
    parser.add_argument("--classes", nargs="+", type=int, default=[10, 50, 200])
    parser.add_argument("--samples", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--lambda2", nargs="+", type=float, default=[0.0, 0.01])
    parser.add_argument("--steps", type=int, default=28)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    cases: dict[Case, list[Row]] = {}
    for group in cases_of(given.data, given.sets, given.classes, given.samples):
        for case in group:
            cases[case] = walk(case, given.data, given.lambda2, given.steps)
            write_csv(given.folder / "choice.csv", [pair for pairs in cases.values() for pair in pairs])
            seconds = sum(pair["seconds"] for pair in cases[case])
            print(f"{case.name}: {len(cases[case])} pairs in {seconds:.1f} s of processor time", flush=True)
    print(report(cases))


if __name__ == "__main__":
    main()
