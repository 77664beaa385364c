"""A model as one graph, from word numbers to probabilities, that runs without this package.

Letters: B batch, N tokens, C classes, T tags.
"""

from __future__ import annotations

import contextlib
import io
import logging
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from mtsa.data.source import InputError
from mtsa.files import umask, write_json, write_text
from mtsa.models.pair import MtsaForSequencePairClassification
from mtsa.models.tagger import MtsaForTokenClassification

from .opening import AnyPredictor
from .predictor import Predictor
from .translating import Translator

FORMS = ("onnx", "torch")
FILES = {"onnx": "model.onnx", "torch": "model.pt2"}
_MOST = 100_000  # sentences of a batch, words of a sentence

_INT8 = " With --int8: in 8 bits, where model.int8.onnx is there."
_ONNX = '''import onnxruntime

GIVEN = [text for text in sys.argv[1:] if text != "--int8"]
SESSION = onnxruntime.InferenceSession(str(HERE / ("model.int8.onnx" if "--int8" in sys.argv else "model.onnx")))


def MODEL(*arrays):
    """The graph itself."""
    return SESSION.run(None, dict(zip(ABOUT["inputs"], arrays)))'''

_TORCH = '''import torch

GIVEN = sys.argv[1:]
GRAPH = torch.export.load(HERE / "model.pt2").module()


def MODEL(*arrays):
    """The graph itself."""
    return [out.detach().numpy() for out in GRAPH(*map(torch.from_numpy, arrays))]'''


class Whole(nn.Module):
    """A model from word numbers to probabilities: the form that is exported.

    Args:
        model: a classifier, a pair model or a tagger, in eval mode.
        inputs: the names by which it takes what it is given, in order.
    """

    def __init__(self, model: nn.Module, inputs: tuple[str, ...]) -> None:
        super().__init__()
        self.model, self.inputs = model, inputs

    def forward(self, *given: Tensor) -> tuple[Tensor, ...]:
        out = self.model(**dict(zip(self.inputs, given, strict=True)))
        scores = out.logits
        found = scores if scores.shape[-1] == 1 and scores.dim() == 2 else scores.softmax(-1)  # regression gives its number
        predicates = getattr(out, "found", None)
        return (found,) if predicates is None else (found, predicates.sigmoid())


@dataclass(frozen=True)
class Parts:
    """What an export is made of."""

    whole: Whole
    outputs: tuple[str, ...]
    about: dict[str, Any]  # what the script beside the graph reads
    script: str


def parts_of(predictor: AnyPredictor) -> Parts:
    """What is exported of a run.

    Raises:
        InputError: a translator, which is a loop and no graph.
    """
    if isinstance(predictor, Translator):
        raise InputError("a translator cannot be exported as one graph; classifiers, pair models and taggers can")
    model: Any = predictor.model
    model.eval()
    recipe = predictor.run.recipe
    about: dict[str, Any] = {"task": recipe.task, "labels": predictor.run.labels}
    if isinstance(predictor, Predictor):
        inputs: tuple[str, ...] = ("input_ids", "attention_mask")
        if isinstance(model, MtsaForSequencePairClassification):
            inputs += ("pair_ids", "pair_mask")
        about |= {"paired": recipe.paired, "inputs": list(inputs)}
        return Parts(Whole(model, inputs), ("probabilities" if about["labels"] else "numbers",), about, "sentences.py")
    assert isinstance(model, MtsaForTokenClassification)
    inputs = ("input_ids", "attention_mask", *(["predicates"] if recipe.roles else []))
    first, after = model.decoder.allowed()
    about |= {"roles": recipe.roles, "inputs": list(inputs), "first": first, "after": after}
    outputs = ("probabilities", *(["predicate_probabilities"] if model.finder is not None else []))
    return Parts(Whole(model, inputs), outputs, about, "tags.py")


@contextlib.contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """A folder beside `folder` to write to; it takes its name when the block ends without an error, and is gone otherwise.

    Raises:
        InputError: a folder that is there and not empty, or cannot be made.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} is there already; name another with --out")
    named, folder = folder, folder.resolve()
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=".partial", dir=folder.parent))
        partial.chmod(0o777 & ~umask())
    except OSError as error:
        raise InputError(f"{named}: {error.strerror}; name another folder with --out") from None
    try:
        yield partial
        if folder.exists():
            folder.rmdir()
        partial.rename(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def export(parts: Parts, predictor: AnyPredictor, form: str, folder: Path) -> None:
    """Write an export: the graph, the tokeniser, what the labels are called, and a script that runs it.

    Args:
        parts: what is exported.
        predictor: the opened run it is of.
        form: onnx or torch.
        folder: where to.
    """
    program = traced(parts)
    if form == "onnx":
        with silence():
            made = torch.onnx.export(
                program, input_names=list(parts.whole.inputs), output_names=list(parts.outputs), dynamo=True
            )
            assert made is not None
            made.save(folder / FILES[form])
    else:
        torch.export.save(program, folder / FILES[form])
    tokenizer = Tokenizer.from_str(predictor.run.tokenizer.to_str())
    if parts.script == "sentences.py" and predictor.run.recipe.tokens.longest:
        tokenizer.enable_truncation(predictor.run.recipe.tokens.longest)
    write_text(folder / "tokenizer.json", tokenizer.to_str())
    write_json(folder / "about.json", parts.about)
    script = resources.files("mtsa.inference").joinpath(f"exported/{parts.script}.txt").read_text(encoding="utf-8")
    script = script.replace("#MODEL#", _ONNX if form == "onnx" else _TORCH).replace("#INT8#", _INT8 if form == "onnx" else "")
    write_text(folder / "run.py", script)


@torch.no_grad()
def traced(parts: Parts) -> ExportedProgram:
    """The graph, for every batch size and length."""
    batch = Dim("batch", min=1, max=_MOST)
    lengths = {"input_ids": Dim("length", min=1, max=_MOST), "pair_ids": Dim("pair_length", min=1, max=_MOST)}
    ids = torch.tensor([[1, 2, 3, 1, 2], [3, 1, 0, 0, 0], [2, 3, 1, 1, 0]])
    real = ids.ne(0).long()
    given = {"input_ids": ids, "attention_mask": real, "predicates": torch.zeros_like(ids).index_fill_(1, torch.tensor(0), 1)}
    given |= {"pair_ids": ids[:, :4].contiguous(), "pair_mask": real[:, :4].contiguous()}
    names = parts.whole.inputs
    shapes = tuple({0: batch, 1: lengths["pair_ids" if name.startswith("pair") else "input_ids"]} for name in names)
    with silence():
        return torch.export.export(parts.whole, tuple(given[name] for name in names), dynamic_shapes=(shapes,))


@contextlib.contextmanager
def silence() -> Iterator[None]:
    """The exporters say what they do, to whoever listens; what matters they raise."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnxscript", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        try:
            yield
        finally:
            for logger, level in zip(loggers, levels, strict=True):
                logger.setLevel(level)


def quantized(folder: Path) -> Path:
    """Write the linear layers of an ONNX export in 8 bits, beside it: `model.int8.onnx`."""
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    path = folder / "model.int8.onnx"
    graph = onnx.load(folder / FILES["onnx"])
    del graph.graph.value_info[:]  # shapes that the quantizer transposes weights against
    root = logging.getLogger()
    level = root.level
    root.setLevel(logging.ERROR)  # it advises steps that change nothing here
    try:
        with silence():
            quantize_dynamic(graph, path, weight_type=QuantType.QInt8, op_types_to_quantize=["MatMul", "Gemm"])
    finally:
        root.setLevel(level)
    return path
