"""Sentence classification over MiniLM: what stands on the pretrained model, beside logistic regression on its vectors."""

from dataclasses import replace

from reproduce.table import Column, Model, Search, Table, View, by_name

from . import classification

DATASETS = by_name(
    [
        replace(dataset, recipe=f"{name}.minilm.cpu", screenings=1, seeds=3 if dataset.seeds > 1 else 1)
        for name, dataset in classification.DATASETS.items()
    ]
)
_CONTROLS = {"mpqa": 0, "subj": 0, "sst5": 0}
_THREE = {"subj": 3}
MODELS = by_name(
    [
        Model("mean", "mean of the tokens and a linear layer", "embedding", paper="MTSA over GloVe", runs=_THREE),
        Model(
            "source2token",
            "source2token pooling and a linear layer",
            "embedding",
            {"model.pooling": '"source2token"'},
            runs=_CONTROLS,
        ),
        Model("residual_mtsa", "MTSA as a residual that starts as the identity, mean", "residual_mtsa", runs=_CONTROLS),
        Model("residual_multihead", "multi-head attention as such a residual, mean", "residual_multihead", runs=_CONTROLS),
        Model("minilm-lr", "logistic regression on the mean vectors, not fine-tuned", runs={**_THREE, "trec": 1, "sst5": 1}),
    ]
)
PAPER = {"mean": tuple(cells.split(" ")[0] for cells in classification.PAPER["mtsa"])}
NOTES = """\
Accuracy in percent, mean (standard deviation) over 10 folds (CR, MPQA; SUBJ: the first 3), or 3 seeds (TREC, SST-5). The
paper's values are those of MTSA over GloVe vectors, without a pretrained model. The learning rate of each model and data
set is chosen on the dev part of the first fold or seed. MiniLM was trained by its authors on pairs of sentences from the
web, which may contain texts of these data sets, without their labels.
"""
PRETRAINED = Table(
    name="pretrained",
    title="Sentence classification over MiniLM",
    datasets=DATASETS,
    models=MODELS,
    views=(
        View(
            "Accuracy",
            tuple(Column(one.title, one.name) for one in DATASETS.values()),
            tuple(MODELS),
            PAPER,
        ),
    ),
    notes=NOTES,
    search=Search(({"training.learning_rate": 5e-4}, {"training.learning_rate": 1e-3}), screened=1.0, finalists=1),
)
