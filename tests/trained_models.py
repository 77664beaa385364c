"""One small finished run of each task, for tests of what comes after training.

The model for semantic roles finds three predicates in CLAUSES; fewer epochs would find none anywhere.
"""

import mtsa
from mtsa.tasks.predictor import ModelInput
from tests.sample_data import TAGGER, TRANSLATOR, parallel, sentences, tagged, write_csv

QUICK = {"training.epochs": 2, "encoder.head_dim": 5, "vectors.dim": 6, "model.hidden": 7, "training.refit": False}
CLAUSES = "The old man who lived there said that he had seen a dog ."


def train_every_task(folder):
    """Predictors by task."""
    found = {"classification": mtsa.train(train=write_csv(folder / "a.csv", sentences(60)), out=folder / "c", settings=QUICK)}
    found["pair"] = mtsa.train(
        task="pair", train="corpus:entailment", out=folder / "p", settings={**QUICK, "training.epochs": 1}
    )
    quick = {**TAGGER, "training.epochs": 1, "encoder.layers": 2}
    found["tagging"] = mtsa.train(task="tagging", train=tagged(folder / "t.conll", 40), out=folder / "t", settings=quick)
    roles = {"training.epochs": 8, "encoder.layers": 1, "encoder.width": 24, "encoder.hidden": 24}
    found["srl"] = mtsa.train("roles.cpu", out=folder / "r", settings=roles)
    en, de = parallel(folder, "train", 40, 0)
    quick = {**TRANSLATOR, "training.epochs": 1, "encoder.masks": "halves"}
    found["translation"] = mtsa.train(task="translation", train=en, train_target=de, out=folder / "tr", settings=quick)
    return found


def attention_maps(predictor, text, pair=None):
    """The attention maps for a text, or for the two texts of a pair."""
    return predictor.explain(ModelInput(text, pair))
