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
_SKIP_LARGE = {"subj": 0, "sst5": 0}
MODELS = by_name(
    [
        Model("mtsa", "two heads of 150", "mtsa", paper="MTSA"),
        Model("bilstm", "150 units in each direction", "bilstm", paper="Bi-LSTM"),
        Model("multihead", "4 heads", "multihead", paper="Multi-head"),
        Model("disa", "150 features in each direction", "disa", paper="DiSA", runs=_SKIP_LARGE),
        Model("biblosa", "150 features in each direction", "biblosa", paper="Bi-BloSA", runs=_SKIP_LARGE),
        Model("tfidf", "TF-IDF of word uni- and bigrams, logistic regression", runs={"trec": 1, "sst5": 1}),
        Model("fasttext", "fastText with word bigrams, 25 epochs"),
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
- **Scores**: accuracy in percent, mean (standard deviation) over 10 folds (CR, MPQA, SUBJ), 5 seeds (TREC) or 3 seeds
  (SST-5); [n of m]: n of m planned runs exist. Each record has the dev curve and one evaluation of the test set, with
  the prediction for every example.
- **Search**: hyperparameters of all encoders are selected by the same search (`reproduce/PROTOCOL.md`). The best step
  is selected on a dev set: a tenth of the training data, or the official dev set of SST. On TREC and CR, the final model
  is retrained on training and dev data for as many epochs. The paper's code selected the best step on the test data,
  so its values are optimistic in comparison.
- **Differences from the paper**: GloVe 6B vectors of 100 dimensions instead of 300; for speed, the vector file was
  reduced to the vocabulary of the data sets. Half of the paper's width.
- **Baselines** use the same splits. C of the logistic regression is selected on the dev set; the model is then fitted on
  training and dev data. fastText is not tuned and is trained on both. On SST-5, fastText is trained on all phrases, as
  the encoders are, and the logistic regression on whole sentences.
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
    deviation="GloVe vectors of 100 dimensions instead of 300, half of the width, the best step selected on a dev set",
    search=SEARCH,
)
