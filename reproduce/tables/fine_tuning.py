"""Ablation of the fine-tuning settings for MiniLM. Test data are never used."""

from __future__ import annotations

from typing import Any

from reproduce.table import Model, Search, Table, by_name

from . import pretrained

DATASETS = by_name([pretrained.DATASETS[name] for name in ("trec", "cr", "mpqa")])


def _changed(name: str, about: str, **options: Any) -> Model:
    """MiniLM with changed settings; options have __ in place of the dot."""
    return Model(name, about, "embedding", {key.replace("__", "."): value for key, value in options.items()})


MODELS = by_name(
    [
        _changed("base", "learning rate 5e-5 (linear layer 5e-4), 3 epochs, warm-up over the first tenth of the steps"),
        _changed("rate-2", "learning rate 1e-4 (linear layer 1e-3)", training__learning_rate=1e-3),
        _changed("rate-4", "learning rate 2e-4 (linear layer 2e-3)", training__learning_rate=2e-3),
        _changed(
            "decay",
            "learning rate 1e-4 (linear layer 1e-3), layer decay 0.8",
            training__learning_rate=1e-3,
            pretrained__layer_decay=0.8,
        ),
        _changed("epochs-2", "2 epochs", training__epochs=2),
        _changed("epochs-5", "5 epochs", training__epochs=5),
        _changed("no-warmup", "no warm-up", training__warmup_steps=0),
    ]
)
NOTES = """\
Accuracy on the dev set, one run each on the first seed or fold.
"""
FINE_TUNING = Table(
    name="fine-tuning",
    title="Fine-tuning settings",
    datasets=DATASETS,
    models=MODELS,
    views=(),
    notes=NOTES,
    search=Search(({},), screened=1.0),
    dev_only=True,
    before={name: "base" for name in MODELS if name != "base"},
)
