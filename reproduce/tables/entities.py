"""Named entities of social media (W-NUT 2017): taggers over word vectors and over MiniLM."""

from reproduce.dataset import DataSet
from reproduce.table import Column, Model, Table, View, by_name

_FILES = {"train": "wnut17.train.conll", "test": "wnut17.dev.conll", "format": "columns"}
DATASETS = by_name([DataSet("wnut17", "W-NUT 17", "entities.cpu", _FILES, seeds=3, folder="ner")])
_MINILM = "entities.minilm.cpu"
_ONE = {"wnut17": 1}
MODELS = by_name(
    [
        Model("mtsa", "GloVe vectors, 4 layers with 4 forward and 4 backward heads", "stacked_mtsa"),
        Model("mtsa-shapes", "as `mtsa`, with embeddings of word shapes", "stacked_mtsa", {"model.shape_dim": 32}, runs=_ONE),
        Model("bilstm", "GloVe vectors, 4 layers with a bidirectional LSTM of 100 + 100", "stacked_bilstm"),
        Model("minilm-linear", "fine-tuned, linear tag layer (the default)", "embedding", recipe=_MINILM),
        Model(
            "minilm-no-shapes",
            "as `minilm-linear`, without embeddings of word shapes",
            "embedding",
            {"model.shape_dim": 0},
            recipe=_MINILM,
            runs=_ONE,
        ),
        Model(
            "minilm-mtsa",
            "as `minilm-linear`, with a residual MTSA layer (zero-initialized output) below the tag layer",
            "residual_mtsa",
            recipe=_MINILM,
        ),
    ]
)
NOTES = """\
- **Scores**: span F1, precision and recall in percent, mean (standard deviation) over 3 seeds, or one seed for the models that
  show the effect of word shapes. The best epoch is selected on the dev set.
- **Data**: the training file has 2,700 sentences; a tenth of them, drawn with the seed of the run, is the dev set. The test
  set is the file `wnut17.dev.conll` (300 sentences), which is not used otherwise. It is not the official test set.
- **Word shapes**: GloVe and MiniLM are lower-cased; the shape (capitals, digits, punctuation) is an embedding of 32
  dimensions, concatenated to the vector of each word.
- **Settings**: those of the recipes `entities.cpu` and `entities.minilm.cpu`, without a search. MiniLM was trained by its
  authors on sentence pairs from the web, which may include the same kind of text, without entity labels.
"""
ENTITIES = Table(
    name="entities",
    title="Named entities with MiniLM",
    datasets=DATASETS,
    models=MODELS,
    views=(
        View(
            "Span F1 on W-NUT 17",
            (
                Column("dev F1", "wnut17", "dev", "f1"),
                Column("test P", "wnut17", "test", "precision"),
                Column("test R", "wnut17", "test", "recall"),
                Column("test F1", "wnut17", "test", "f1"),
            ),
            tuple(MODELS),
        ),
    ),
    notes=NOTES,
)
