"""Sentence classification (the paper's Table 5)."""

from reproduce.dataset import DataSet
from reproduce.table import SEARCH, Column, Model, Table, View, by_name

_SST = {"train": "train.txt", "dev": "dev.txt", "test": "test.txt"}
DATASETS = by_name(
    [
        DataSet("cr", "CR", "cr.cpu", {"train": "cr.all"}, folds=10, screenings=2, fetch="cr"),
        DataSet("mpqa", "MPQA", "mpqa.cpu", {"train": "mpqa.all"}, folds=10, screenings=2, fetch="mpqa"),
        DataSet("subj", "SUBJ", "subj.cpu", {"train": "subj.all"}, folds=10, screenings=2, fetch="subj"),
        DataSet("trec", "TREC", "trec.cpu", {"train": "trec.train", "test": "trec.test"}, seeds=5, fetch="trec"),
        DataSet("sst5", "SST-5", "sst5.cpu", _SST, seeds=3, folder="sst", fetch="sst"),
    ]
)
_NOT_LARGE = {"subj": 0, "sst5": 0}
MODELS = by_name(
    [
        Model("mtsa", "two heads of 150", "mtsa", paper="MTSA"),
        Model("bilstm", "150 in each direction", "bilstm", paper="Bi-LSTM"),
        Model("multihead", "4 heads", "multihead", paper="Multi-head"),
        Model("disa", "150 in each direction", "disa", paper="DiSA", runs=_NOT_LARGE),
        Model("biblosa", "150 in each direction", "biblosa", paper="Bi-BloSA", runs=_NOT_LARGE),
        Model("tfidf", "TF-IDF of words and word pairs, logistic regression", runs={"trec": 1, "sst5": 1}),
        Model("fasttext", "fastText, 25 epochs, word pairs"),
    ]
)
PAPER = {  # its Table 5: mean and deviation of the accuracy on CR, MPQA, SUBJ, TREC, SST-5
    "bilstm": ("84.6 (1.6)", "90.2 (0.9)", "94.7 (0.7)", "94.4 (0.3)", "49.9 (0.8)"),
    "multihead": ("82.6 (1.9)", "89.8 (1.2)", "94.0 (0.8)", "93.4 (0.4)", "48.2 (0.6)"),
    "disa": ("84.8 (2.0)", "90.1 (0.4)", "94.2 (0.6)", "94.2 (0.1)", "51.0 (0.7)"),
    "biblosa": ("84.8 (0.9)", "90.4 (0.8)", "94.5 (0.5)", "94.8 (0.2)", "50.6 (0.5)"),
    "mtsa": ("84.9 (2.4)", "90.5 (0.6)", "94.5 (0.6)", "95.3 (0.3)", "51.3 (0.7)"),
}
NOTES = """\
Accuracy in percent, mean (standard deviation) over 10 folds (CR, MPQA, SUBJ), 5 seeds (TREC) or 3 (SST-5); [n of m]
where runs are missing. Every encoder has the same search (reproduce/PROTOCOL.md). Each record has the dev curve and
one evaluation of the test part, with the answer to every example.

Differences from the paper: GloVe 6B vectors of 100 dimensions instead of 300, restricted to the words of these data
sets where the file name contains "tasks"; half of the paper's width. The best step is chosen
on a dev part: a tenth of the training data, or the official dev part of SST. On TREC and CR the tested model is
trained again on training and dev data together, for as many epochs. The paper's code chose the best step on the
evaluation data itself, so its values are optimistic in comparison.

Baselines use the same splits. C of the logistic regression is chosen on the dev part; the model is then fitted on
training and dev data. fastText has no tuned setting and is trained on both. On SST-5 fastText is trained on all
phrases, as the encoders are, and the logistic regression on whole sentences.
"""
CLASSIFICATION = Table(
    name="classification",
    title="Sentence classification",
    datasets=DATASETS,
    models=MODELS,
    views=(
        View(
            "Accuracy",
            tuple(Column(one.title, one.name) for one in DATASETS.values()),
            tuple(MODELS),
            PAPER,
        ),
        View(
            "Accuracy without test texts that also occur in the training or dev data",
            tuple(Column(one.title, one.name, metric="unseen.accuracy") for one in DATASETS.values()),
            tuple(MODELS),
            optional=True,
        ),
    ),
    notes=NOTES,
    deviation="GloVe vectors of 100 dimensions instead of 300, half of the width, the best step chosen on a dev part",
    search=SEARCH,
)
