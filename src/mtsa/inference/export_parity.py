"""Comparison of an exported model with the original: random inputs of several lengths, underflow, and real texts with timing.

Notation: B batch, N tokens.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.export import Dim

from mtsa.data.batching import sorted_batches
from mtsa.data.examples import label_names
from mtsa.data.word_shapes import SHAPES
from mtsa.machine import environment_info
from mtsa.nn.functional import tensorized_attention
from mtsa.tasks.predictor import Predictor

from .graph_export import TARGETS, CheckTexts, ExportSpec, Graph, silence_exporters

LENGTHS = (1, 31, 32, 33, 200, 512)
TOLERANCE = 1e-4  # of two probabilities
_GAPS = 9  # words of the case with opposed gaps


def open_graph(folder: Path, form: str, file: str | None = None) -> Graph:
    """Load an exported graph."""
    return TARGETS[form].load(folder / (file or TARGETS[form].file))


def compare_by_length(parts: ExportSpec, graph: Graph, words: int, longest: int = 0) -> list[dict[str, Any]]:
    """Return the largest difference at each length, in batches of one sentence and with shorter ones.

    Args:
        parts: the model.
        graph: its export.
        words: size of the vocabulary from which inputs are drawn.
        longest: maximum input length of the model; 0: no limit.
    """
    rows = []
    generator = torch.Generator().manual_seed(0)
    for length in LENGTHS:
        if longest and length > longest:
            continue
        apart = 0.0
        for batch in (1, 3):
            ids = torch.randint(1, words, (batch, length), generator=generator)
            real = torch.ones_like(ids)
            real[1:, max(1, length // 2) :] = 0
            ids = ids * real
            pieces = "word_of" in parts.inputs
            words_real = real[:, ::2].contiguous() if pieces else real  # words of two tokens
            flags = torch.zeros_like(words_real).index_fill_(1, torch.tensor(words_real.shape[1] // 2), 1)
            given = {
                "input_ids": ids,
                "attention_mask": real,
                "word_of": real * (torch.arange(length) // 2 + 1),
                "word_mask": words_real,
                "shapes": words_real * (ids[:, : words_real.shape[1]] % (SHAPES - 1) + 1),
                "predicates": flags,
                "token_type_ids": (torch.arange(length) > length // 3).long().expand_as(ids).contiguous(),
                "pair_ids": ids.flip(0),
                "pair_mask": real.flip(0),
            }
            arrays = [given[name] for name in parts.probability_model.inputs]
            apart = max(apart, _max_difference(parts.probability_model, graph, arrays, words_real))
        rows.append({"length": length, "apart": apart})
    return rows


@torch.no_grad()
def _max_difference(whole: nn.Module, graph: Graph, arrays: Sequence[Tensor], real: Tensor) -> float:
    largest = 0.0
    for place, (one, other) in enumerate(zip(whole(*arrays), graph(*(array.numpy() for array in arrays)), strict=True)):
        found = torch.from_numpy(np.asarray(other))
        if one.dim() == 3 or place:  # tags of words, and predicates
            one, found = one[real.bool()], found[real.bool()]  # outputs at padded positions are arbitrary
        apart = float((one - found).abs().max())
        largest = math.inf if math.isnan(apart) else max(largest, apart)
    return largest


class _Attention(nn.Module):
    def forward(self, q: Tensor, k: Tensor, v: Tensor, s: Tensor) -> Tensor:
        out: Tensor = tensorized_attention(q, k, v, s, masks="full, forward", scale=1.0)
        return out


@torch.no_grad()
def check_underflow(form: str) -> dict[str, float]:
    """Check an exported attention layer on inputs where every product of the two factors underflows.

    One key has a source score of 120 and a token score of -240, the others 0 and 0. The values are the largest differences
    from the definition in double precision, of the export and of this package.
    """
    generator = torch.Generator().manual_seed(0)
    q, k, s = torch.ones(1, 2, _GAPS, 1), torch.zeros(1, 2, _GAPS, 1), torch.zeros(1, 2, _GAPS, 5)
    v = torch.randn(1, 2, _GAPS, 5, generator=generator)
    k[:, :, 0], s[:, :, 0] = -240.0, 120.0
    inputs = (q, k, v, s)
    length = Dim("length", min=1, max=4096)
    with silence_exporters():
        program = torch.export.export(_Attention(), inputs, dynamic_shapes=({2: length},) * 4)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / TARGETS[form].file
        TARGETS[form].save(program, path, ("q", "k", "v", "s"), ())
        graph = open_graph(Path(folder), form)
        found = torch.from_numpy(np.asarray(graph(*(one.numpy() for one in inputs))[0])).double()
    wanted = tensorized_attention(*(one.double() for one in inputs), masks="full, forward", scale=1.0, backend="reference")
    own = tensorized_attention(*inputs, masks="full, forward", scale=1.0).double()
    return {"export": float((found - wanted).abs().max()), "package": float((own - wanted).abs().max())}


def compare_on_texts(parts: ExportSpec, graph: Graph, texts: CheckTexts, names: Sequence[str], data: str) -> dict[str, Any]:
    """Compare the model and the export on texts: labels, differences and time, in batches and one text at a time.

    Args:
        parts: the exported model.
        graph: its export.
        texts: the texts, with labels if available.
        names: class names; empty for regression models.
        data: name of the data file.
    """
    count = len(texts.data)
    report: dict[str, Any] = {"data": Path(data).name, "texts": count}
    eager = lambda *arrays: [out.numpy() for out in parts.probability_model(*map(torch.from_numpy, arrays))]  # noqa: E731
    answers: dict[str, np.ndarray[Any, Any]] = {}
    for way, tokens, limit in (("batches", 4096, 64), ("one at a time", 0, 1)):
        batches = list(sorted_batches(texts.data.lengths, tokens=tokens or 10**9, most=limit))
        fed = [_graph_inputs(parts, texts, batch) for batch in batches]
        seconds = {"model": math.inf, "export": math.inf}
        for _ in range(3):
            for name, call in (("model", eager), ("export", graph)):
                answers[name], spent = _timed(call, fed, batches, count)
                seconds[name] = min(seconds[name], spent)
        report[way] = {**seconds, "ratio": seconds["model"] / seconds["export"]}
    report["apart"] = float(np.abs(answers["model"] - answers["export"]).max())
    if names:
        decided = {name: _decisions(found, parts.thresholds) for name, found in answers.items()}
        report["same labels"] = int((decided["model"] == decided["export"]).all(1).sum())
        known = [label_names(label) for label in texts.labels]
        if known and {label for labels in known for label in labels} <= set(names):
            correct = np.array([[name in labels for name in names] for labels in known])
            report["accuracy"] = {name: float((found == correct).all(1).mean()) for name, found in decided.items()}
    return report


def _decisions(probabilities: np.ndarray[Any, Any], thresholds: Sequence[float]) -> np.ndarray[Any, Any]:
    """True for the predicted label of each text, or with thresholds for all predicted labels, [n, C]."""
    places = np.arange(probabilities.shape[1])
    chosen: np.ndarray[Any, Any] = places == probabilities.argmax(1)[:, None]
    if thresholds:
        chosen = probabilities >= np.array(thresholds, dtype=probabilities.dtype)
    return chosen


def _graph_inputs(parts: ExportSpec, texts: CheckTexts, batch: Sequence[int]) -> list[Any]:
    inputs = texts.data.collate(batch)
    return [inputs[name].numpy() for name in parts.inputs]


@torch.inference_mode()
def _timed(call: Graph, fed: Sequence[Any], batches: Sequence[Sequence[int]], count: int) -> tuple[Any, float]:
    begun = time.perf_counter()
    found = [np.asarray(call(*arrays)[0]) for arrays in fed]
    spent = time.perf_counter() - begun
    answers = np.zeros((count, found[0].shape[1]), dtype=np.float32)
    for batch, part in zip(batches, found, strict=True):
        answers[list(batch)] = part
    return answers, spent


def report_header(predictor: Predictor, form: str) -> dict[str, Any]:
    """Return model, versions and machine of the report."""
    recipe = predictor.run.recipe
    return {**environment_info(), "kind": "export", "form": form, "task": recipe.task, "encoder": dict(recipe.encoder)}


def report_lines(report: dict[str, Any]) -> list[str]:
    """Return the report as text."""
    lines = ["length  largest difference"]
    lines += [f"{row['length']:6}  {row['apart']:.1e}" for row in report["lengths"]]
    gaps = report["opposed gaps"]
    lines.append(
        f"attention layer with underflowing factors: {gaps['export']:.1e} from the definition (mtsa: {gaps['package']:.1e})"
    )
    for name in ("texts", "int8"):
        if name in report:
            lines += _text_lines(report[name], "" if name == "texts" else "int8: ")
    if "int8 lengths" in report:
        lines.append(f"int8: largest difference {max(row['apart'] for row in report['int8 lengths']):.1e}")
    if "bytes" in report:
        lines.append(", ".join(f"{name}: {size / 1e6:.1f} MB" for name, size in report["bytes"].items()))
    return lines


def _text_lines(found: dict[str, Any], before: str) -> list[str]:
    told = []
    if "same labels" in found:
        told.append(
            f"{before}{found['same labels']:,} of {found['texts']:,} predicted labels "
            "agree; largest difference in probability "
            f"{found['apart']:.1e}"
        )
    if "accuracy" in found:
        told.append(f"{before}accuracy {found['accuracy']['export']:.4f} (model: {found['accuracy']['model']:.4f})")
    for way in ("batches", "one at a time"):
        one = found[way]
        told.append(
            f"{before}{way}: {one['ratio']:.2f} x as fast as the model (export "
            f"{one['export']:.2f} s, model {one['model']:.2f} s)"
        )
    return told
