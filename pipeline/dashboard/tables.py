"""The parts of the page that are tables: HTML made from the state. Every text of a run is escaped."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from html import escape

from pipeline.dashboard.board import CLUSTER_FAULTS, RUN_FAULTS, Board
from pipeline.dashboard.state import DONE, REUSED, RUNNING, TO_DO, RunState, StepState, TreeState
from pipeline.report.numbers import percent, short

MOST_LINES = 11  # of the table of steps: what is far behind or ahead is one line
MOST_TREES = 4
NEWEST = 8  # lines of what happened
EMPTY = """
<div class="empty">
  <h2>No run has told of itself yet</h2>
  <p>Type, where labelgrove is installed:</p>
  <pre>labelgrove run flowers.toml --scheduler {address}</pre>
  <p>Runs that began before this scheduler did are not seen here. Without <code>--scheduler</code>, <code>run</code>
  starts workers of its own and prints the address of its dashboard.</p>
</div>
"""
TREE_WORDS = "rows sent right: held-out rows that a node sends to a child with their class; means over a depth's nodes"
STYLE = """
:host { font: 14px/1.45 Helvetica, Arial, sans-serif; color: #222; width: 100%; }
.bk-clearfix { width: 100%; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th { text-align: left; font-weight: 600; color: #555; font-size: 12px; }
th, td { padding: 3px 10px 3px 0; border-bottom: 1px solid #e8e8e8; vertical-align: middle; white-space: nowrap; }
td.wrap { white-space: normal; overflow-wrap: anywhere; color: #555; font-size: 13px; }
td.n, th.n { text-align: right; }
h2 { font-size: 15px; margin: 0 0 6px 0; }
.scroll { overflow-x: auto; }
.muted { color: #595959; }
.bar { position: relative; min-width: 110px; max-width: 340px; }
.bar { height: 16px; background: #e9ecef; border-radius: 2px; overflow: hidden; }
.bar i { position: absolute; left: 0; top: 0; bottom: 0; background: #56B4E9; }
.bar b { position: absolute; left: 6px; font-weight: normal; font-size: 12px; line-height: 16px; color: #111; }
.bar.done i { background: #b9d8c9; }
.mark { display: inline-block; width: 9px; height: 9px; border-radius: 50%; margin-right: 6px; background: #bbb; }
.mark.running { background: #0072B2; } .mark.done, .mark.finished { background: #009E73; }
.mark.reused { background: #8fcdb8; }
.mark.stopped, .mark.failed, .mark.interrupted, .mark.driver { background: #D55E00; border-radius: 0; }
.title { font-size: 20px; font-weight: 600; margin-right: 10px; }
.big { font-size: 14px; margin-right: 18px; white-space: nowrap; }
.folder { color: #595959; font-size: 12px; overflow-wrap: anywhere; }
.error { color: #a33b00; margin-top: 4px; overflow-wrap: anywhere; }
.trees { display: flex; flex-wrap: wrap; gap: 10px 40px; }
.trees > div { flex: 1 1 420px; min-width: 0; }
.empty { max-width: 46em; margin: 4em auto; }
.empty pre { background: #eee; padding: 10px; overflow-x: auto; }
"""


def duration(seconds: float | None) -> str:
    """75 s -> 1:15; below a minute 12 s."""
    if seconds is None:
        return ""
    if seconds < 59.5:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def table(heads: Sequence[str], rows: Iterable[str], label: str) -> str:
    """Heads that begin with ">" are of numbers, to the right."""
    cells = "".join(
        f'<th class="n">{escape(head[1:])}</th>' if head.startswith(">") else f"<th>{escape(head)}</th>"
        for head in heads
    )
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return (
        f'<div class="scroll"><table aria-label="{escape(label)}"><thead><tr>{cells}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def empty_page(address: str) -> str:
    """What to type, as long as there is nothing to show."""
    return EMPTY.format(address=escape(address))


def head(run: RunState, now: float) -> str:
    """The run in one line: name, state, time, steps; its folder; the error that ended it."""
    behind = sum(step.share() >= 1.0 for step in run.steps.values())
    mark = f'<span class="mark {escape(run.state.split()[0])}"></span>'
    parts = [
        f'<span class="title">{escape(run.name)}</span>',
        f'<span class="big">{mark}{escape(run.state)}</span>',
        f'<span class="big">{duration(run.seconds(now))}</span>',
        f'<span class="big">{behind} of {len(run.steps)} steps done</span>',
    ]
    if run.live and run.current:
        parts.append(f'<span class="big">now {escape(run.current)}</span>')
    elif run.live and run.before.name:
        seen = f"{run.before.done:,} of {run.before.total:,}"
        parts.append(f'<span class="big">first {escape(run.before.name)}, {seen}</span>')
    error = f'<div class="error">{escape(run.error)}</div>' if run.error else ""
    return f'<div>{"".join(parts)}</div><div class="folder">{escape(run.folder)}</div>{error}'


def shown_steps(run: RunState) -> list[StepState | str]:
    """At most about MOST_LINES lines: those around the one in hand, and a line for what is far behind or ahead."""
    steps = list(run.steps.values())
    if len(steps) <= MOST_LINES:
        return list(steps)
    going = next((i for i, step in enumerate(steps) if step.state not in (DONE, REUSED)), len(steps))
    first = max(0, min(going - MOST_LINES // 2, len(steps) - MOST_LINES + 1))
    last = min(len(steps), first + MOST_LINES - 1)
    before = [f"{first} before these are done"] if first else []
    after = [f"{len(steps) - last} more to do"] if last < len(steps) else []
    return [*before, *steps[first:last], *after]


def steps_table(run: RunState, now: float) -> str:
    """Steps with progress, speed and remaining time."""
    heads = ("step", "state", "progress", "in hand", ">tasks", ">rows/s", ">time", ">left")
    rows = []
    for step in shown_steps(run):
        if isinstance(step, str):
            rows.append(f'<td class="muted" colspan="{len(heads)}">{escape(step)}</td>')
        else:
            rows.append("".join(_step_cells(step, now)))
    return "<h2>Steps</h2>" + table(heads, rows, "steps")


def _step_cells(step: StepState, now: float) -> Iterable[str]:
    said = step.as_json(now)
    running = step.state == RUNNING
    share = step.share()
    known = step.state != TO_DO
    yield f"<td>{escape(step.name)}</td>"
    yield f'<td><span class="mark {escape(step.state)}"></span>{escape(step.state)}</td>'
    yield f"<td>{_bar(share, '' if running else 'done') if known else ''}</td>"
    yield f'<td class="muted">{escape(_in_hand(step)) if running else ""}</td>'
    tasks = f"{step.tasks:,}" if step.tasks and not running else f"{step.tasks:,} / {step.expected:,}"
    yield f'<td class="n">{tasks if step.expected else ""}</td>'
    rate = said["rows_per_second"]
    yield f'<td class="n">{f"{rate:,.0f}" if rate else ""}</td>'
    yield f'<td class="n">{duration(said["seconds"])}</td>'
    yield f'<td class="n">{duration(said["eta"])}</td>'


def _in_hand(step: StepState) -> str:
    """sgd_ovr, round 2 of 5."""
    behind, of = step.part
    part = f"{step.part_name} {min(behind + 1, of)} of {of}" if of else ""
    return ", ".join(filter(None, (step.call.name[:40], part)))


def _bar(share: float, kind: str = "") -> str:
    width = f"{100 * share:.1f}"
    return f'<div class="bar {kind}"><i style="width:{width}%"></i><b>{percent(share, 0)}</b></div>'


def tree_tables(run: RunState) -> str:
    """The newest trees side by side, each depth by depth."""
    newest = list(run.trees)[::-1][:MOST_TREES]
    tables = "".join(f"<div>{_tree_table(model, run.trees[model])}</div>" for model in newest)
    return f'<div class="trees">{tables}</div><div class="muted">{TREE_WORDS}</div>'


def _tree_table(model: str, tree: TreeState) -> str:
    most = max((depth.nodes for depth in tree.depths), default=1)
    waiting = f", {tree.waiting:,} waiting" if tree.waiting else ""
    rows = [
        f'<td class="n">{depth.depth}</td>'
        f'<td><div class="bar done"><i style="width:{100 * depth.nodes / max(1, most):.1f}%"></i>'
        f"<b>{depth.nodes:,}</b></div></td>"
        f'<td class="n">{depth.rows:,}</td>'
        f'<td class="n">{"" if depth.accuracy is None else percent(depth.accuracy)}</td>'
        f'<td class="n">{"" if depth.measure is None else short(depth.measure)}</td>'
        for depth in tree.depths
    ]
    heads = (">depth", "nodes", ">training rows", ">rows sent right", f">{tree.measure or 'measure'}")
    return f"<h2>Tree {escape(model)}: {tree.nodes:,} nodes{waiting}</h2>" + table(heads, rows, f"tree {model}")


def faults_table(board: Board, run: RunState | None) -> str:
    """What went wrong and was mended, or not; and when."""
    own = {} if run is None else {kind: run.faults.get(kind, 0) for kind in RUN_FAULTS}
    rows = [
        f'<td>{escape(kind)}</td><td class="n">{number:,}</td><td class="wrap">{escape(meaning)}</td>'
        for kinds, numbers in ((CLUSTER_FAULTS, board.faults), (RUN_FAULTS, own))
        for kind, meaning in kinds.items()
        if (number := numbers.get(kind, 0)) or kinds is CLUSTER_FAULTS
    ]
    found = [*board.incidents, *(run.news if run is not None else ())]
    newest = sorted(found, reverse=True)[:NEWEST]
    lines = [f'<td class="muted">{_clock(when)}</td><td class="wrap">{escape(said)}</td>' for when, said in newest]
    told = table(("when", "what"), lines, "incidents") if lines else '<div class="muted">Nothing happened.</div>'
    return "<h2>Faults and retries</h2>" + table(("fault", ">number", "meaning"), rows, "faults") + "<br>" + told


def _clock(when: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(when))
