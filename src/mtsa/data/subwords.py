"""Subword tokenization: byte-level BPE, trained on both languages together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tokenizers import Tokenizer
from tokenizers.decoders import ByteLevel as ByteDecoder
from tokenizers.decoders import Sequence as Decoders
from tokenizers.decoders import Strip
from tokenizers.models import BPE
from tokenizers.normalizers import NFC
from tokenizers.pre_tokenizers import ByteLevel
from tokenizers.processors import TemplateProcessing
from tokenizers.trainers import BpeTrainer

PAD, BEGIN, END, UNKNOWN = "<pad>", "<s>", "</s>", "<unk>"
SPECIAL_TOKENS = {"pad_token": PAD, "bos_token": BEGIN, "eos_token": END, "unk_token": UNKNOWN}
PAD_ID, BEGIN_ID, END_ID = 0, 1, 2


def train_subwords(texts: Iterable[str], count: int) -> Tokenizer:
    """Return a tokenizer with at most `count` subwords; every text ends with `</s>`."""
    tokenizer = Tokenizer(BPE(unk_token=UNKNOWN))
    tokenizer.normalizer = NFC()
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=True)
    tokenizer.decoder = Decoders([ByteDecoder(), Strip(" ", 1, 0)])  # remove the space that is added before a text
    trainer = BpeTrainer(
        vocab_size=count,
        special_tokens=list(SPECIAL_TOKENS.values()),
        show_progress=False,
        initial_alphabet=ByteLevel.alphabet(),
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = TemplateProcessing(single=f"$A {END}", special_tokens=[(END, END_ID)])
    return tokenizer


def encode_subwords(tokenizer: Tokenizer, texts: Sequence[str], limit: int) -> tuple[list[list[int]], int]:
    """Return the token ids of each text, truncated to `limit` (0: never), and the number of truncated texts."""
    tokenizer.encode_special_tokens = True  # special tokens such as </s> in a text are text
    rows = [encoding.ids for encoding in tokenizer.encode_batch_fast(list(texts))]
    if not limit:
        return rows, 0
    cut = [ids if len(ids) <= limit else [*ids[: limit - 1], END_ID] for ids in rows]
    return cut, sum(len(ids) > limit for ids in rows)


def subword_texts(tokenizer: Tokenizer, ids: Sequence[int]) -> list[str]:
    """Return the text of each token id, for display."""
    return [tokenizer.decode([number], skip_special_tokens=False).strip() or "\N{OPEN BOX}" for number in ids]


def decode_subwords(tokenizer: Tokenizer, rows: Sequence[Sequence[int]]) -> list[str]:
    """Return texts of token ids, without special tokens and line breaks."""
    return [" ".join(text.split()) for text in tokenizer.decode_batch([list(row) for row in rows], skip_special_tokens=True)]
