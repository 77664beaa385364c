"""Word tokenization: lower-cased words as in the GloVe vectors. The tokenizer is saved with the model."""

from __future__ import annotations

import functools
import json
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

# In order: u.s., 1,000.50, the stem of don't, n't, 's and similar, words, any other single character.
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
_SENTENCE_ENDS = (".", "!", "?", "...", "\u2026", "\u3002", "\uff01", "\uff1f", "\u0964", "\u061f")
_WORD_STARTS = ("", "\u2581", "\u0120")  # of tokens that begin a word, in SentencePiece and in byte-level BPE
_SEPARATORS = ("[SEP]", "</s>")
_STRAIGHT = str.maketrans(_QUOTES)


def word_tokenizer(words: Sequence[str] = (), *, paired: bool = False, spaced: bool = False) -> Tokenizer:
    """Return a tokenizer with these words as vocabulary, in order, after the special tokens.

    With `paired`, two texts are concatenated and distinguished by the token types 0 and 1. With `spaced`, words are separated
    by spaces, as in tagged sentences.
    """
    vocabulary = {word: number for number, word in enumerate((*SPECIAL, *words))}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token=UNKNOWN))
    replaced = [Replace(typed, plain) for typed, plain in _QUOTES.items()]
    tokenizer.normalizer = NormalizerSequence([NFC(), *replaced, Lowercase()])
    tokenizer.pre_tokenizer = WhitespaceSplit() if spaced else Split(Regex(PATTERN), "removed", invert=True)
    return set_special_tokens(tokenizer, paired=True) if paired else tokenizer


def set_special_tokens(tokenizer: Tokenizer, *, paired: bool) -> Tokenizer:
    """Turn off padding and truncation; with `paired`, add the special tokens of a single text to each text of a pair."""
    tokenizer.no_padding()
    tokenizer.no_truncation()
    if paired:
        encoding = tokenizer.encode("a")
        before = encoding.special_tokens_mask.index(0)
        added = [encoding.tokens[index] for index, special in enumerate(encoding.special_tokens_mask) if special]
        sides = [[*added[:before], side, *added[before:]] for side in ("$A", "$B")]
        single, second = (" ".join(f"{piece}:{number}" for piece in side) for number, side in enumerate(sides))
        ids = [(token, tokenizer.token_to_id(token)) for token in dict.fromkeys(added)]
        tokenizer.post_processor = TemplateProcessing(single=single, pair=f"{single} {second}", special_tokens=ids)
    return tokenizer


def sentence_end_ids(tokenizer: Tokenizer) -> list[int]:
    """Return the ids of the tokens that end a sentence: final punctuation, and the tokens after a text."""
    names = [*_SEPARATORS, *(before + sign for sign in _SENTENCE_ENDS for before in _WORD_STARTS)]
    found = (tokenizer.token_to_id(name) for name in names)
    return sorted({number for number in found if number is not None})


def joins_pairs(tokenizer: Tokenizer) -> bool:
    """Return whether the tokenizer puts a special token between the two texts of a pair."""
    encoding = tokenizer.encode("a", "a")
    sides = encoding.sequence_ids
    return None in sides[sides.index(0) : len(sides) - sides[::-1].index(1)] if {0, 1} <= set(sides) else False


def count_words(texts: Iterable[str], *, least: int = 1, spaced: bool = False) -> list[str]:
    """Return the words that occur at least `least` times, the most frequent first."""
    tokenizer = word_tokenizer(spaced=spaced)
    trainer = WordLevelTrainer(vocab_size=2**31 - 1, min_frequency=least, show_progress=False, special_tokens=list(SPECIAL))
    tokenizer.train_from_iterator(texts, trainer)
    vocabulary = tokenizer.get_vocab()
    return sorted(vocabulary.keys() - set(SPECIAL), key=vocabulary.__getitem__)


@functools.cache
def _one_word() -> re.Pattern[str]:
    return re.compile(PATTERN)


@functools.cache
def _any_case() -> re.Pattern[str]:
    return re.compile(PATTERN, re.IGNORECASE)


def is_spaced_word(word: str) -> bool:
    """Return whether the tokenizer of words separated by spaces can produce this word."""
    return word == word.lower() and word.split() == [word]


def is_word(word: str) -> bool:
    """Return whether the tokenizer can produce this word."""
    match = _one_word().match(word)
    return match is not None and match.end() == len(word) and word == word.lower()


def _without_surrogates(text: str) -> str:
    """A text without lone surrogates, which tokenizers cannot encode."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def encode_texts(tokenizer: Tokenizer, texts: Sequence[str], limit: int) -> tuple[list[list[int]], int]:
    """Return the token ids of each text, truncated to `limit` tokens (0: never), and the number of truncated texts."""
    whole = [_without_surrogates(text) for text in texts]
    found = tokenizer.encode_batch_fast(whole)
    if not limit:
        return [encoding.ids for encoding in found], 0
    rows = [encoding.ids for encoding in found]  # a new list at each access
    cut = [
        ids if len(ids) <= limit else [ids[place] for place in kept_indices(encoding, limit)]
        for ids, encoding in zip(rows, found, strict=True)
    ]
    return cut, sum(len(ids) > limit for ids in rows)


def encode_pairs(
    tokenizer: Tokenizer, firsts: Sequence[str], seconds: Sequence[str], limit: int
) -> tuple[list[Encoding], int]:
    """Return both texts of each pair as one sequence with special tokens, and the number of truncated pairs.

    Above `limit` tokens (0: never), the longer text is truncated first, as with the strategy "longest_first" of `tokenizers`.
    """
    added = tokenizer.num_special_tokens_to_add(is_pair=True)
    sides = [tokenizer.encode_batch([_without_surrogates(text) for text in side], add_special_tokens=False)
             for side in (firsts, seconds)]  # fmt: skip
    found, truncated = [], 0
    for first, second in zip(*sides, strict=True):
        room = max(0, limit - added) if limit else len(first.ids) + len(second.ids)
        if len(first.ids) + len(second.ids) > room:
            truncated += 1
            shorter, longer = sorted((first, second), key=lambda side: len(side.ids))
            shorter.truncate(min(len(shorter.ids), room // 2))
            longer.truncate(room - len(shorter.ids))
        found.append(tokenizer.post_process(first, second, add_special_tokens=True))
    return found, truncated


def encode_word_lists(tokenizer: Tokenizer, sentences: Sequence[Sequence[str]]) -> list[list[int]]:
    """Return the token ids of sentences that are given as words, by a tokenizer of words separated by spaces."""
    found = tokenizer.encode_batch_fast([encodable_words(words) for words in sentences], is_pretokenized=True)
    rows = [encoding.ids for encoding in found]
    assert all(len(row) == len(words) for row, words in zip(rows, sentences, strict=True))
    return rows


def encodable_words(words: Sequence[str]) -> list[str]:
    """Return words without lone surrogates, which tokenizers cannot encode."""
    return [_without_surrogates(word) for word in words]


def special_ids(tokenizer: Tokenizer) -> tuple[list[int], list[int]]:
    """Return the ids of the special tokens before and after a single text."""
    encoding = tokenizer.encode("a")
    places = [place for place, special in enumerate(encoding.special_tokens_mask) if not special]
    return encoding.ids[: places[0]], encoding.ids[places[-1] + 1 :]


def separate_words(tokenizer: Tokenizer) -> Tokenizer:
    """Return the tokenizer for texts that are given as words: every word is encoded as after a space in running text.

    Byte-level and Metaspace tokenizers distinguish pieces after a space from others.
    """
    state = json.loads(tokenizer.to_str())
    steps = [state["pre_tokenizer"]]
    while steps:
        step = steps.pop() or {}
        steps += step.get("pretokenizers", [])
        if step.get("type") == "ByteLevel":
            step["add_prefix_space"] = True
        elif step.get("type") == "Metaspace":
            step["prepend_scheme"] = "always"
    return Tokenizer.from_str(json.dumps(state))


def split_text(tokenizer: Tokenizer | None, text: str) -> list[str]:
    """Return the words of running text.

    With a tokenizer of words separated by spaces, a known piece between spaces is one word. Any other is split like running
    text ("plan." -> "plan", ".").
    """
    words: list[str] = []
    for piece in unicodedata.normalize("NFC", _without_surrogates(text)).split():
        known = tokenizer is not None and tokenizer.token_to_id(tokenizer.normalizer.normalize_str(piece)) is not None
        words += [piece] if known else _any_case().findall(piece.translate(_STRAIGHT)) or [piece]
    return words


def kept_indices(encoding: Encoding, limit: int) -> list[int]:
    """Return the indices of the tokens that remain after truncation to `limit` (0: all), final special tokens included."""
    count = len(encoding.ids)
    if not limit or count <= limit:
        return list(range(count))
    end = 0
    while end < limit and encoding.special_tokens_mask[-1 - end]:
        end += 1
    return [*range(limit - end), *range(count - end, count)]
