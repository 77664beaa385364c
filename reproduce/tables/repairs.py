"""Effect of single changes to models on dev scores, measured before the search. Test data are never used."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from reproduce.table import Model, Search, Table, by_name

from . import classification, nli, srl

DATASETS = by_name(
    [
        replace(nli.DATASETS["snli-subset"], folder="nli"),
        replace(srl.DATASETS["ewt"], folder="srl"),
        replace(classification.DATASETS["cr"], folder="classification"),
        replace(classification.DATASETS["trec"], folder="classification"),
    ]
)


_SNLI, _SRL, _TEXT_SETS = ("snli-subset",), ("ewt",), ("cr", "trec")


def _on(datasets: tuple[str, ...], name: str, about: str, encoder: str, *, screened: float = 0.0, **options: Any) -> Model:
    """A model that is run on some data sets only; options are settings with __ in place of the dot."""
    settings = {key.replace("__", "."): value for key, value in options.items()}
    runs = {other: 0 for other in DATASETS if other not in datasets}
    return Model(name, about, encoder, settings, runs=runs, screened=screened)


_AUTHORS: dict[str, Any] = {
    "encoder__scale": 0.0,
    "encoder__input_bias": "true",
    "encoder__score_activation": "identity",
    "encoder__source_activation": "identity",
    "encoder__source_layers": 1,
    "model__tag_dropout": "false",
}
_MASKS = '"forward(self)*4, backward(self)*4"'
_SCALED_POSITIONS: dict[str, Any] = {"encoder__position_scale": 0.1}
_LONG: dict[str, Any] = {"screened": 1.0, "training__epochs": 36, "training__precision": "bfloat16"}
_FUSION: dict[str, Any] = {"encoder__fusion": "true"}
_ENCODERS = {"bilstm": "bilstm", "bigru": "bigru", "multi_cnn": "multi_cnn", "hrchy_cnn": "hierarchical_cnn"}
_MULTIHEAD, _STACK = "stacked_multihead", "stacked_mtsa"
MODELS = by_name(
    [
        _on(_SNLI, "none", "no context, for comparison", "mtsa_none"),
        _on(_SNLI, "mtsa", "for comparison", "mtsa"),
        *(_on(_SNLI, name, "as in the paper", encoder) for name, encoder in _ENCODERS.items()),
        *(
            _on(_SNLI, f"{name}-fusion", "with the fusion gate of MTSA", encoder, **_FUSION)
            for name, encoder in _ENCODERS.items()
        ),
        _on(_SNLI, "multihead", "unscaled sinusoidal positions", "multihead"),
        _on(_SNLI, "multihead-0.1", "sinusoidal positions scaled by 0.1", "multihead", **_SCALED_POSITIONS),
        _on(
            _SNLI,
            "multihead-fusion",
            "sinusoidal positions scaled by 0.1, fusion gate",
            "multihead",
            **_SCALED_POSITIONS,
            **_FUSION,
        ),
        _on(_TEXT_SETS, "texts-multihead", "unscaled sinusoidal positions", "multihead"),
        _on(_TEXT_SETS, "texts-multihead-0.1", "sinusoidal positions scaled by 0.1", "multihead", **_SCALED_POSITIONS),
        _on(_TEXT_SETS, "texts-mtsa", "linearly decaying learning rate", "mtsa"),
        _on(_TEXT_SETS, "texts-mtsa-constant", "constant learning rate", "mtsa", training__schedule="constant"),
        _on(_SRL, "roles-multihead", "sinusoidal positions, unscaled input", _MULTIHEAD, encoder__scale=1.0),
        _on(
            _SRL,
            "roles-multihead-scaled",
            "sinusoidal positions, authors' input scale and bias",
            _MULTIHEAD,
            encoder__input_bias="true",
        ),
        _on(
            _SRL,
            "roles-multihead-masks",
            "masks, no sinusoidal positions",
            _MULTIHEAD,
            encoder__scale=1.0,
            encoder__masks=_MASKS,
        ),
        _on(_SRL, "roles-mtsa", "as in version 0.2", _STACK),
        _on(_SRL, "roles-mtsa-tags", "no dropout before the tag layer", _STACK, model__tag_dropout="false"),
        _on(_SRL, "roles-mtsa-authors", "input scale, bias, scores and tag layer of the authors", _STACK, **_AUTHORS),
        _on(_SRL, "roles-mtsa-fast", "learning rate 2e-3", _STACK, training__learning_rate=2e-3),
        _on(_SRL, "roles-mtsa-long", "36 epochs in bfloat16, full training", _STACK, **_LONG),
    ]
)
_MTSA_CHANGES = ("tags", "authors", "fast", "long")
BEFORE = {
    **{f"{name}-fusion": name for name in _ENCODERS},
    "multihead-0.1": "multihead",
    "multihead-fusion": "multihead-0.1",
    "texts-multihead-0.1": "texts-multihead",
    "texts-mtsa": "texts-mtsa-constant",
    "roles-multihead-scaled": "roles-multihead",
    "roles-multihead-masks": "roles-multihead",
    **{f"roles-mtsa-{name}": "roles-mtsa" for name in _MTSA_CHANGES},
}
"""The changed model, and the same model before the change."""
SCREENED = {**_ENCODERS, "multihead-0.1": "multihead", "none": "mtsa_none", "mtsa": "mtsa"}
"""Models of this table that the table `nli` screens too: a record of screening with equal settings is used for them."""
NOTES = """\
Dev scores in percent: accuracy, or F1 of roles (EWT). Each model was trained for 3/8 of the steps unless stated otherwise,
with the learning-rate schedule of the full training. Other settings are those of the recipe. Single runs; small differences
may be noise. Scores of unchanged encoders on SNLI can come from the screening runs of table `nli` with the same settings.
"""
REPAIRS = Table(
    name="repairs",
    title="Effect of single changes (dev scores)",
    datasets=DATASETS,
    models=MODELS,
    views=(),
    notes=NOTES,
    search=Search(({},)),
    dev_only=True,
    before=BEFORE,
)
