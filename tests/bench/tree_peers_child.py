"""One peer on one set, in the peer's own environment: imports NumPy, SciPy and the peer, nothing of this repository.

    python tree_peers_child.py PEER FOLDER

FOLDER holds x.npz, xt.npz (SciPy CSR float32) and y.npy, yt.npy; `dense` is a file of it where the rows came dense.
Prints one JSON list: {"case", "top1", "train_seconds", "predict_us"} with CPU time of one thread. Two traps are
avoided: on dense rows both peers cut small weights away unless their thresholds are 0, and PECOS predicts fast only
when it is loaded with its chunked layout.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

REPEATS = 3
ARITY, LEAF = 16, 16
COSTS = (0.003, 0.01, 0.1, 1.0)  # of dense rows: the best on the last fifth of the training rows
Outcome = dict[str, Any]


class Rows:
    """The four arrays of a folder."""

    def __init__(self, folder: Path) -> None:
        self.x, self.xt = (sp.load_npz(folder / name).astype(np.float32).tocsr() for name in ("x.npz", "xt.npz"))
        self.y, self.yt = (np.load(folder / name).astype(np.int64) for name in ("y.npy", "yt.npy"))
        self.n_classes = int(max(self.y.max(), self.yt.max())) + 1
        self.dense = (folder / "dense").exists()


def cpu(work: Callable[[], Any]) -> tuple[float, Any]:
    """CPU seconds and the result."""
    begun = time.process_time()
    result = work()
    return time.process_time() - begun, result


def outcome(case: str, seconds: float, predict: Callable[[], Any], first: Callable[[Any], Any], rows: Rows) -> Outcome:
    """Predict all test rows REPEATS times; the least CPU time counts."""
    timed = [cpu(predict) for _ in range(REPEATS)]
    top1 = float((first(timed[0][1]) == rows.yt).mean())
    least = min(taken for taken, _ in timed)
    return {"case": case, "top1": top1, "train_seconds": seconds, "predict_us": 1e6 * least / rows.yt.size}


def pecos(rows: Rows, flat: bool = False) -> list[Outcome]:
    """XR-Linear on a tree of balanced k-means, or one-vs-rest."""
    from pecos.xmc.xlinear.model import XLinearModel

    def train(x: Any, y: Any, **more: Any) -> Any:
        return XLinearModel.train(x, y, C=None if flat else clusters(x, y), threads=1, **more)

    targets = sp.csr_matrix((np.ones(rows.y.size, np.float32), (np.arange(rows.y.size), rows.y)),
                            shape=(rows.y.size, rows.n_classes))  # fmt: skip
    more: dict[str, Any] = {}
    if rows.dense:
        cost = chosen(rows, lambda x, y, c: train(x, y, Cp=c, Cn=c, threshold=0.0), targets, firsts_of)
        more = {"Cp": cost, "Cn": cost, "threshold": 0.0}
    seconds, trained = cpu(lambda: train(rows.x, targets, **more))
    with tempfile.TemporaryDirectory() as folder:
        trained.save(folder)
        model = XLinearModel.load(folder, is_predict_only=True, weight_matrix_type="HASH_CHUNKED")
    said = f" C={more['Cp']:g}" if more else ""
    cases = [(f"PECOS one-vs-rest{said}", 1)] if flat else [(f"PECOS tree, beam {b}{said}", b) for b in (1, 10)]
    return [
        outcome(
            case,
            seconds,
            lambda beam=beam: model.predict(rows.xt, beam_size=beam, only_topk=1, threads=1),  # type: ignore[misc]
            firsts_of,
            rows,
        )
        for case, beam in cases
    ]


def clusters(x: Any, y: Any) -> Any:
    from pecos.xmc import Indexer, LabelEmbeddingFactory

    means = LabelEmbeddingFactory.create(y, x, method="pifa")
    return Indexer.gen(means, indexer_type="hierarchicalkmeans", nr_splits=ARITY, max_leaf_size=LEAF, threads=1)


def firsts_of(scores: Any) -> Any:
    return np.asarray(sp.csr_matrix(scores).argmax(1)).ravel()


def chosen(rows: Rows, train: Callable[[Any, Any, float], Any], targets: Any, first: Callable[[Any], Any]) -> float:
    """The cost with the best accuracy on a fifth of the training rows, drawn once."""
    order = np.random.default_rng(0).permutation(rows.y.size)
    held, kept = order[: rows.y.size // 5], order[rows.y.size // 5 :]
    found = []
    for cost in COSTS:
        model = train(rows.x[kept], targets[kept], cost)
        answers = first(model.predict(rows.x[held], beam_size=10, only_topk=1, threads=1))
        found.append((float((answers == rows.y[held]).mean()), -cost))
    return -max(found)[1]


def napkin(rows: Rows, kind: str) -> list[Outcome]:
    """napkinXC: hierarchical softmax or a probabilistic label tree."""
    from napkinxc.models import HSM, PLT

    more: dict[str, Any] = {"liblinear_c": 1, "weights_threshold": 0.0} if rows.dense else {}
    labels = [int(v) for v in rows.y] if kind == "HSM" else [[int(v)] for v in rows.y]
    with tempfile.TemporaryDirectory() as folder:
        model = {"HSM": HSM, "PLT": PLT}[kind](f"{folder}/m", arity=ARITY, max_leaves=LEAF, threads=1, **more)
        seconds, _ = cpu(lambda: model.fit(rows.x, labels))
        model.load()
        return [
            outcome(f"napkinXC {kind}", seconds, lambda: model.predict(rows.xt, top_k=1), first_of_lists, rows),
        ]


def first_of_lists(answers: Any) -> Any:
    return np.array([answer[0] if len(answer) else -1 for answer in answers])


PEERS: dict[str, Callable[[Rows], list[Outcome]]] = {
    "pecos": pecos,
    "pecos-flat": lambda rows: pecos(rows, flat=True),
    "napkin-hsm": lambda rows: napkin(rows, "HSM"),
    "napkin-plt": lambda rows: napkin(rows, "PLT"),
}

if __name__ == "__main__":
    print(json.dumps(PEERS[sys.argv[1]](Rows(Path(sys.argv[2])))))
