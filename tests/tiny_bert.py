"""A small BERT with random weights and a word-piece tokenizer, in a folder as `transformers` saves it; models over it."""

import json
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

import mtsa
from mtsa.tasks.tag_predictor import WordPredictor
from mtsa.tasks.text_predictor import TextPredictor
from tests.sample_data import COLOURS, FRUITS, pairs, sentences, tagged, write_csv

_PIECES = ["the", "a", "is", "are", "very", "and", "ed", "##s", "##er", "##ed", ".", "?", "!"]
WIDTH = 16


def write_bert(folder: Path, *, positions: int = 64, layers: int = 2) -> Path:
    """Write the model into a folder, and return it."""
    signs = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    letters = [chr(code) for code in range(ord("a"), ord("z") + 1)]
    words = [*signs, *_PIECES, *COLOURS, *FRUITS, *letters, *(f"##{letter}" for letter in letters)]
    vocabulary = {word: number for number, word in enumerate(dict.fromkeys(words))}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    ends = (("[SEP]", vocabulary["[SEP]"]), ("[CLS]", vocabulary["[CLS]"]))
    tokenizer.post_processor = processors.BertProcessing(*ends)
    named = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **named).save_pretrained(folder)
    torch.manual_seed(5)
    config = BertConfig(
        vocab_size=len(vocabulary), hidden_size=WIDTH, num_hidden_layers=layers, num_attention_heads=2, intermediate_size=24,
        max_position_embeddings=positions,
    )  # fmt: skip
    BertModel(config).save_pretrained(folder)
    return folder


RUNS = {
    "texts": ("classification", "embedding", {}),
    "pooled": ("classification", "embedding", {"model.pooling": "source2token"}),
    "attended": ("classification", "residual_mtsa", {}),
    "numbers": ("regression", "embedding", {}),
    "pairs": ("pair", "embedding", {}),
    "attended_pairs": ("pair", "residual_mtsa", {}),
    "separate": ("pair", "residual_mtsa", {"model.pair_encoding": "separate"}),
}
"""Models over the small BERT by name: task, encoder, settings."""


def train_over_bert(folder: Path) -> dict[str, TextPredictor]:
    """Train each model of RUNS for a few steps: predictors by name."""
    bert = write_bert(folder / "bert")
    rows = sentences(60)
    write_csv(folder / "classification.csv", rows)
    write_csv(folder / "regression.csv", [(text, len(text) / 4) for text, _ in rows])
    two = [{"text": first, "pair": second, "label": label} for first, second, label, _ in pairs(60)]
    (folder / "pair.jsonl").write_text("".join(json.dumps(row) + "\n" for row in two))
    steps = {"training.max_steps": 4, "training.batch_size": 8, "training.warmup_steps": 0, "training.learning_rate": 0.01}
    found = {}
    for name, (task, encoder, settings) in RUNS.items():
        more = {"train": folder / "pair.jsonl", "pair_column": "pair"} if task == "pair" else {"train": folder / f"{task}.csv"}
        found[name] = mtsa.train(
            task=task, pretrained=bert, encoder=encoder, out=folder / name, settings={**steps, **settings}, **more
        )
    return found


_STACK = {"encoder.layers": 1, "encoder.width": 12, "encoder.heads": 2, "encoder.hidden": 10}
_ROLES = {"model.predicate_dim": 16, "model.shape_dim": 8}
TAGGERS = {
    "tags": ("tagging", "embedding", {"training.epochs": 12}),
    "attended": ("tagging", "residual_mtsa", {"training.max_steps": 8}),
    "stacked": ("tagging", "stacked_mtsa", {**_STACK, "training.max_steps": 8, "model.shape_dim": 0}),
    "roles": ("srl", "residual_mtsa", {**_ROLES, "training.max_steps": 60, "training.eval_steps": 60}),
}
"""Taggers over the small BERT by name: task, encoder, settings. That of roles finds predicates in CLAUSES."""


def train_taggers(folder: Path) -> dict[str, WordPredictor]:
    """Train each model of TAGGERS: predictors by name."""
    bert = write_bert(folder / "bert")
    data = {"tagging": tagged(folder / "tags.conll", 120), "srl": "corpus:roles"}
    shared = {
        "training.batch_tokens": 300,
        "training.warmup_steps": 0,
        "training.learning_rate": 0.02,
        "pretrained.lr_multiplier": 0.2,
        "model.dropout": 0.0,
        "model.shape_dim": 16,
    }
    return {
        name: mtsa.train(
            task=task, train=data[task], pretrained=bert, encoder=encoder, out=folder / name, settings={**shared, **settings}
        )
        for name, (task, encoder, settings) in TAGGERS.items()
    }
