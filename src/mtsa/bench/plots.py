"""The two plots of the paper's Figure 1: memory and time against length."""

from __future__ import annotations

from pathlib import Path
from typing import Any

_QUANTITIES = {
    "memory": ("step_bytes", 1024.0**2, "peak additional memory of a training step (MiB)"),
    "time": ("step_seconds", 1e-3, "training step (ms)"),
}


def draw(record: dict[str, Any], folder: Path) -> list[Path]:
    """Write time.png, and memory.png if memory was measured; a cross marks where a layer was skipped."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    paths = []
    colours = [pyplot.get_cmap("tab20")(number) for number in range(20)]
    setting = record["setting"]
    for name, (field, unit, label) in _QUANTITIES.items():
        if not any(row.get(field) for row in record["rows"]):
            continue  # memory was not measured
        figure, axes = pyplot.subplots(figsize=(9.5, 5.2), layout="constrained")
        for number, contender in enumerate(dict.fromkeys(row["name"] for row in record["rows"])):
            rows = [row for row in record["rows"] if row["name"] == contender]
            points = [(row["length"], row[field] / unit) for row in rows if row.get(field)]
            if not points:
                continue
            lengths, values = zip(*points, strict=True)
            ours = contender.startswith(("paper", "released", "encoder:mtsa"))
            (line,) = axes.plot(
                lengths, values, marker="o", markersize=4, label=contender, color=colours[number % 20],
                linewidth=2.4 if contender in ("paper", "released", "encoder:mtsa") else 1.2, linestyle="-" if ours else "--",
            )  # fmt: skip
            if any("stopped" in row for row in rows):
                axes.plot(lengths[-1], values[-1], marker="x", markersize=12, mew=2.5, color=line.get_color())
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        lengths_shown = sorted({row["length"] for row in record["rows"]})
        axes.set_xticks(lengths_shown, [str(length) for length in lengths_shown])
        axes.set_xlabel("sequence length")
        axes.set_ylabel(label)
        batch = "batch 64" if setting["batch"] == 64 else "4,096 tokens per batch, at most 128 sentences"
        shape = f"width {setting['width']}, {setting['heads']} heads, {batch}"
        axes.set_title(f"{shape}; cross: memory or time budget exceeded", fontsize=9)
        axes.grid(alpha=0.3)
        axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
        path = folder / f"{name}.png"
        figure.savefig(path, dpi=130)
        pyplot.close(figure)
        paths.append(path)
    return paths
