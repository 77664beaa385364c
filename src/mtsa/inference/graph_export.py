"""Export of a model as a graph from token ids to probabilities that runs without this package.

Notation: B batch, N tokens, C classes, T tags.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import io
import logging
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram

from mtsa.data.word_shapes import word_shape
from mtsa.errors import InputError
from mtsa.files import umask, write_json, write_text

if TYPE_CHECKING:
    from mtsa.tasks.encoded import EncodedData
    from mtsa.tasks.predictor import Predictor

_DEFERRED = "prefer_deferred_runtime_asserts_over_guards"
_MAX_SIZE = 100_000  # sentences of a batch, words of a sentence

_INT8 = " With --int8: use the quantized model.int8.onnx."
_ONNX = '''import onnxruntime

ARGUMENTS = [text for text in sys.argv[1:] if text != "--int8"]
SESSION = onnxruntime.InferenceSession(str(FOLDER / ("model.int8.onnx" if "--int8" in sys.argv else "model.onnx")))


def MODEL(*arrays):
    """Run the graph."""
    return SESSION.run(None, dict(zip(METADATA["inputs"], arrays)))'''

_TORCH = '''import torch

ARGUMENTS = sys.argv[1:]
GRAPH = torch.export.load(FOLDER / "model.pt2").module()


def MODEL(*arrays):
    """Run the graph."""
    return [out.detach().numpy() for out in GRAPH(*map(torch.from_numpy, arrays))]'''


Graph = Callable[..., Sequence[Any]]
"""An exported model: arrays in the order of its inputs -> arrays."""


@dataclass(frozen=True)
class ExportTarget:
    """An export format.

    Args:
        file: name of the file with the graph.
        save: writes a traced program to a path, with the names of its inputs and outputs.
        load: opens the file as a function of NumPy arrays, for the comparison with the model.
        code: Python code with which the script of the export loads the file.
        note: a sentence for the help text of the script.
    """

    file: str
    save: Callable[[ExportedProgram, Path, Sequence[str], Sequence[str]], None]
    load: Callable[[Path], Graph]
    code: str
    note: str = ""


def _save_onnx(program: ExportedProgram, path: Path, inputs: Sequence[str], outputs: Sequence[str]) -> None:
    with silence_exporters():
        made = torch.onnx.export(program, input_names=list(inputs), output_names=list(outputs) or None, dynamo=True)
    assert made is not None
    made.save(path)


def _load_onnx(path: Path) -> Graph:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [one.name for one in session.get_inputs()]
    return lambda *arrays: session.run(None, dict(zip(names, arrays, strict=True)))


def _save_torch(program: ExportedProgram, path: Path, inputs: Sequence[str], outputs: Sequence[str]) -> None:
    torch.export.save(program, path)


def _load_torch(path: Path) -> Graph:
    module = torch.export.load(path).module()
    return lambda *arrays: [out.numpy() for out in module(*map(torch.from_numpy, arrays))]


TARGETS: dict[str, ExportTarget] = {
    "onnx": ExportTarget("model.onnx", _save_onnx, _load_onnx, _ONNX, _INT8),
    "torch": ExportTarget("model.pt2", _save_torch, _load_torch, _TORCH),
}
"""The forms of `mtsa export --to` by name; to add one, add an entry."""


class ProbabilityModel(nn.Module):
    """The exported module: maps token ids to probabilities.

    Args:
        model: the model, in eval mode.
        inputs: the names of its arguments, in order.
        softmax: whether to apply softmax to the logits.
        sigmoid: whether to apply the sigmoid function to the logits.
    """

    def __init__(self, model: nn.Module, inputs: tuple[str, ...], softmax: bool, sigmoid: bool = False) -> None:
        super().__init__()
        self.model, self.inputs, self.softmax, self.sigmoid = model, inputs, softmax, sigmoid

    def forward(self, *given: Tensor) -> tuple[Tensor, ...]:
        out = self.model(**dict(zip(self.inputs, given, strict=True)))
        found = out.logits.softmax(-1) if self.softmax else out.logits.sigmoid() if self.sigmoid else out.logits
        predicates = out.get("predicate_logits")
        return (found,) if predicates is None else (found, predicates.sigmoid())


@dataclass(frozen=True)
class CheckTexts:
    """Texts for the comparison of a model with its export (`mtsa export --check`)."""

    data: EncodedData
    labels: list[Any]  # of each text, as the file has them; empty where it has none


@dataclass(frozen=True)
class ExportSpec:
    """Specification of an export."""

    model: Any
    inputs: tuple[str, ...]  # names of the model's arguments
    outputs: tuple[str, ...]
    metadata: dict[str, Any]  # read by run.py
    script: str  # template of that script
    max_length: int = 0  # tokens to which the exported tokenizer truncates; 0: none
    softmax: bool = True  # whether logits become probabilities of classes
    sigmoid: bool = False  # whether logits become probabilities of separate labels
    thresholds: tuple[float, ...] = ()  # the probability from which each of several labels is predicted
    read_texts: Callable[[str, int], CheckTexts] | None = None  # reads the first n texts of a file for `--check`; None: no

    @functools.cached_property
    def probability_model(self) -> ProbabilityModel:
        """The model from token ids to probabilities."""
        self.model.eval()
        return ProbabilityModel(self.model, self.inputs, self.softmax, self.sigmoid)

    @property
    def longest(self) -> int:
        """Maximum input length, that of the pretrained model; 0: no limit."""
        if getattr(self.model.config, "max_pieces", 0):
            return int(self.model.config.max_pieces)  # of a tagger
        pretrained = getattr(self.model.config, "pretrained", None)
        if pretrained is None or self.model.config.window:
            return 0
        from mtsa.models.pretrained import config_from_values, max_input_length

        return max_input_length(config_from_values(pretrained)) or 0


@contextlib.contextmanager
def atomic_directory(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder that is renamed to `folder` if the block succeeds, and deleted otherwise.

    Raises:
        InputError: the folder is not empty, or cannot be created.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder} already exists; choose another folder with --out")
    named, folder = folder, folder.resolve()
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=".partial", dir=folder.parent))
        partial.chmod(0o777 & ~umask())
    except OSError as error:
        raise InputError(f"{named}: {error.strerror}; choose another folder with --out") from None
    try:
        yield partial
        if folder.exists():
            folder.rmdir()
        partial.rename(folder)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def export_model(parts: ExportSpec, predictor: Predictor, form: str, folder: Path) -> None:
    """Write an export: the graph, the tokenizer, the labels, and a script that runs it.

    Args:
        parts: the specification.
        predictor: the loaded model.
        form: a name in `TARGETS`.
        folder: target folder.
    """
    target = TARGETS[form]
    target.save(trace(parts), folder / target.file, parts.probability_model.inputs, parts.outputs)
    tokenizer = Tokenizer.from_str(predictor.run.tokenizer.to_str())
    if parts.max_length:
        tokenizer.enable_truncation(parts.max_length)
    write_text(folder / "tokenizer.json", tokenizer.to_str())
    write_json(folder / "metadata.json", parts.metadata)
    script = resources.files("mtsa.inference").joinpath(f"exported/{parts.script}.txt").read_text(encoding="utf-8")
    script = script.replace("#MODEL#", target.code).replace("#INT8#", target.note)
    script = script.replace("#SHAPE#", inspect.getsource(word_shape))
    write_text(folder / "run.py", script)


@torch.no_grad()
def trace(parts: ExportSpec) -> ExportedProgram:
    """Return the graph with dynamic batch size and length."""
    batch = Dim("batch", min=1, max=_MAX_SIZE)
    most = min(_MAX_SIZE, parts.longest or _MAX_SIZE)
    tokens, pairs, words = (Dim(name, min=1, max=most) for name in ("length", "pair_length", "words"))
    names = parts.probability_model.inputs
    lengths = dict.fromkeys(names, tokens) | {"pair_ids": pairs, "pair_mask": pairs}
    if "word_of" in names:
        lengths |= dict.fromkeys(("word_mask", "shapes", "predicates"), words)
    given = _example_inputs(names)
    shapes = tuple({0: batch, 1: lengths[name]} for name in names)
    options: dict[str, Any] = {"dynamic_shapes": (shapes,)}
    long_texts = parts.model.encoder.long_texts
    if long_texts and _DEFERRED in inspect.signature(torch.export.export).parameters:  # not in older versions of torch
        options[_DEFERRED] = True  # the solver does not prove that the number of blocks is at most its square
    with silence_exporters():
        program = torch.export.export(parts.probability_model, tuple(given[name] for name in names), **options)
        return _without_assertions(program) if long_texts else program


def _without_assertions(program: ExportedProgram) -> ExportedProgram:
    """Remove the assertions on sizes, which are about strides that the tracer preferred and fail for a batch of one."""
    graph = program.graph_module.graph
    for node in list(graph.nodes):
        if node.target is torch.ops.aten._assert_scalar.default:
            graph.erase_node(node)
    graph.eliminate_dead_code()
    program.graph_module.recompile()
    return program


def _example_inputs(names: Sequence[str]) -> dict[str, Tensor]:
    """A batch of five tokens; of four words in the second text of a pair, or where words have several tokens."""
    ids = torch.tensor([[1, 2, 3, 1, 2], [3, 1, 0, 0, 0], [2, 3, 1, 1, 0]])
    real = ids.ne(0).long()
    words = real[:, :4].contiguous()
    like = words if "word_of" in names else real
    return {
        "input_ids": ids,
        "attention_mask": real,
        "pair_ids": ids[:, :4].contiguous(),
        "pair_mask": words,
        "token_type_ids": torch.tensor([[0, 0, 1, 1, 1], [0, 1, 0, 0, 0], [0, 0, 0, 1, 0]]),
        "word_of": torch.tensor([[0, 1, 2, 3, 4], [1, 0, 0, 0, 0], [1, 2, 3, 0, 0]]),
        "word_mask": words,
        "shapes": like,
        "predicates": torch.zeros_like(like).index_fill_(1, torch.tensor(0), 1),
    }


@contextlib.contextmanager
def silence_exporters() -> Iterator[None]:
    """Suppress log messages, warnings and output of the exporters."""
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


def quantize(folder: Path) -> Path:
    """Quantize the linear layers of an ONNX export to 8 bits and write `model.int8.onnx`."""
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    path = folder / "model.int8.onnx"
    graph = onnx.load(folder / TARGETS["onnx"].file)
    del graph.graph.value_info[:]  # shapes that the quantizer transposes weights against
    root = logging.getLogger()
    level = root.level
    root.setLevel(logging.ERROR)  # it recommends steps that have no effect here
    try:
        with silence_exporters():
            quantize_dynamic(graph, path, weight_type=QuantType.QInt8, op_types_to_quantize=["MatMul", "Gemm"])
    finally:
        root.setLevel(level)
    return path
