"""Text for a language model: tokenizer, and rows of equal length.

Notation: N tokens.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from tokenizers import Tokenizer
from tokenizers.decoders import ByteLevel as ByteDecoder
from tokenizers.models import BPE
from tokenizers.normalizers import NFC, Lowercase
from tokenizers.normalizers import Sequence as NormalizerSequence
from tokenizers.pre_tokenizers import ByteLevel
from tokenizers.trainers import BpeTrainer
from torch import Tensor

END, UNKNOWN = "<end>", "<unk>"


def train_tokenizer(texts: Iterable[str], count: int) -> Tokenizer:
    """Train a byte-level BPE tokenizer of lower-cased text with at most `count` tokens."""
    tokenizer = Tokenizer(BPE(unk_token=UNKNOWN))
    tokenizer.normalizer = NormalizerSequence([NFC(), Lowercase()])
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=True)
    tokenizer.decoder = ByteDecoder()
    special = [UNKNOWN, END]
    trainer = BpeTrainer(vocab_size=count, special_tokens=special, show_progress=False, initial_alphabet=ByteLevel.alphabet())
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def token_rows(tokenizer: Tokenizer, texts: Sequence[str], length: int) -> Tensor:
    """Return all texts, concatenated with an end token after each, as rows [n, N]; the remainder is dropped."""
    end = tokenizer.token_to_id(END)
    ids = [number for encoding in tokenizer.encode_batch_fast(list(texts)) for number in (*encoding.ids, end)]
    rows = len(ids) // length
    return torch.tensor(ids[: rows * length], dtype=torch.long).view(rows, length)
