"""`mtsa export`: a model that runs without this package."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .console import exit_on_error, fail


def export(
    run: Annotated[Path, typer.Argument(help="Run directory of a trained model.")],
    out: Annotated[Path, typer.Option(help="Output folder; must not exist.")],
    to: Annotated[str, typer.Option(help="Export format: onnx or torch (torch.export).")] = "onnx",
    check: Annotated[str | None, typer.Option(help="Texts and pairs: data file to compare predictions and speed on.")] = None,
    max_texts: Annotated[int, typer.Option(min=1, help="With --check: maximum number of texts.")] = 1000,
    int8: Annotated[bool, typer.Option("--int8", help="ONNX: also write a model with int8-quantized linear layers.")] = False,
) -> None:
    """Export a model as a graph from token ids to probabilities, with its tokenizer, a script and a parity report."""
    from mtsa.files import write_json
    from mtsa.inference import export_parity
    from mtsa.inference.auto import open_predictor
    from mtsa.inference.graph_export import TARGETS, atomic_directory, quantize
    from mtsa.inference.graph_export import export_model as write
    from mtsa.messages import nearest

    if to not in TARGETS:
        fail(f'unknown export format --to "{to}"; {nearest(to, TARGETS)}')
    if int8 and to != "onnx":
        fail("--int8 requires --to onnx")
    if to == "onnx":
        try:
            import onnxruntime  # noqa: F401
            import onnxscript  # noqa: F401
        except ImportError:
            fail("ONNX export requires packages that are not installed; install them with: pip install 'mtsa[export]'")
    with exit_on_error():
        predictor = open_predictor(run)
        parts = predictor.export_spec()
        texts = None
        if check is not None:
            if parts.read_texts is None:
                fail(f"--check does not apply to task {predictor.task}; remove it")
            texts = parts.read_texts(check, max_texts)
        with atomic_directory(out) as folder:
            write(parts, predictor, to, folder)
            report = export_parity.report_header(predictor, to)

            def compare(file: str, lengths: str, answers: str) -> None:
                graph = export_parity.open_graph(folder, to, file)
                report[lengths] = export_parity.compare_by_length(
                    parts, graph, predictor.run.tokenizer.get_vocab_size(), parts.longest
                )
                if texts is not None and check is not None:
                    report[answers] = export_parity.compare_on_texts(parts, graph, texts, predictor.labels, check)

            compare(TARGETS[to].file, "lengths", "texts")
            report["opposed gaps"] = export_parity.check_underflow(to)
            if int8:
                small = quantize(folder)
                report["bytes"] = {path.name: path.stat().st_size for path in (folder / TARGETS[to].file, small)}
                compare(small.name, "int8 lengths", "int8")
            write_json(folder / "parity.json", report)
    for line in export_parity.report_lines(report):
        typer.echo(line)
    worst = max(report["opposed gaps"]["export"], *(row["apart"] for row in report["lengths"]))
    if not worst <= export_parity.TOLERANCE:
        typer.echo(f"the outputs of the export differ from the model by up to {worst:.1e}; do not use it", err=True)
        raise typer.Exit(1)
    typer.echo(f"written: {out} (python {out / 'run.py'} ...)")
