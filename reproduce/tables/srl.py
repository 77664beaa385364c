"""Semantic role labelling (the paper's Table 4)."""

from dataclasses import replace

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
MODELS = by_name(
    [
        Model("bilstm", "a bidirectional LSTM of 100 + 100 in each layer", "stacked_bilstm", paper="Bi-LSTM"),
        Model("multi_cnn", "convolutions of 3, 4 and 5 words, 67 channels each", "stacked_multi_cnn", paper="Multi-CNN"),
        Model(
            "multihead",
            "8 heads in each layer and a timing signal at the input, which is not scaled up before it (Tan et al. do so)",
            "stacked_multihead",
            {"encoder.scale": 1.0},
            paper="Multi-head",
        ),
        Model(
            "multihead-masks",
            "8 heads in each layer, 4 of them forward and 4 backward, each with the token itself; no timing signal",
            "stacked_multihead",
            _MASKS,
        ),
        Model("mtsa", "4 forward and 4 backward heads in each layer, no timing signal", "stacked_mtsa", paper="MTSA"),
        Model("mtsa-long", f"as `mtsa`; {_LONGER}", "stacked_mtsa", _LONG, runs=_ONE, searched=False),
        Model(
            "multihead-masks-long",
            f"as `multihead-masks`; {_LONGER}",
            "stacked_multihead",
            {**_MASKS, **_LONG},
            runs=_ONE,
            searched=False,
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
Percent, by the rules of the official CoNLL-2005 evaluation, with the predicates given; *verbs*: predicates whose part
of speech is a verb's; *predicates*: F1 of the predicate finder on the dev sentences. Each record has the dev curve
and one evaluation of each test part; the best epoch is chosen on the dev part. The paper's values are those of
CoNLL-2005.

Differences from the paper: other data (`ewt`: PropBank on the English Web Treebank, 12,518 training sentences, with
predicates that are nouns and adjectives, instead of the licensed news text of CoNLL-2005), so that values cannot be
compared; 4 layers instead of 10; 12 epochs of AdamW with batches of 2,048 words instead of
600,000 steps of Adadelta with 4,096; attention dropout 0.1 (0.19), dropout inside the feed-forward part 0.2 (0.1);
tags by Viterbi (the best of each word); word vectors of 100 dimensions (the paper says 200, its code 100). The paper
does not say what its Bi-LSTM and Multi-CNN rows are; here they take the place of the attention in each layer. `mtsa`
has log-sigmoid pair scores and two source2token layers (the authors' tagger: exp and one). Every model has the same
search (reproduce/PROTOCOL.md).
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
    return View(f"Roles of {dataset.title}", (*columns, *ours), tuple(MODELS), paper)


SRL = Table(
    name="srl",
    title="Semantic role labelling",
    datasets=DATASETS,
    models=MODELS,
    views=tuple(map(_view, DATASETS.values())),
    notes=NOTES,
    deviation="other data (EWT instead of CoNLL-2005), 4 layers instead of 10, a training of hours instead of days",
    search=replace(SEARCH, screened=1 / 6),
)
