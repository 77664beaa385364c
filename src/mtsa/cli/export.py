"""`mtsa export`: a model that runs without this package."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from .console import fail, refusing


def export(
    run: Annotated[Path, typer.Argument(help="Folder of a finished run.")],
    out: Annotated[Path, typer.Option(help="Folder to write; it must not be there.")],
    to: Annotated[str, typer.Option(help="onnx or torch.")] = "onnx",
    check: Annotated[str | None, typer.Option(help="Texts to compare answers and speed on; of sentence models.")] = None,
    most: Annotated[int, typer.Option(min=1, help="How many of them.")] = 1000,
    int8: Annotated[bool, typer.Option("--int8", help="With onnx: write the linear layers in 8 bits too.")] = False,
) -> None:
    """Write a model as one graph, from word numbers to probabilities, with its tokeniser, a script, and a report."""
    from mtsa.files import write_json
    from mtsa.inference import export_parity
    from mtsa.inference.auto import open_predictor
    from mtsa.inference.graph_export import FILES, FORMS, quantized, whole_folder
    from mtsa.inference.graph_export import export as write
    from mtsa.messages import nearest

    if to not in FORMS:
        fail(f'--to "{to}" is unknown; {nearest(to, FORMS)}')
    if int8 and to != "onnx":
        fail("--int8 goes with --to onnx")
    if to == "onnx":
        try:
            import onnxruntime  # noqa: F401
            import onnxscript  # noqa: F401
        except ImportError:
            fail("onnx needs packages that are not installed; install them with: pip install 'mtsa[export]'")
    with refusing():
        predictor = open_predictor(run)
        parts = predictor.export_spec()
        texts = None
        if check is not None:
            if parts.read_texts is None:
                fail(f"--check does not apply to models for {predictor.task}; remove it")
            texts = parts.read_texts(check, most)
        with whole_folder(out) as folder:
            write(parts, predictor, to, folder)
            report = export_parity.report_head(predictor, to)

            def compare(file: str, lengths: str, answers: str) -> None:
                graph = export_parity.open_graph(folder, to, file)
                report[lengths] = export_parity.by_length(
                    parts, graph, predictor.run.tokenizer.get_vocab_size(), _longest(predictor)
                )
                if texts is not None and check is not None:
                    report[answers] = export_parity.on_texts(parts, graph, texts, predictor.labels, check)

            compare(FILES[to], "lengths", "texts")
            report["opposed gaps"] = export_parity.opposed_gaps(to, folder)
            if int8:
                small = quantized(folder)
                report["bytes"] = {path.name: path.stat().st_size for path in (folder / FILES[to], small)}
                compare(small.name, "int8 lengths", "int8")
            write_json(folder / "parity.json", report)
    for line in export_parity.lines(report):
        typer.echo(line)
    worst = max(report["opposed gaps"]["export"], *(row["apart"] for row in report["lengths"]))
    if not worst <= export_parity.MOST_APART:
        typer.echo(f"the export differs from the model by {worst:.1e}; do not use it", err=True)
        raise typer.Exit(1)
    typer.echo(f"written: {out} (python {out / 'run.py'} ...)")


def _longest(predictor: Any) -> int:
    pretrained = getattr(predictor.model.config, "pretrained", None)
    if pretrained is None:
        return 0
    from mtsa.models.pretrained import longest_text, plain_config

    return longest_text(plain_config(pretrained)) or 0
