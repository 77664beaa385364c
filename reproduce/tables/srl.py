"""Semantic role labelling (the paper's Table 4)."""

from dataclasses import replace
from typing import Any

from reproduce.dataset import DataSet
from reproduce.table import SEARCH, Column, Model, Table, View, by_name

_EWT = {part: f"propbank_ewt.{part}.conll.gz" for part in ("train", "dev", "test")}
_CONLL = {"train": "conll05.train.props", "dev": "conll05.devel.props", "test": "conll05.test.wsj.props"}
DATASETS = by_name(
    [
        DataSet("ewt", "EWT", "srl.cpu", {**_EWT, "format": "propbank"}, seeds=2),
        DataSet("conll05", "CoNLL-05", "srl.cpu", {**_CONLL, "tests": ("conll05.brown.props",), "format": "props"}),
    ]
)
"""`ewt` is PropBank on the English Web Treebank; `conll05` are the licensed files of CoNLL-2005, with .words beside them."""
_MASKS = {"encoder.scale": 1.0, "encoder.masks": '"forward(self)*4, backward(self)*4"'}
_LONG = {"training.epochs": 36, "training.precision": "bfloat16"}
_LONGER = "36 epochs in bfloat16, settings of the recipe without a search, one seed"
_ONE = {"ewt": 1, "conll05": 0}
_MINILM: dict[str, Any] = {"recipe": "srl.minilm.cpu", "runs": _ONE, "searched": False}
_OVER_MINILM = "3 epochs, settings of the recipe `srl.minilm.cpu` without a search, one seed"
MODELS = by_name(
    [
        Model("bilstm", "a bidirectional LSTM of 100 + 100 in each layer", "stacked_bilstm", paper="Bi-LSTM"),
        Model("multi_cnn", "convolutions of 3, 4 and 5 words, 67 channels each", "stacked_multi_cnn", paper="Multi-CNN"),
        Model(
            "multihead",
            "8 heads in each layer; sinusoidal positions; input embeddings not multiplied by sqrt(d), unlike in Tan et al.",
            "stacked_multihead",
            {"encoder.scale": 1.0},
            paper="Multi-head",
        ),
        Model(
            "multihead-masks",
            "8 heads in each layer, 4 forward and 4 backward, including the token itself; no sinusoidal positions",
            "stacked_multihead",
            _MASKS,
        ),
        Model("mtsa", "4 forward and 4 backward heads in each layer, no sinusoidal positions", "stacked_mtsa", paper="MTSA"),
        Model("mtsa-long", f"as `mtsa`; {_LONGER}", "stacked_mtsa", _LONG, runs=_ONE, searched=False),
        Model(
            "multihead-masks-long",
            f"as `multihead-masks`; {_LONGER}",
            "stacked_multihead",
            {**_MASKS, **_LONG},
            runs=_ONE,
            searched=False,
        ),
        Model("minilm-mtsa", f"MTSA in 2 layers over fine-tuned MiniLM; {_OVER_MINILM}", "stacked_mtsa", **_MINILM),
        Model(
            "minilm-multihead",
            f"8 heads in 2 layers, sinusoidal positions, over fine-tuned MiniLM; {_OVER_MINILM}",
            "stacked_multihead",
            {"encoder.scale": 1.0},
            **_MINILM,
        ),
    ]
)
PAPER: dict[
    str, tuple[str, ...]
] = {  # Table 4: F1 of dev; precision, recall, F1 and complete frames of the WSJ test; F1 of the Brown test
    "bilstm": ("82.6", "83.0", "84.0", "83.5", "64.6", "72.5"),
    "multi_cnn": ("77.3", "77.3", "80.9", "79.0", "55.5", "69.3"),
    "multihead": ("83.1", "84.5", "85.2", "84.8", "66.4", "74.1"),
    "mtsa": ("83.6", "84.2", "85.3", "84.8", "67.0", "74.5"),
}
NOTES = """\
- **Scores**: percent, by the rules of the official CoNLL-2005 evaluation, with given predicates; *complete*:
  propositions with all arguments correct; *verbs*: verbal predicates only; *predicates*: F1 of the predicate finder on
  the dev sentences. The best epoch is selected on the dev set. Each record has the dev curve and one evaluation of each
  test set.
- **Data**: `ewt` is PropBank on the English Web Treebank (12,518 training sentences, with nominal and adjectival
  predicates) instead of the licensed news text of CoNLL-2005; the paper's values cannot be compared.
- **Model**: 4 layers instead of 10; Viterbi decoding (paper: the best tag of each word); word vectors of 100 dimensions
  (paper: 200; its code: 100); attention dropout 0.1 (paper: 0.19), dropout inside the feed-forward layers 0.2 (paper:
  0.1). MTSA has log-sigmoid token2token scores and two source2token layers (authors' tagger: exponential and one). The
  paper does not specify its Bi-LSTM and Multi-CNN models; here they replace the attention in each layer.
- **Training**: 12 epochs (36 where stated) of AdamW with batches of 2,048 words instead of 600,000 steps of Adadelta
  with 4,096.
- **MiniLM**: the vector of a word is that of its first word piece; the predicate embedding is concatenated to it.
- **Search**: the same for all models (`reproduce/PROTOCOL.md`), except for models with 36 epochs or MiniLM (no search).
"""


def _view(dataset: DataSet) -> View:
    name = dataset.name
    test, brown = "test", "conll05.brown"
    columns = [
        Column("dev F1", name, "dev", "f1"),
        Column("test P", name, test, "precision"),
        Column("test R", name, test, "recall"),
        Column("test F1", name, test, "f1"),
        Column("complete", name, test, "complete"),
    ]
    ours = [Column("verbs F1", name, test, "verbs.f1"), Column("predicates F1", name, "dev", "predicates.f1")]
    if name == "conll05":
        columns.append(Column("Brown F1", name, brown, "f1"))
    paper = {model: (*cells[: len(columns)], "", "") for model, cells in PAPER.items()}
    data = "CoNLL-2005" if name != "conll05" else ""
    return View(f"Semantic roles on {dataset.title}", (*columns, *ours), tuple(MODELS), paper, paper_data=data)


SRL = Table(
    name="srl",
    title="Semantic role labelling",
    datasets=DATASETS,
    models=MODELS,
    views=tuple(map(_view, DATASETS.values())),
    notes=NOTES,
    deviation="other data (EWT instead of CoNLL-2005), 4 layers instead of 10, training takes hours instead of days",
    search=replace(SEARCH, screened=1 / 6),
)
