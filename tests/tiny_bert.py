"""A small BERT with random weights and a word-piece tokenizer, in a folder as `transformers` saves it."""

from pathlib import Path

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from tests.sample_data import COLOURS, FRUITS

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
