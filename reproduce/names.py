"""Names of models on the results pages, by their names in tables and records."""

from __future__ import annotations

_NAMES = {
    "mtsa": "MTSA",
    "bilstm": "Bi-LSTM",
    "bigru": "Bi-GRU",
    "multi_cnn": "Multi-CNN",
    "hierarchical_cnn": "Hierarchical CNN",
    "hrchy_cnn": "Hierarchical CNN",
    "multihead": "multi-head",
    "disa": "DiSA",
    "biblosa": "Bi-BloSA",
    "mtsa_no_masks": "MTSA without masks",
    "mtsa_no_token2token": "MTSA without token2token",
    "mtsa_no_source2token": "MTSA without source2token",
    "mtsa_none": "no context",
    "none": "no context",
    "gpt-block": "GPT + Transformer block",
    "gpt-mtsa": "GPT + MTSA",
    "minilm-block": "MiniLM + Transformer block",
    "minilm-mtsa": "MiniLM + MTSA",
    "minilm-multihead": "MiniLM + multi-head",
    "minilm-linear": "MiniLM + linear layer",
    "minilm-no-shapes": "MiniLM + linear layer, no word shapes",
    "mtsa-shapes": "MTSA with word shapes",
    "multihead-masks": "multi-head with masks",
    "mtsa-long": "MTSA, 36 epochs",
    "multihead-masks-long": "multi-head with masks, 36 epochs",
    "mtsa-halves": "MTSA with directional masks",
    "mtsa-8heads": "MTSA, 8 heads",
    "tfidf": "TF-IDF + LR",
    "fasttext": "fastText",
    "mean": "mean pooling",
    "source2token": "source2token pooling",
    "residual_mtsa": "residual MTSA + mean pooling",
    "residual_multihead": "residual multi-head + mean pooling",
    "hierarchical_mtsa": "hierarchical MTSA",
    "minilm-windows-lr": "frozen MiniLM windows + LR",
    "minilm-windows-mtsa": "frozen MiniLM windows + hierarchical MTSA",
    "minilm-windows-tuned": "fine-tuned MiniLM windows + hierarchical MTSA",
    "minilm-lr": "frozen MiniLM + LR",
    "base": "MiniLM",
}


def display(name: str) -> str:
    """Return the name of a model for readers; of a changed model (`roles-mtsa-fast`), that of the model it changes."""
    name = name.removeprefix("roles-").removeprefix("texts-")
    while name not in _NAMES and "-" in name:
        name = name.rpartition("-")[0]
    return _NAMES.get(name, name)
