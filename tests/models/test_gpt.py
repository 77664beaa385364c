"""The causal language model with tensorized attention: training, loading, generation."""

import dataclasses
import json

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer, OpenAIGPTConfig, OpenAIGPTLMHeadModel

from mtsa.errors import InputError
from mtsa.models.gpt import MtsaGPTConfig, MtsaGPTLMHeadModel
from mtsa.models.pretrained import PretrainedVectors, is_language_model, max_input_length
from mtsa.training.language_model import Setting, pretrain
from tests.sample_data import pairs

SIZES = {"vocab_size": 50, "n_positions": 40, "n_embd": 16, "n_layer": 2, "n_head": 4}
SMALL = Setting(attention="mtsa", layers=2, width=16, tokens=300, length=32, batch=8, steps=30, learning_rate=1e-2, warmup=3)


def make_model(**options):
    torch.manual_seed(0)
    return MtsaGPTLMHeadModel(MtsaGPTConfig(**SIZES, **options)).eval()


def test_it_has_about_as_many_parameters_as_gpt():
    sizes = {**SIZES, "n_embd": 128}
    own, gpt = MtsaGPTLMHeadModel(MtsaGPTConfig(**sizes)), OpenAIGPTLMHeadModel(OpenAIGPTConfig(**sizes))
    counts = [sum(value.numel() for value in model.parameters()) for model in (own, gpt)]
    assert counts[0] == pytest.approx(counts[1], rel=0.005)


def test_a_token_depends_on_earlier_tokens_only():
    model, ids = make_model(), torch.randint(50, (2, 9))
    changed = ids.clone()
    changed[:, 5:] = 7
    first, second = (model(given).logits for given in (ids, changed))
    torch.testing.assert_close(first[:, :5], second[:, :5])
    assert not torch.allclose(first[:, 5:], second[:, 5:])
    mask = torch.tensor([[1] * 9, [1] * 4 + [0] * 5])
    torch.testing.assert_close(model(ids, mask).logits[1, :4], model(ids[1:, :4]).logits[0])


@pytest.mark.parametrize("masks", ["causal", "window(3) & causal"])
def test_generation_equals_repeated_full_passes(masks):
    model = make_model(masks=masks)
    ids, lengths = torch.randint(1, 50, (3, 9)), (9, 4, 1)
    mask = (torch.arange(9) < torch.tensor(lengths)[:, None]).long()
    generated = model.train().generate(ids, mask, max_new_tokens=25)
    assert model.training
    model.eval()
    for b, length in enumerate(lengths):
        expected = ids[b : b + 1, :length]
        for _ in range(25):
            expected = torch.cat([expected, model(expected).logits[:, -1:].argmax(-1)], 1)
        assert generated[b, : length + 25].tolist() == expected[0].tolist()
        assert (generated[b, length + 25 :] == 0).all()


def test_generation_ends_at_the_end_token():
    model, ids = make_model(), torch.randint(1, 50, (2, 5))
    free = model.generate(ids, max_new_tokens=10)
    end = int(free[0, 7])
    stop = free[0, 5:].tolist().index(end) + 6
    ended = model.generate(ids, max_new_tokens=10, eos_token_id=end, pad_token_id=49)
    assert ended[0, :stop].tolist() == free[0, :stop].tolist()
    assert (ended[0, stop:] == 49).all()


def test_sampling_follows_seed_temperature_and_top_k():
    model, ids = make_model(), torch.randint(1, 50, (4, 3))
    options = {"max_new_tokens": 30, "do_sample": True}

    def sample(seed, **more):
        return model.generate(ids, generator=torch.Generator().manual_seed(seed), **options, **more)

    assert torch.equal(sample(1), sample(1))
    assert not torch.equal(sample(1), sample(2))
    greedy = model.generate(ids, max_new_tokens=30)
    assert torch.equal(sample(1, top_k=1), greedy)
    assert torch.equal(sample(1, temperature=1e-4), greedy)


def test_wrong_arguments_are_one_clear_sentence():
    model, ids = make_model(), torch.randint(1, 50, (2, 5))
    with pytest.raises(ValueError, match=r"prompt length \(5\) plus max_new_tokens \(36\) exceeds the 40"):
        model.generate(ids, max_new_tokens=36)
    with pytest.raises(ValueError, match="41 tokens, but the model supports at most 40"):
        model(torch.ones(1, 41, dtype=torch.long))
    assert model.generate(ids, max_new_tokens=35).shape == (2, 40)
    with pytest.raises(ValueError, match="every prompt must have at least one token"):
        model.generate(ids, torch.tensor([[1] * 5, [0] * 5]))
    with pytest.raises(ValueError, match=r"max_new_tokens \(0\) must be at least 1"):
        model.generate(ids, max_new_tokens=0)


def test_it_is_pretrained_saved_and_loaded(tmp_path):
    texts = [side for first, second, _, _ in pairs(300) for side in (first, second)]
    loss = pretrain(texts, tmp_path / "model", SMALL)
    record = json.loads((tmp_path / "model" / "record.json").read_text())
    assert record["dev_loss"] == loss < 4.0  # guessing gives log(300) = 5.7
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "model")
    stored = load_file(tmp_path / "model" / "model.safetensors")
    assert record["parameters"] == sum(value.numel() for value in model.parameters())
    assert all(torch.equal(value, stored[name]) for name, value in model.state_dict().items())
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "model")
    ids = tokenizer("the red", return_tensors="pt").input_ids
    assert len(tokenizer.decode(model.generate(ids, max_new_tokens=5)[0]).split()) > 2
    with pytest.raises(InputError, match="contains a finished model"):
        pretrain(texts, tmp_path / "model", dataclasses.replace(SMALL, attention="multihead"))


def test_it_replaces_word_vectors_as_gpt_does():
    model = make_model()
    model.config.architectures = ["MtsaGPTLMHeadModel"]
    assert is_language_model(model.config)
    assert max_input_length(model.config) == 40
    words = PretrainedVectors(model.config.to_dict()).eval()
    words.model.load_state_dict(model.transformer.state_dict())
    ids, keep = torch.randint(1, 50, (1, 6)), torch.ones(1, 6, dtype=torch.bool)
    total, count = words.language_loss(words(ids, keep), ids, keep)
    assert (total / count).item() == pytest.approx(model(ids, labels=ids).loss.item(), rel=1e-5)
