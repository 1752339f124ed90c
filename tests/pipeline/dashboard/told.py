"""Messages as a run sends them, for tests of what is made of them."""

from __future__ import annotations

from typing import Any

from pipeline.dashboard.board import Board

NOW = 1000.0
STEPS = [{"step": "encode_pq", "reused": True}, {"step": "train_ovr"}, {"step": "train_trace"}, {"step": "train_tree"}]


def batch(*events: dict[str, Any], run: str = "t1", sent: float = NOW) -> dict[str, Any]:
    return {"run": run, "sent": sent, "events": list(events)}


def said(event: str, time: float = NOW, **fields: Any) -> dict[str, Any]:
    return {"event": event, "time": time, **fields}


def begins(name: str = "flowers", **fields: Any) -> dict[str, Any]:
    plan = {"planned_bytes": 3 << 28, "limit_bytes": 1 << 30}
    return said("run", **{"name": name, "folder": "/runs/flowers", "client": "c1", "steps": STEPS, **plan, **fields})


def progress(step: str, done: int, total: int, **fields: Any) -> dict[str, Any]:
    more = {"call": f"sgd_{step}", "tasks": done, "expected": total, "rows": 100 * done, "rate": 250.0, "eta": 4.0}
    return said("progress", step=step, done=done, total=total, **{**more, **fields})


def nodes(model: str, *depths: tuple[int, int, float | None]) -> dict[str, Any]:
    listed = [
        {"depth": depth, "nodes": number, "rows": 100 * number, "accuracy": right, "measure": 0.125}
        for depth, number, right in depths
    ]
    return said("nodes", model=model, measure="ambiguity", waiting=2, depths=listed)


def full_board() -> Board:
    """A board of a run in the middle of its trace-norm step."""
    board = Board()
    board.take(
        batch(
            begins(),
            said("step", step="train_ovr"),
            said("fitting", model="ovr", rounds=3),
            *(said("round", model="ovr", rounds=3, round=i, loss=1.0 / (i + 1), step=0.1) for i in range(3)),
            said("done", step="train_ovr", seconds=7.5),
            nodes("tree", (0, 1, 0.9), (1, 4, None)),
            said("step", step="train_trace"),
            said("solving", model="trace", pair=2, pairs=5, lambda1=0.5, lambda2=0.0),
            said("iteration", model="trace", pair=2, iteration=1, objective=4.0, gap=1.0, rank=3),
            said("iteration", model="trace", pair=2, iteration=2, objective=2.0, gap=0.1, rank=4),
            progress("train_trace", 3, 12),
            said("damaged", step="encode_pq", found=["a.npy is missing"]),
        ),
        NOW,
    )
    board.see_memory("tcp://a", "w0", 1 << 28, 1 << 30)
    return board
