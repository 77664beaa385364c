"""The plots of the paper's Figure 1: memory and time against length."""

from __future__ import annotations

from pathlib import Path
from typing import Any

_QUANTITIES = {
    "memory": ("step_bytes", 1024.0**2, "peak additional memory of a training step (MiB)"),
    "time": ("step_seconds", 1e-3, "training step (ms)"),
}
_OURS = ("paper", "released", "encoder:mtsa", "encoder:hierarchical_mtsa")


def draw(record: dict[str, Any], folder: Path) -> list[Path]:
    """Write time.png, and memory.png if memory was measured; a cross marks where a layer was skipped."""
    from matplotlib import pyplot

    paths = []
    for name in _measured(record):
        figure, axes = pyplot.subplots(figsize=(9.5, 5.2), layout="constrained")
        _panel(axes, record, name)
        axes.set_title(_title(record), fontsize=9)
        axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
        paths.append(folder / f"{name}.png")
        figure.savefig(paths[-1], dpi=130)
        pyplot.close(figure)
    return paths


def draw_together(record: dict[str, Any], path: Path) -> Path:
    """Write one figure with the time and, if it was measured, the memory."""
    from matplotlib import pyplot

    names = _measured(record)[::-1]
    figure, panels = pyplot.subplots(1, len(names), figsize=(5.2 * len(names) + 2.4, 4.6), layout="constrained", squeeze=False)
    for axes, name in zip(panels[0], names, strict=True):
        _panel(axes, record, name)
    panels[0][-1].legend(fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.suptitle(_title(record), fontsize=9)
    figure.savefig(path, dpi=130)
    pyplot.close(figure)
    return path


def _measured(record: dict[str, Any]) -> list[str]:
    import matplotlib

    matplotlib.use("Agg")
    return [name for name, (field, _, _) in _QUANTITIES.items() if any(row.get(field) for row in record["rows"])]


def _panel(axes: Any, record: dict[str, Any], name: str) -> None:
    from matplotlib import pyplot

    field, unit, label = _QUANTITIES[name]
    colours = [pyplot.get_cmap("tab20")(number) for number in range(20)]
    for number, contender in enumerate(dict.fromkeys(row["name"] for row in record["rows"])):
        rows = [row for row in record["rows"] if row["name"] == contender]
        points = [(row["length"], row[field] / unit) for row in rows if row.get(field)]
        if not points:
            continue
        lengths, values = zip(*points, strict=True)
        ours = contender.startswith(_OURS)
        (line,) = axes.plot(
            lengths, values, marker="o", markersize=4, label=contender, color=colours[number % 20],
            linewidth=2.4 if contender in _OURS else 1.2, linestyle="-" if ours else "--",
        )  # fmt: skip
        if any("stopped" in row for row in rows):
            axes.plot(lengths[-1], values[-1], marker="x", markersize=12, mew=2.5, color=line.get_color())
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    lengths_shown = sorted({row["length"] for row in record["rows"]})
    axes.set_xticks(lengths_shown, [str(length) for length in lengths_shown], fontsize=8)
    axes.set_xlabel("sequence length")
    axes.set_ylabel(label)
    axes.grid(alpha=0.3)


def _title(record: dict[str, Any]) -> str:
    setting = record["setting"]
    batch = "4,096 tokens per batch, at most 128 sentences" if setting["batch"] is None else f"batch {setting['batch']}"
    return f"width {setting['width']}, {setting['heads']} heads, {batch}; cross: memory or time budget exceeded"
