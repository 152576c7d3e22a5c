"""The stored runs as one interactive page: `python benchmarks/results_html.py [FILE]`, results.html if left out; needs plotly (`.[dev]`).

A figure per task: how the return of every method grows with what it has learned, one line per seed, and the end of each run beside the
paper's number. A click on a method hides it. The page needs no network and sends nothing anywhere.
"""

import sys
from pathlib import Path

import plotly.graph_objects as go
from plotly.colors import qualitative
from plotly.subplots import make_subplots

from imitable.paper import TASK_NAMES
from imitable.paper.tasks import published
from imitable.report.escaping import for_html
from results import ROWS, Cells, expert_return, is_earlier, load, other_settings

PRIVATE = {"displaylogo": False, "showSendToCloud": False, "plotlyServerURL": ""}  # the first button would upload the data
STYLE = "body { font-family: sans-serif; max-width: 75rem; margin: 2rem auto } h2 { margin-top: 3rem }"


def task_figure(task: str, cells: Cells) -> go.Figure:
    """Curves on the left, final returns by method on the right."""
    titles = ("return while learning, one line per seed", "final return of each seed; × the paper's")
    figure = make_subplots(cols=2, column_widths=[0.6, 0.4], subplot_titles=titles)
    paper = published().get(task, {}).get("returns", {})
    for method, colour in zip(ROWS, qualitative.Dark24, strict=False):
        if not (some := cells.get((task, method))):
            continue
        ends = [cell["result"]["mean_return"] for cell in some]
        seeds = [f"seed {cell['config']['seed']}{', version 0.1' if is_earlier(cell) else ''}" for cell in some]
        for number, (cell, seed) in enumerate(zip(some, seeds, strict=True)):
            share = [point["steps"] / cell["curve"][-1]["steps"] for point in cell["curve"]]
            line = {"mode": "lines+markers", "line": {"color": colour}, "name": method, "legendgroup": method, "showlegend": number == 0}
            figure.add_scatter(x=share, y=[point["mean_return"] for point in cell["curve"]], hovertext=seed, **line, col=1, row=1)
        dots = {"mode": "markers", "marker": {"color": colour, "size": 9}, "name": method, "legendgroup": method, "showlegend": False}
        figure.add_scatter(x=[method] * len(ends), y=ends, hovertext=seeds, **dots, col=2, row=1)
        if method in paper:
            cross = {**dots, "marker": {"color": colour, "size": 11, "symbol": "x-thin", "line": {"width": 2, "color": colour}}}
            figure.add_scatter(x=[method], y=[paper[method]], hovertext="the paper's", **cross, col=2, row=1)
    figure.add_hline(y=expert_return(task), line_dash="dot", annotation_text="expert")
    figure.update_layout(height=480, template="plotly_white", legend={"groupclick": "togglegroup"})
    figure.update_xaxes(title="share of the learning done", col=1, row=1)
    return figure


def settings_figure(variant: str, cells: Cells) -> go.Figure:
    """Final returns by task and method under other settings."""
    figure = go.Figure()
    for (task, method), some in sorted(cells.items()):
        ends = [cell["result"]["mean_return"] for cell in some]
        figure.add_scatter(x=[task] * len(ends), y=ends, mode="markers", name=f"{task} {method}", marker={"size": 9})
    return figure.update_layout(height=360, template="plotly_white", title=variant)


def page() -> str:
    """The whole page."""
    cells, parts = load(), []
    for task in TASK_NAMES:
        if any(key[0] == task for key in cells):
            parts += [f"<h2>{for_html(task)}</h2>", task_figure(task, cells)]
    folders = other_settings(every=True)
    parts += ["<h2>Other settings and studies</h2>"] if folders else []
    parts += [settings_figure(folder.name, load(folder.name)) for folder in folders]
    figures = 0
    written = [f"<!doctype html><html><head><meta charset='utf-8'><title>imitable: results</title><style>{STYLE}</style></head><body>"]
    written.append("<h1>Results</h1><p>From <code>benchmarks/results/</code>; as tables: <code>docs/results.md</code>.</p>")
    for part in parts:
        if isinstance(part, str):
            written.append(part)
        else:
            script = figures == 0  # once in the page
            written.append(part.to_html(full_html=False, include_plotlyjs=script, config=PRIVATE, div_id=f"figure-{figures}"))
            figures += 1
    return "\n".join([*written, "</body></html>\n"])


if __name__ == "__main__":
    path = Path(sys.argv[1] if len(sys.argv) > 1 else "results.html")
    path.write_text(page())
    print(f"{path}: {path.stat().st_size / 1e6:.1f} MB")
