"""Text to word numbers: lower-cased words as the GloVe vectors have them, by a tokeniser that is saved with the model."""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Iterable, Sequence

from tokenizers import Encoding, Regex, Tokenizer
from tokenizers.models import WordLevel
from tokenizers.normalizers import NFC, Lowercase, Replace
from tokenizers.normalizers import Sequence as NormalizerSequence
from tokenizers.pre_tokenizers import Split, WhitespaceSplit
from tokenizers.processors import TemplateProcessing
from tokenizers.trainers import WordLevelTrainer

PAD, UNKNOWN = "[PAD]", "[UNK]"
SPECIAL = (PAD, UNKNOWN)

# In order: u.s., 1,000.50, the stem of don't, n't, 's and its kin, words, any other sign alone.
PATTERN = (
    r"(?:[^\W\d_]\.){2,}"
    r"|\d+(?:[.,:]\d+)*(?!\w)"
    r"|\w+?(?=n't(?!\w))"
    r"|n't(?!\w)"
    r"|'(?:s|re|ve|ll|d|m)(?!\w)"
    r"|\w+"
    r"|[^\w\s]"
)
_QUOTES = {"\u2018": "'", "\u2019": "'", "\u201c": '"', "\u201d": '"', "\u00b4": "'"}
_STRAIGHT = str.maketrans(_QUOTES)


def word_tokenizer(words: Sequence[str] = (), *, paired: bool = False, spaced: bool = False) -> Tokenizer:
    """The tokeniser with numbers for these words, in order, after the special ones.

    With `paired`, two texts given at once come one after the other, told apart by their type numbers 0 and 1. With `spaced`,
    words are what stands between spaces, as in tagged sentences.
    """
    vocabulary = {word: number for number, word in enumerate((*SPECIAL, *words))}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token=UNKNOWN))
    replaced = [Replace(typed, plain) for typed, plain in _QUOTES.items()]
    tokenizer.normalizer = NormalizerSequence([NFC(), *replaced, Lowercase()])
    tokenizer.pre_tokenizer = WhitespaceSplit() if spaced else Split(Regex(PATTERN), "removed", invert=True)
    return set_special_tokens(tokenizer, paired=True) if paired else tokenizer


def set_special_tokens(tokenizer: Tokenizer, *, paired: bool) -> Tokenizer:
    """A tokeniser that gives a text the signs that it gives a text alone; with `paired`, each text of a pair too."""
    tokenizer.no_padding()
    tokenizer.no_truncation()
    if paired:
        encoding = tokenizer.encode("a")
        before = encoding.special_tokens_mask.index(0)
        signs = [encoding.tokens[place] for place, special in enumerate(encoding.special_tokens_mask) if special]
        sides = [[*signs[:before], side, *signs[before:]] for side in ("$A", "$B")]
        single, second = (" ".join(f"{piece}:{number}" for piece in side) for number, side in enumerate(sides))
        encode_texts = [(sign, tokenizer.token_to_id(sign)) for sign in dict.fromkeys(signs)]
        tokenizer.post_processor = TemplateProcessing(single=single, pair=f"{single} {second}", special_tokens=encode_texts)
    return tokenizer


def count_words(texts: Iterable[str], *, least: int = 1, spaced: bool = False) -> list[str]:
    """The words that occur at least that often, the most frequent first."""
    tokenizer = word_tokenizer(spaced=spaced)
    trainer = WordLevelTrainer(vocab_size=2**31 - 1, min_frequency=least, show_progress=False, special_tokens=list(SPECIAL))
    tokenizer.train_from_iterator(texts, trainer)
    encode_texts = tokenizer.get_vocab()
    return sorted(encode_texts.keys() - set(SPECIAL), key=encode_texts.__getitem__)


@functools.cache
def _one_word() -> re.Pattern[str]:
    return re.compile(PATTERN)


@functools.cache
def _any_case() -> re.Pattern[str]:
    return re.compile(PATTERN, re.IGNORECASE)


def is_spaced_word(word: str) -> bool:
    """Whether the tokeniser for words between spaces can make this very word."""
    return word == word.lower() and word.split() == [word]


def is_word(word: str) -> bool:
    """Whether the tokeniser can make this very word."""
    found = _one_word().match(word)
    return found is not None and found.end() == len(word) and word == word.lower()


def _without_surrogates(text: str) -> str:
    """A text without halves of characters (lone surrogates), which the tokeniser could not take."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def encode_texts(tokenizer: Tokenizer, texts: Sequence[str], limit: int) -> tuple[list[list[int]], int]:
    """The word numbers of each text, cut after `limit` words (0: never), and how many texts were cut."""
    whole = [_without_surrogates(text) for text in texts]
    found = tokenizer.encode_batch_fast(whole)
    if not limit:
        return [encoding.ids for encoding in found], 0
    cut = [
        encoding.ids if len(encoding.ids) <= limit else [encoding.ids[place] for place in kept_indices(encoding, limit)]
        for encoding in found
    ]
    return cut, sum(len(encoding.ids) > limit for encoding in found)


def encode_word_lists(tokenizer: Tokenizer, sentences: Sequence[Sequence[str]]) -> list[list[int]]:
    """The number of each word of sentences that come in words, by a tokeniser for words between spaces."""
    whole = [
        [word if word.isascii() else word.encode("utf-8", "replace").decode("utf-8") for word in words] for words in sentences
    ]
    found = tokenizer.encode_batch_fast(whole, is_pretokenized=True)
    rows = [encoding.ids for encoding in found]
    assert all(len(row) == len(words) for row, words in zip(rows, sentences, strict=True))
    return rows


def split_text(tokenizer: Tokenizer, text: str) -> list[str]:
    """The words of running text, for a tokeniser of words between spaces.

    A piece between spaces that it knows stays whole; any other is split as running text is ("plan." -> "plan", ".").
    """
    words: list[str] = []
    for piece in unicodedata.normalize("NFC", _without_surrogates(text)).split():
        known = tokenizer.token_to_id(tokenizer.normalizer.normalize_str(piece)) is not None
        words += [piece] if known else _any_case().findall(piece.translate(_STRAIGHT)) or [piece]
    return words


def kept_indices(encoding: Encoding, limit: int) -> list[int]:
    """Which tokens of a text are read: at most `limit` (0: all), among them the signs that end it."""
    count = len(encoding.ids)
    if not limit or count <= limit:
        return list(range(count))
    end = 0
    while end < limit and encoding.special_tokens_mask[-1 - end]:
        end += 1
    return [*range(limit - end), *range(count - end, count)]
