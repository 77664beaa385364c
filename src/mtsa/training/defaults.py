"""Default settings, given the size of the training data and the presence of word vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .pretrained_inputs import PretrainedFacts

Sections = dict[str, dict[str, Any]]

_BY_SIZE: tuple[tuple[int, dict[str, Any]], ...] = (  # up to this many training examples
    (2_000, {"batch_size": 32, "epochs": 40, "patience": 8, "refit": True}),
    (20_000, {"batch_size": 32, "epochs": 30, "patience": 6, "refit": True}),
    (200_000, {"batch_size": 64, "epochs": 8, "patience": 2}),
)
_LARGER: dict[str, Any] = {"batch_size": 128, "epochs": 4, "patience": 2, "eval_steps": 1000}

_WITH_VECTORS: Sections = {"vectors": {"lr_multiplier": 0.3}, "model": {"dropout": 0.3}}


_FINE_TUNING: dict[str, Any] = {
    "optimizer": "adamw", "learning_rate": 1e-3, "schedule": "linear", "weight_decay": 0.01, "max_grad_norm": 1.0,
    "batch_size": 32, "length_pool": 200, "patience": 0, "precision": "auto",
}  # fmt: skip
_PRETRAINED_EPOCHS = ((100, 30), (500, 15), (2_000, 6), (20_000, 3), (200_000, 2))
"""(training examples at most, epochs); 1 above. Few examples need about 100 steps."""
_WARMUP = 0.1  # part of all steps
_FROZEN: dict[str, Any] = {
    "optimizer": "adamw", "learning_rate": 5e-3, "schedule": "linear", "weight_decay": 0.01, "batch_size": 32, "epochs": 20,
    "patience": 5,
}  # fmt: skip
PRETRAINED_LENGTH = 256  # tokens of a text for a pretrained model


def text_settings(examples: int, *, vectors: bool) -> Sections:
    """Return the settings for a number of training examples, with or without word vectors.

    Other keys have the defaults of `Recipe`.
    """
    training = next((settings for most, settings in _BY_SIZE if examples <= most), _LARGER)
    return {**(_WITH_VECTORS if vectors else {}), "training": {**training, "precision": "auto"}}


def pretrained_settings(
    examples: int, pretrained: PretrainedFacts, *, frozen: bool, paired: bool, windows: bool = False
) -> Sections:
    """Return the settings for a number of training examples and a pretrained model.

    Args:
        examples: number of training examples.
        pretrained: facts about the pretrained model.
        frozen: whether the pretrained model is frozen.
        paired: whether inputs are pairs of texts.
        windows: whether long texts are read in windows.
    """
    epochs = next((count for most, count in _PRETRAINED_EPOCHS if examples <= most), 1)
    steps = epochs * examples // _FINE_TUNING["batch_size"]
    model = {"dropout": 0.1, "hidden": 0, "pooling": "mean"}
    length = min(PRETRAINED_LENGTH, pretrained.max_length)
    if paired:
        model["pair_encoding"] = "joint" if pretrained.joins_pairs and not windows else "separate"
    sections: Sections = {"tokens": {"max_length": length}, "model": model}
    window = {"window": length} if windows else {}
    if frozen:
        slower = {"learning_rate": 1e-3} if windows else {}  # an encoder is trained, not only a linear layer
        return {**sections, **({"pretrained": window} if window else {}), "training": {**_FROZEN, **slower}}
    training = {**_FINE_TUNING, "epochs": epochs, "warmup_steps": int(_WARMUP * steps)}
    return {**sections, "pretrained": {**window, "lr_multiplier": 0.1}, "training": training}


DOCUMENT_LENGTH = 16_384  # tokens of a text for an encoder of documents
_DOCUMENT_BATCH = 16_384  # tokens of a batch


def for_documents(sections: Sections) -> Sections:
    """Return settings for long texts: a higher limit of the length, and batches by the number of tokens."""
    tokens = {**sections.get("tokens", {}), "max_length": DOCUMENT_LENGTH}
    training = {**sections["training"], "batch_tokens": _DOCUMENT_BATCH}
    return {**sections, "tokens": tokens, "training": training}


_TAGGER: Sections = {
    "tokens": {"max_length": 256},
    "model": {"dropout": 0.2, "label_smoothing": 0.1},
    "training": {
        "optimizer": "adamw", "learning_rate": 1e-3, "schedule": "linear", "warmup_steps": 200, "weight_decay": 0.01,
        "max_grad_norm": 1.0, "patience": 0, "precision": "auto",
    },
}  # fmt: skip
_TAGGER_SIZES = ((500, 60, 256), (2_000, 30, 512), (20_000, 12, 2048), (200_000, 6, 4096))
"""(maximum number of sentences, epochs, words per batch)"""


def tagger_settings(sentences: int, *, vectors: bool) -> Sections:
    """Return the settings of a tagger for a number of training sentences."""
    epochs, words = next(((passes, words) for most, passes, words in _TAGGER_SIZES if sentences <= most), (3, 4096))
    sections = {section: dict(values) for section, values in _TAGGER.items()}
    sections["training"] |= {"epochs": epochs, "batch_tokens": words}
    if vectors:
        sections["vectors"] = {"lr_multiplier": 0.3}
    return sections


_PRETRAINED_TAGGER_EPOCHS = ((100, 40), (500, 20), (5_000, 5), (50_000, 3))
"""(training sentences at most, epochs); 2 above."""
_PRETRAINED_TAGGER_TOKENS = 1024  # word pieces per batch
_PIECES_PER_SENTENCE = 30  # assumed for the warm-up


def pretrained_tagger_settings(sentences: int, pretrained: PretrainedFacts, *, rows: int) -> Sections:
    """Return the settings of a tagger over a pretrained model for a number of training sentences.

    Args:
        sentences: number of training sentences.
        pretrained: facts about the pretrained model.
        rows: inputs of the model for each sentence, about one for each predicate.
    """
    epochs = next((count for most, count in _PRETRAINED_TAGGER_EPOCHS if sentences <= most), 2)
    steps = epochs * rows * sentences * _PIECES_PER_SENTENCE // _PRETRAINED_TAGGER_TOKENS
    training = {name: value for name, value in _FINE_TUNING.items() if name not in ("batch_size", "length_pool")}
    training |= {"batch_tokens": _PRETRAINED_TAGGER_TOKENS, "epochs": epochs, "warmup_steps": int(_WARMUP * steps)}
    return {
        "tokens": {"max_length": min(PRETRAINED_LENGTH, pretrained.max_length)},
        "pretrained": {"lr_multiplier": 0.1},
        "model": {"dropout": 0.1, "shape_dim": 32},
        "training": training,
    }


_TRANSLATOR: Sections = {
    "tokens": {"max_length": 128},
    "model": {"dropout": 0.1, "label_smoothing": 0.1},
    "training": {
        "learning_rate": 1e-3, "schedule": "inverse_sqrt", "beta2": 0.98, "epsilon": 1e-9, "weight_decay": 0.0,
        "max_grad_norm": 1.0, "patience": 5, "precision": "auto",
    },
}  # fmt: skip
_TRANSLATOR_SIZES = ((2_000, 40, 100, 512, 1_000), (100_000, 20, 1_000, 2048, 8_000), (1_000_000, 6, 4_000, 4096, 16_000))
"""(maximum number of pairs, epochs, warm-up steps, tokens per batch, vocabulary size)"""


def translator_settings(pairs: int) -> Sections:
    """Return the settings of a translator for a number of training pairs."""
    larger = [3, 8_000, 8192, 32_000]
    epochs, warmup, tokens, count = next((rest for most, *rest in _TRANSLATOR_SIZES if pairs <= most), larger)
    sections = {section: dict(values) for section, values in _TRANSLATOR.items()}
    sections["training"] |= {"epochs": epochs, "warmup_steps": warmup, "batch_tokens": tokens}
    sections["tokens"]["vocab_size"] = count
    return sections


_LAPTOP: dict[str, dict[str, Any]] = {  # half of the paper's width
    "mtsa": {"head_dim": 150},
    "hierarchical_mtsa": {"head_dim": 75},
    "stacked_mtsa": {"layers": 4, "attention_dropout": 0.1},
    "stacked_multihead": {"layers": 4, "attention_dropout": 0.1},
    "stacked_bilstm": {"layers": 4},
    "stacked_multi_cnn": {"layers": 4},
    "bilstm": {"width": 150},
    "bigru": {"width": 150},
    "multi_cnn": {"channels": 100},
    "hierarchical_cnn": {"channels": 150},
    "multihead": {"heads": 4},
    "disa": {"width": 150},
    "biblosa": {"width": 150},
    "mtsa_no_masks": {"head_dim": 150},
    "mtsa_no_token2token": {"head_dim": 150},
    "mtsa_no_source2token": {"head_dim": 150},
    "mtsa_none": {"width": 300},
}


def encoder_for(name: str) -> dict[str, Any]:
    """Return the [encoder] section, sized for a laptop."""
    return {"name": name, **_LAPTOP.get(name, {})}
