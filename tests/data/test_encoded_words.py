"""Sentences as word pieces: the words of the pieces, windows of long sentences, and the shapes of words."""

import random

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from mtsa.data.encoded_words import FILLER, encode_word_pieces, encode_word_tokens
from mtsa.data.tokenization import separate_words, split_text, word_tokenizer
from mtsa.data.word_shapes import SHAPES, word_shape
from mtsa.errors import InputError
from tests.tiny_bert import write_bert


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return Tokenizer.from_file(str(write_bert(tmp_path_factory.mktemp("bert")) / "tokenizer.json"))


def test_a_word_is_its_first_piece(tokenizer):
    encoded = encode_word_pieces(tokenizer, [["The", "Reds", "ab-c", "\u200d", "red"], []], shapes=True)
    names = [tokenizer.id_to_token(number) for number in encoded.rows[0]]
    assert names == ["[CLS]", "the", "red", "##s", "a", "##b", "[UNK]", "c", "red", "[SEP]"]
    assert encoded.word_of[0] == [0, 1, 2, 0, 3, 0, 0, 0, 5, 0]
    assert encoded.counts == [5, 0]
    assert [tokenizer.id_to_token(number) for number in encoded.rows[1]] == ["[CLS]", "[SEP]"]
    assert encoded.shapes == [[7, 7, 4, 1, 4], []]
    batch = encoded.select([1, 0]).batch([0, 1])
    assert batch["attention_mask"].tolist() == [[1, 1] + [0] * 8, [1] * 10]
    assert batch["word_mask"].tolist() == [[0] * 5, [1] * 5]
    assert batch["shapes"].tolist() == [[0] * 5, [7, 7, 4, 1, 4]]
    assert batch["word_of"].tolist()[0] == [0] * 10


def test_each_word_of_a_long_sentence_belongs_to_one_window(tokenizer):
    rng = random.Random(0)
    first, last = (tokenizer.token_to_id(name) for name in ("[CLS]", "[SEP]"))
    for _ in range(200):
        window = rng.randint(4, 20)
        words = [rng.choice(["the", "a", "reds", "abcdefg", "a" * 30, "\u200d"]) for _ in range(rng.randint(0, 60))]
        (row,), (numbers,) = (lambda one: (one.rows, one.word_of))(encode_word_pieces(tokenizer, [words], window=window))
        present = [number for number, word in enumerate(words, 1) if word != "\u200d"]
        assert [number for number in numbers if number] == present  # each once, in order
        for start in range(0, len(row), window):
            part = row[start : start + window]
            real = [number for number in part if number != FILLER]
            assert part[: len(real)] == real  # filler follows
            assert (real[0], real[-1]) == (first, last)
            assert first not in real[1:]
        assert row[-1] != FILLER


def test_words_of_a_window_have_context_on_both_sides(tokenizer):
    (row,), (numbers,) = (lambda one: (one.rows, one.word_of))(encode_word_pieces(tokenizer, [["red"] * 200], window=42))
    for place, number in enumerate(numbers):
        if number:
            inside = place % 42
            assert inside > 5 or number <= 40  # words of the first window have no other
            assert inside < 36 or number > 160
    assert len(row) > 200 + 2 * 5


def test_batches_mask_the_positions_between_windows(tokenizer):
    encoded = encode_word_pieces(tokenizer, [["abcdefg"] * 5, ["red"]], window=12)
    batch = encoded.batch([0, 1])
    gaps = [place for place, number in enumerate(encoded.rows[0]) if number == FILLER]
    assert gaps
    assert not batch["attention_mask"][0, gaps].any()
    assert batch["input_ids"].min() == 0
    assert batch["attention_mask"].sum(1).tolist() == [len(encoded.rows[0]) - len(gaps), 3]


def test_a_window_without_room_is_refused(tokenizer):
    with pytest.raises(InputError, match=r"tokens.max_length is 2, but sentences have 2 special tokens; set it to at least 3"):
        encode_word_pieces(tokenizer, [["red"]], window=2)
    assert encode_word_pieces(tokenizer, [["red", "reds"]], window=3).word_of == [[0, 1, 0, 0, 2, 0]]


@pytest.mark.parametrize("nested", [False, True])
def test_words_are_encoded_as_in_running_text(nested):
    letters = {letter: number for number, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    pieces = {"Ġr": 300, "ed": 301, "Ġred": 302}
    tokenizer = Tokenizer(models.BPE({**letters, **pieces}, [("Ġ", "r"), ("e", "d"), ("Ġr", "ed")]))
    level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(), level]) if nested else level
    changed = separate_words(tokenizer)
    encoded = changed.encode(["red", "red"], is_pretokenized=True)
    assert encoded.tokens == ["Ġred", "Ġred"]
    assert tokenizer.encode(["red", "red"], is_pretokenized=True).tokens == ["r", "ed", "r", "ed"]
    assert encode_word_pieces(changed, [["red", "reds"]]).word_of == [[1, 2, 0]]


def test_metaspace_begins_every_word():
    tokenizer = Tokenizer(models.Unigram([("<unk>", 0.0), ("▁red", -1.0), ("red", -1.5)], unk_id=0))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    assert separate_words(tokenizer).encode(["red", "red"], is_pretokenized=True).tokens == ["▁red", "▁red"]


def test_shapes_of_words():
    words = ["...", "1,000", "B2B", "it's", "I", "NASA", "Oslo", "iPhone", "東京", "'M", "U.S."]
    assert [word_shape(word) for word in words] == [1, 2, 3, 4, 5, 6, 7, 8, 8, 5, 6]
    assert max(map(word_shape, words)) == SHAPES - 1


def test_word_tokens_have_shapes_too():
    encoded = encode_word_tokens(word_tokenizer(["red"], spaced=True), [["Red", "a", "RED"]], limit=2, shapes=True)
    assert (encoded.rows, encoded.shapes, encoded.word_counts) == ([[2, 1]], [[7, 4]], [2])


def test_texts_are_split_without_a_vocabulary():
    assert split_text(None, "Don't e-mail the U.S. plan.") == ["Do", "n't", "e", "-", "mail", "the", "U.S.", "plan", "."]
