"""Classification of whole documents: movie reviews of 750 words on average."""

from reproduce.dataset import DataSet
from reproduce.table import Column, Model, Search, Table, View, by_name

DATASETS = by_name(
    [
        DataSet(
            "reviews",
            "Movie reviews",
            "reviews.cpu",
            {"train": "polarity2.csv.gz", "format": "csv"},
            folds=10,
            folder="documents",
            fold_column="fold",
        )
    ]
)
_TUNED = {
    "pretrained.frozen": "false",
    "pretrained.lr_multiplier": 0.1,
    "training.warmup_steps": 50,
    "training.max_grad_norm": 1.0,
    "training.epochs": 3,
    "training.batch_tokens": 8192,
}
MODELS = by_name(
    [
        Model("mtsa", "flat: two heads of 150 over the whole review", "mtsa"),
        Model("hierarchical_mtsa", "blocks of whole sentences, at most 32 words; four heads of 75", "hierarchical_mtsa"),
        Model("bilstm", "150 units in each direction", "bilstm"),
        Model("multihead", "4 heads", "multihead"),
        Model("biblosa", "150 features in each direction", "biblosa"),
        Model("tfidf", "TF-IDF of word uni- and bigrams, logistic regression"),
        Model("minilm-windows-lr", "logistic regression on the mean of the token vectors of all windows, not fine-tuned"),
        Model(
            "minilm-windows-mtsa",
            "hierarchical MTSA on the token vectors of all windows, MiniLM not fine-tuned",
            "hierarchical_mtsa",
            recipe="reviews.minilm.cpu",
        ),
        Model(
            "minilm-windows-tuned",
            "hierarchical MTSA, fine-tuned together with MiniLM; 2 of the 10 folds",
            "hierarchical_mtsa",
            _TUNED,
            recipe="reviews.minilm.cpu",
            runs={"reviews": 2},
            searched=False,
        ),
    ]
)
NOTES = """\
- **Data**: 2,000 movie reviews (polarity 2.0) of 746 words on average and at most 2,678, with the ten official folds.
  No model truncates reviews.
- **Scores**: accuracy in percent, mean (standard deviation) over 10 folds. The best epoch is selected on a tenth of the
  training data. The learning rate of each model is selected on the dev set of the first fold, after half of the training.
  Models with a fine-tuned MiniLM have a fixed learning rate.
- **Windows**: MiniLM reads 256 tokens; longer texts are read in windows that share a quarter of their tokens.
- **Baselines** use the same splits. C of the logistic regression is selected on the dev set; the model is then fitted on
  training and dev data.
"""
DOCUMENTS = Table(
    name="documents",
    title="Documents",
    datasets=DATASETS,
    models=MODELS,
    views=(View("Accuracy", tuple(Column(one.title, one.name) for one in DATASETS.values()), tuple(MODELS)),),
    notes=NOTES,
    search=Search(({"training.learning_rate": 5e-4}, {"training.learning_rate": 2e-3}), screened=0.5, finalists=1),
)
