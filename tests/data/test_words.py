"""Words, vectors and batches."""

import gzip
import zipfile

import pytest
import torch

from mtsa.data import batching, embeddings, tokenization
from mtsa.errors import InputError

SENTENCES = {
    "I don't know, it's John's.": "i do n't know , it 's john 's .",
    "The U.S. paid $1,000.50 at 10:30!": "the u.s. paid $ 1,000.50 at 10:30 !",
    "well-known caf\u00e9\u2019s 3rd \u201cact\u201d": 'well - known caf\u00e9 \'s 3rd " act "',
    "do n't split twice": "do n't split twice",
    "  ": "",
}


@pytest.mark.parametrize("text", SENTENCES)
def test_words_are_cut_as_the_vectors_have_them(text):
    expected = SENTENCES[text].split()
    tokenizer = tokenization.word_tokenizer(sorted(set(expected)))
    assert tokenizer.encode(text).tokens == expected
    assert all(tokenization.is_word(word) for word in expected)


def test_words_the_tokeniser_never_makes_are_known():
    assert not tokenization.is_word("well-known")
    assert not tokenization.is_word("The")
    assert not tokenization.is_word("don't")
    assert tokenization.is_word("n't")


def test_words_are_counted_and_numbered_by_frequency():
    texts = ["b a a", "A c b", "a d"]
    assert tokenization.count_words(texts) == ["a", "b", "c", "d"]
    assert tokenization.count_words(texts, least=2) == ["a", "b"]
    tokenizer = tokenization.word_tokenizer(["a", "b"])
    assert tokenization.encode_texts(tokenizer, ["a z b", ""], 0) == ([[2, 1, 3], []], 0)
    assert tokenization.encode_texts(tokenizer, ["a z b", "a"], 2) == ([[2, 1], [2]], 1)


GLOVE = "the 0.1 0.2 0.3\nof 1 2 3\n. . 7 8 9\nrare -1 -2 -3\nother 4 5 6\n"


def packed(folder, kind, text=GLOVE):
    path = folder / f"v.txt{kind}"
    if kind == ".gz":
        with gzip.open(path, "wt") as file:
            file.write(text)
    elif kind == ".zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("v.txt", text)
    else:
        path.write_text(text)
    return path


@pytest.mark.parametrize("kind", ["", ".gz", ".zip"])
def test_vectors_wanted_and_others(tmp_path, kind):
    found = embeddings.read_vectors(packed(tmp_path, kind), {"of", "rare", "missing"}, others=2)
    assert found.width == 3
    assert {word: row.tolist() for word, row in found.wanted.items()} == {"of": [1, 2, 3], "rare": [-1, -2, -3]}
    assert found.others == ["the", ". ."]
    torch.testing.assert_close(found.other_rows, torch.tensor([[0.1, 0.2, 0.3], [7, 8, 9]]))


def test_a_word2vec_header_is_passed_over(tmp_path):
    assert embeddings.read_vectors(packed(tmp_path, "", "5 3\n" + GLOVE), {"the"}).width == 3


FAULTS = {
    "empty": ("", "contains no word vectors"),
    "cut off": (GLOVE + "word 1 2", "line 6: 2 values, but the previous lines have 3"),
    "no number": (GLOVE + "word 1 x 2\n", "line 6: a value is not a number"),
    "nan": (GLOVE + "word 1 nan 2\n", "line 6: a value is not finite"),
    "text": ("hello\n", "line 1: not a word vector"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_of_vector_files(tmp_path, fault):
    text, message = FAULTS[fault]
    with pytest.raises(InputError, match=message):
        embeddings.read_vectors(packed(tmp_path, "", text), {"word"})


def test_damaged_and_ambiguous_archives(tmp_path):
    whole = packed(tmp_path, ".gz").read_bytes()
    (tmp_path / "half.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="damaged"):
        embeddings.read_vectors(tmp_path / "half.gz", {"the"})
    (tmp_path / "bad.zip").write_bytes(b"no zip")
    with pytest.raises(InputError, match="not a valid zip file"):
        embeddings.read_vectors(tmp_path / "bad.zip", {"the"})
    with zipfile.ZipFile(tmp_path / "empty.zip", "w"):
        pass
    with pytest.raises(InputError, match="an empty archive"):
        embeddings.read_vectors(tmp_path / "empty.zip", {"the"})
    locked = bytearray(packed(tmp_path, ".zip").read_bytes())
    locked[6] |= 1  # the flag of encryption, in the entry and in the directory
    locked[locked.index(b"PK\x01\x02") + 8] |= 1
    (tmp_path / "locked.zip").write_bytes(locked)
    with pytest.raises(InputError, match=r"v\.txt is encrypted"):
        embeddings.read_vectors(tmp_path / "locked.zip", {"the"})
    with zipfile.ZipFile(tmp_path / "two.zip", "w") as archive:
        archive.writestr("a.txt", GLOVE)
        archive.writestr("b.txt", GLOVE)
    with pytest.raises(InputError, match=r"--set vectors.member=a.txt"):
        embeddings.read_vectors(tmp_path / "two.zip", {"the"})
    assert embeddings.read_vectors(tmp_path / "two.zip", {"the"}, member="b.txt").width == 3


def test_an_epoch_holds_everything_once_and_follows_from_seed_and_epoch():
    lengths = [number % 37 + 1 for number in range(1009)]
    first = batching.shuffled_batches(lengths, 16, seed=3, epoch=1)
    assert sorted(number for batch in first for number in batch) == list(range(1009))
    assert first == batching.shuffled_batches(lengths, 16, seed=3, epoch=1)
    assert first != batching.shuffled_batches(lengths, 16, seed=3, epoch=2)
    assert first != batching.shuffled_batches(lengths, 16, seed=4, epoch=1)
    places = sum(len(batch) * max(lengths[number] for number in batch) for batch in first)
    assert 1.0 - sum(lengths) / places < 0.06
    assert min(map(len, first)) >= 8  # so that every process has a share of each


def test_sorted_batches_keep_to_their_budget():
    lengths = [5, 900, 3, 50, 50, 50, 1]
    found = batching.sorted_batches(lengths, tokens=100, most=3)
    assert sorted(number for batch in found for number in batch) == list(range(7))
    for batch in found:
        assert len(batch) <= 3
        assert len(batch) == 1 or len(batch) * max(lengths[number] for number in batch) <= 100


def test_padded_rows():
    ids, mask = batching.pad_rows([[5, 6, 7], [], [8]])
    assert ids.tolist() == [[5, 6, 7], [0, 0, 0], [8, 0, 0]]
    assert mask.sum(1).tolist() == [3, 0, 1]
    assert batching.pad_rows([[]])[0].shape == (1, 1)


@pytest.mark.parametrize("least", [1, 4, 8])
def test_no_batch_by_words_is_smaller_than_the_least(least):
    """Not even the rest of the last pool."""
    for count in (1501, 1500, 47):
        found = batching.shuffled_batches([4] * count, 1, tokens=120, least=least, seed=0, epoch=0)
        assert sorted(place for batch in found for place in batch) == list(range(count))
        assert min(map(len, found)) >= least
