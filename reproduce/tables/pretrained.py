"""Sentence classification with MiniLM: layers on top of it, compared with logistic regression on its vectors."""

from dataclasses import replace

from reproduce.table import Column, Model, Search, Table, View, by_name

from . import classification

DATASETS = by_name(
    [
        replace(dataset, recipe=f"{name}.minilm.cpu", screenings=1, seeds=3 if dataset.seeds > 1 else 1)
        for name, dataset in classification.DATASETS.items()
    ]
)
_TREC_CR_ONLY = {"mpqa": 0, "subj": 0, "sst5": 0, "cr": 3}
_THREE_FOLDS = {"subj": 3}
_OVERRIDES = {"trec": {"training.precision": "bfloat16"}}  # measured before "auto"; on processors with AVX-512 BF16
MODELS = by_name(
    [
        Model(
            "mean",
            "mean pooling and a linear layer (the default)",
            "embedding",
            overrides=_OVERRIDES,
            runs=_THREE_FOLDS,
        ),
        Model(
            "source2token",
            "source2token pooling and a linear layer",
            "embedding",
            {"model.pooling": '"source2token"'},
            overrides=_OVERRIDES,
            runs=_TREC_CR_ONLY,
        ),
        Model(
            "residual_mtsa",
            "residual MTSA layer (zero-initialized output), mean pooling",
            "residual_mtsa",
            overrides=_OVERRIDES,
            runs=_TREC_CR_ONLY,
        ),
        Model(
            "residual_multihead",
            "residual multi-head layer (zero-initialized output), mean pooling",
            "residual_multihead",
            overrides=_OVERRIDES,
            runs=_TREC_CR_ONLY,
        ),
        Model(
            "minilm-lr", "logistic regression on the mean vectors, not fine-tuned", runs={**_THREE_FOLDS, "trec": 1, "sst5": 1}
        ),
    ]
)
NOTES = """\
Accuracy in percent, mean (standard deviation) over 10 folds (CR, MPQA) or 3 seeds (TREC, SST-5); the first 3 folds of SUBJ
and, for the layers other than mean pooling, of CR. The default of `--pretrained` was chosen by the dev accuracy. The
learning rate of each model and data set is selected on the dev set of the first fold or seed. MiniLM was trained by its
authors on pairs of sentences from the web, which may contain texts of these data sets, without their labels. The paper
has no such models; its MTSA on GloVe vectors has 84.9 (CR), 90.5 (MPQA), 94.5 (SUBJ), 95.3 (TREC) and 51.3 (SST-5).
"""
PRETRAINED = Table(
    name="pretrained",
    title="Sentence classification with MiniLM",
    datasets=DATASETS,
    models=MODELS,
    views=(
        View(
            "Accuracy",
            tuple(Column(one.title, one.name) for one in DATASETS.values()),
            tuple(MODELS),
        ),
        View(
            "Dev accuracy of the layers on top of MiniLM",
            tuple(Column(f"{DATASETS[name].title}: dev", name, "dev") for name in ("trec", "cr")),
            tuple(name for name in MODELS if name != "minilm-lr"),
        ),
    ),
    notes=NOTES,
    search=Search(({"training.learning_rate": 5e-4}, {"training.learning_rate": 1e-3}), screened=1.0, finalists=1),
)
