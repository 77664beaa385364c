"""Repairs of single models, before the search: what each of them changes on dev. Test data are never used."""

from __future__ import annotations

from collections.abc import Mapping
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


def _only(*datasets: str) -> dict[str, int]:
    return {name: 0 for name in DATASETS if name not in datasets}


def _pairs(name: str, about: str, encoder: str, **options: Any) -> Model:
    return Model(
        name, about, encoder, {key.replace("__", "."): value for key, value in options.items()}, runs=_only("snli-subset")
    )


def _texts(name: str, about: str, options: Mapping[str, Any]) -> Model:
    return Model(name, about, "multihead", options, runs=_only("cr", "trec"))


def _roles(name: str, about: str, encoder: str, options: Mapping[str, Any]) -> Model:
    return Model(name, about, encoder, options, runs=_only("ewt"))


_AUTHORS = {
    "encoder.scale": 0.0,
    "encoder.input_bias": "true",
    "encoder.scales": ["identity", "identity"],
    "encoder.source_layers": 1,
    "model.tag_dropout": "false",
}
_MASKS = '"forward(self)*4, backward(self)*4"'
_SMALL_POSITIONS = {"encoder.position_scale": 0.1}
MODELS = by_name(
    [
        _pairs("none", "no context, for comparison", "mtsa_none"),
        _pairs("mtsa", "for comparison", "mtsa"),
        *(
            model
            for name, encoder in (
                ("bilstm", "bilstm"),
                ("bigru", "bigru"),
                ("multi_cnn", "multi_cnn"),
                ("hrchy_cnn", "hierarchical_cnn"),
            )
            for model in (
                _pairs(name, "as in the paper", encoder),
                _pairs(f"{name}-fusion", "with the fusion gate of MTSA", encoder, encoder__fusion="true"),
            )
        ),
        _pairs("multihead", "sinusoids as they are", "multihead"),
        _pairs("multihead-0.1", "sinusoids multiplied by 0.1", "multihead", encoder__position_scale=0.1),
        _pairs(
            "multihead-fusion",
            "sinusoids multiplied by 0.1, fusion gate",
            "multihead",
            encoder__position_scale=0.1,
            encoder__fusion="true",
        ),
        _texts("multihead-texts", "sinusoids as they are", {}),
        _texts("multihead-texts-0.1", "sinusoids multiplied by 0.1", _SMALL_POSITIONS),
        _texts(
            "constant-rate",
            "sinusoids multiplied by 0.1, constant learning rate",
            {**_SMALL_POSITIONS, "training.schedule": "constant"},
        ),
        _roles("roles-multihead", "timing signal, input not scaled", "stacked_multihead", {"encoder.scale": 1.0}),
        _roles(
            "roles-multihead-scaled",
            "timing signal, scale and bias of the authors",
            "stacked_multihead",
            {"encoder.input_bias": "true"},
        ),
        _roles(
            "roles-multihead-masks",
            "masks in place of the timing signal",
            "stacked_multihead",
            {"encoder.scale": 1.0, "encoder.masks": _MASKS},
        ),
        _roles("roles-mtsa", "as before", "stacked_mtsa", {}),
        _roles("roles-mtsa-tags", "no dropout before the tag layer", "stacked_mtsa", {"model.tag_dropout": "false"}),
        _roles("roles-mtsa-authors", "scale, bias, scores and tag layer of the authors", "stacked_mtsa", _AUTHORS),
        _roles("roles-mtsa-fast", "learning rate 2e-3", "stacked_mtsa", {"training.learning_rate": 2e-3}),
        _roles("roles-bilstm", "for comparison", "stacked_bilstm", {}),
    ]
)
NOTES = """\
Each model was trained for 3/8 of its recipe, with the learning-rate schedule of the whole, and scored on dev: accuracy,
or F1 of roles. Other settings are those of the recipe.
"""
REPAIRS = Table(
    name="repairs",
    title="Repairs of the baselines",
    datasets=DATASETS,
    models=MODELS,
    views=(),
    notes=NOTES,
    search=Search(({},)),
    dev_only=True,
)
