"""Sentence vectors: from Python, into files, and inside sentence-transformers."""

import numpy
import pytest
import torch
from safetensors.torch import load_file
from typer.testing import CliRunner

import mtsa
from mtsa.cli import app
from mtsa.errors import InputError
from mtsa.inference.vector_files import vector_file
from mtsa.training.run import run_recipe
from tests.sample_data import pair_recipe, pairs, sentences, small_recipe, write_csv, write_pairs

TEXTS = ["the red there", "", "plum", "a very old pear was here", "the the the"]


@pytest.fixture(scope="module", params=["single", "pair"])
def predictor(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "single":
        recipe = small_recipe(write_csv(folder / "train.csv", sentences(60)), epochs=1)
    else:
        recipe = pair_recipe(write_pairs(folder / "train.jsonl", pairs(60)), epochs=1)
    run_recipe(recipe, folder / "run")
    return mtsa.load(folder / "run")


def test_vectors_are_what_the_head_reads(predictor):
    found = predictor.embed(TEXTS)
    assert found.shape == (5, 10)
    assert torch.equal(found[1], torch.zeros(10))
    model = predictor.run.model
    for text, vector in zip(TEXTS, found, strict=True):
        ids = torch.tensor([predictor.run.tokenizer.encode(text).ids or [0]])
        torch.testing.assert_close(model.sentences(ids, ids.ne(0)).vectors[0], vector, rtol=0, atol=1e-6)
    with pytest.raises(InputError, match=r"embed\(\[text\]\)"):
        predictor.embed("a text")
    with pytest.raises(InputError, match="None is a NoneType"):
        predictor.embed([None])


@pytest.mark.parametrize("ending", [".npy", ".safetensors"])
def test_files_hold_the_vectors_in_order(ending, predictor, tmp_path):
    source, out = tmp_path / "texts.csv", tmp_path / f"vectors{ending}"
    source.write_text("label,text\n" + "".join(f"x,{text}\n" for text in TEXTS))
    result = CliRunner().invoke(app, ["embed", str(predictor.run.folder), str(source), "--out", str(out)])
    assert result.exit_code == 0, result.output
    read = torch.from_numpy(numpy.load(out)) if ending == ".npy" else load_file(out)["vectors"]
    torch.testing.assert_close(read, predictor.embed(TEXTS), rtol=0, atol=1e-6)
    piped = CliRunner().invoke(
        app, ["embed", str(predictor.run.folder), "-", "--out", str(out)], input="\n".join(TEXTS) + "\n"
    )
    assert piped.exit_code == 0, piped.output
    again = torch.from_numpy(numpy.load(out)) if ending == ".npy" else load_file(out)["vectors"]
    assert torch.equal(again, read)


def test_a_file_appears_whole_or_not_at_all(tmp_path):
    def broken():
        with vector_file(tmp_path / "v.npy", 3) as put:
            put(torch.ones(2, 3))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        broken()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(InputError, match=r"extension must be .npy or .safetensors"), vector_file(tmp_path / "v.csv", 3):
        pass
    with vector_file(tmp_path / "none.npy", 3):
        pass
    assert numpy.load(tmp_path / "none.npy").shape == (0, 3)


def test_sentence_transformers_gives_the_same_vectors(predictor, tmp_path):
    from sentence_transformers import SentenceTransformer

    from mtsa.interop import sentence_transformer

    expected = predictor.embed(TEXTS)
    model = sentence_transformer(predictor.run.folder)
    assert model.get_embedding_dimension() == 10
    for loaded in (model, SentenceTransformer(str(predictor.run.folder), trust_remote_code=True, device="cpu")):
        found = torch.from_numpy(loaded.encode(TEXTS, show_progress_bar=False))
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)
    with torch.no_grad():
        model[0].model.words.tuned.mul_(2.0)
    model.save(str(tmp_path / "copy"))
    copied = SentenceTransformer(str(tmp_path / "copy"), trust_remote_code=True, device="cpu")
    changed = torch.from_numpy(copied.encode(TEXTS, show_progress_bar=False))
    assert not torch.allclose(changed, expected)
    torch.testing.assert_close(changed, mtsa.load(tmp_path / "copy").embed(TEXTS), rtol=0, atol=1e-6)
