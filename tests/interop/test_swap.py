"""Tensorized attention inside models of `transformers`: neutral scores change nothing, and models load whole."""

import copy
import json
import math
import pickle
import subprocess
import sys

import pytest
import torch
import transformers
from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM, AutoModelForSequenceClassification

from mtsa.errors import InputError
from mtsa.interop import replace_self_attention
from mtsa.models.attention_patching import ARCHITECTURES, patched_model_class
from mtsa.models.patched_attention import PatchOptions, padding_mask
from mtsa.nn.reference import attend
from mtsa.nn.spec import make_spec

_SIZES = {"vocab_size": 50, "max_position_embeddings": 40}
_BERT = {**_SIZES, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 37}
_BART = {
    **_SIZES, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 37, "decoder_ffn_dim": 37, "pad_token_id": 1, "bos_token_id": 0,
    "eos_token_id": 2, "decoder_start_token_id": 2,
}  # fmt: skip
_DISTIL = {**_SIZES, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 37}
MODELS = {
    "bert": ("BertForMaskedLM", _BERT),
    "roberta": ("RobertaForSequenceClassification", _BERT),
    "distilbert": ("DistilBertForTokenClassification", _DISTIL),
    "bart": ("BartForConditionalGeneration", _BART),
    "marian": ("MarianMTModel", {**_BART, "forced_eos_token_id": None}),
    "m2m_100": ("M2M100ForConditionalGeneration", _BART),
}
every = pytest.mark.parametrize("kind", MODELS)


def made(kind):
    torch.manual_seed(0)
    name, options = MODELS[kind]
    config = getattr(transformers, ARCHITECTURES[kind].config)(**options)
    return getattr(transformers, name)(config).eval()


def inputs(kind):
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(4, 50, (3, 9), generator=generator)
    mask = torch.ones_like(ids)
    mask[0, 5:], mask[1, 2:] = 0, 0
    more = {"decoder_input_ids": ids} if MODELS[kind][1] is not _BERT and kind != "distilbert" else {}
    return {"input_ids": ids, "attention_mask": mask, **more}


def stir(model):
    """Scores that matter."""
    with torch.no_grad():
        for name, value in model.named_parameters():
            if ".source." in name:
                value.normal_(std=3.0, generator=torch.Generator().manual_seed(len(name)))
    return model


def test_every_supported_kind_is_tested():
    assert set(MODELS) == set(ARCHITECTURES)


@every
@pytest.mark.parametrize("source", ["value", "key"])
def test_neutral_scores_change_nothing(kind, source):
    model = made(kind)
    before = model(**inputs(kind)).logits
    weights = {name: value.clone() for name, value in model.state_dict().items()}
    swapped = replace_self_attention(model, source_input=source)
    assert swapped is model
    assert isinstance(model, getattr(transformers, MODELS[kind][0]))
    torch.testing.assert_close(model(**inputs(kind)).logits, before, rtol=1e-5, atol=1e-6)
    after = model.state_dict()
    assert all(torch.equal(after[name], value) for name, value in weights.items())
    layers = 2 * (2 if source == "value" else 4)
    assert len(after.keys() - weights.keys()) == layers
    torch.testing.assert_close(
        replace_self_attention(made(kind), source_input=source, source_activation="logsigmoid", source_bias=5.0)(
            **inputs(kind)
        ).logits,
        before,
        rtol=1e-5,
        atol=1e-6,
    )  # a constant score cancels


@every
def test_source_scores_and_masks_change_the_output(kind):
    plain = replace_self_attention(made(kind))(**inputs(kind)).logits
    model = stir(replace_self_attention(made(kind)))
    assert (model(**inputs(kind)).logits - plain).abs().max() > 1e-6
    masked = replace_self_attention(made(kind), masks="halves")
    assert (masked(**inputs(kind)).logits - plain).abs().max() > 1e-6


@every
@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_values_at_padded_positions_do_not_affect_the_output(kind, implementation):
    model = made(kind)
    model.set_attn_implementation(implementation)
    model = stir(replace_self_attention(model, masks="halves", score_activation="logsigmoid"))
    given = inputs(kind)
    real = given["attention_mask"].bool()
    other = dict(given, input_ids=torch.where(real, given["input_ids"], 4 + (given["input_ids"] + 11) % 46))
    assert (other["input_ids"] != given["input_ids"]).equal(~real)
    out, again = model(**given).logits, model(**other).logits
    if out.shape[:2] == real.shape and "decoder_input_ids" not in given:  # a row of logits for each token
        out, again = out[real], again[real]
    torch.testing.assert_close(again, out)
    seen = model(**dict(given, attention_mask=torch.ones_like(given["attention_mask"]))).logits
    assert (seen - model(**given).logits).abs().max() > 1e-6  # without the mask they would


@every
def test_only_the_encoder_is_swapped(kind):
    model = replace_self_attention(made(kind))
    names = [name for name, module in model.named_modules() if type(module).__name__.startswith("Mtsa") and name]
    assert len([name for name in names if "attn" in name or "attention" in name]) == 2
    assert not any("decoder" in name for name in names)


@every
def test_a_swapped_model_is_saved_and_loaded_whole(kind, tmp_path):
    import mtsa.hub  # noqa: F401

    model = stir(replace_self_attention(made(kind), masks="halves", source_input="key", source_activation="logsigmoid"))
    wanted = model(**inputs(kind)).logits
    model.save_pretrained(tmp_path)
    config = AutoConfig.from_pretrained(tmp_path)
    assert config.model_type == f"mtsa_{kind}"
    assert config.mtsa == PatchOptions(masks="halves", source_input="key", source_activation="logsigmoid").as_json()
    loaded = patched_model_class(getattr(transformers, MODELS[kind][0])).from_pretrained(tmp_path).eval()
    assert torch.equal(loaded(**inputs(kind)).logits, wanted)
    assert type(loaded) is type(model)
    loaded.save_pretrained(tmp_path / "again")
    first, second = (json.loads((folder / "config.json").read_text()) for folder in (tmp_path, tmp_path / "again"))
    assert first == second
    auto = {"bart": AutoModelForSeq2SeqLM, "marian": AutoModelForSeq2SeqLM, "m2m_100": AutoModelForSeq2SeqLM}.get(
        kind, AutoModel
    )
    found = auto.from_pretrained(tmp_path).eval()
    assert type(found).__name__.startswith("Mtsa")
    assert any(".source." in name for name in found.state_dict())


@every
def test_the_plain_class_does_not_load_half_of_it(kind, tmp_path):
    replace_self_attention(made(kind)).save_pretrained(tmp_path)
    for options in ({}, {"attn_implementation": "eager"}, {"attn_implementation": "sdpa"}):
        with pytest.raises(KeyError, match="mtsa_swapped"):
            getattr(transformers, MODELS[kind][0]).from_pretrained(tmp_path, **options)


@every
@pytest.mark.parametrize("start", ["neutral", "glorot"])
def test_scores_that_no_file_brings_begin_as_the_swap_says(kind, start, tmp_path):
    """A plain folder read by the swapped class: never whatever stood in memory."""
    plain = made(kind)
    plain.save_pretrained(tmp_path)
    wanted = replace_self_attention(made(kind), init=start, source_input="key", source_bias=3.0)
    config = copy.deepcopy(wanted.config)
    loaded = type(wanted).from_pretrained(tmp_path, config=config)
    for name, value in loaded.state_dict().items():
        if ".source." not in name:
            continue
        if name.endswith("score.bias"):
            assert (value == 3.0).all()
        elif name.endswith("bias") or (start == "neutral" and "score" in name):
            assert (value == 0.0).all()
        else:
            assert 0.05 < value.abs().max() < 1.0  # Glorot's bound for 8 x 8 is 0.61
    if start == "neutral":
        torch.testing.assert_close(loaded.eval()(**inputs(kind)).logits, plain(**inputs(kind)).logits, rtol=1e-5, atol=1e-6)


def test_other_models_with_the_same_configuration_stay_as_they_are(tmp_path):
    config = transformers.BertConfig(**_BERT)
    first, second = (transformers.BertForMaskedLM(config) for _ in range(2))
    replace_self_attention(first)
    assert type(second.config) is transformers.BertConfig
    assert second.config is config
    assert all(part.config is first.config for part in first.modules() if hasattr(part, "config"))
    second.save_pretrained(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["model_type"] == "bert"


@pytest.mark.parametrize("start", ["neutral", "glorot"])
def test_the_scores_start_as_asked(start):
    source = replace_self_attention(made("bert"), init=start, source_bias=5.0).bert.encoder.layer[0].attention.self.source
    assert (source.score.bias == 5.0).all()
    assert (source.score.weight == 0).all() == (start == "neutral")


def test_attention_dropout_is_applied_in_training_alone():
    model = stir(replace_self_attention(made("bert")))
    module = model.bert.encoder.layer[0].attention.self
    module.dropout = torch.nn.Dropout(0.4)
    torch.manual_seed(0)
    x = torch.randn(1, 7, 32)
    wanted = module.eval()(x)[0]
    torch.testing.assert_close(module(x)[0], wanted)
    module.train()
    drawn = torch.stack([module(x)[0] for _ in range(3000)])
    assert (drawn[0] - wanted).abs().max() > 1e-3
    assert (drawn.mean(0) - wanted).abs().max() < 0.1 * wanted.abs().max()


def test_a_swapped_model_can_be_pickled():
    model = stir(replace_self_attention(made("bert")))
    again = pickle.loads(pickle.dumps(model))
    assert type(again) is type(model)
    torch.testing.assert_close(again(**inputs("bert")).logits, model(**inputs("bert")).logits)


def test_without_the_hub_import_nothing_loads(tmp_path):
    replace_self_attention(made("bert")).save_pretrained(tmp_path)
    code = f"from transformers import AutoModel; AutoModel.from_pretrained({str(tmp_path)!r})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "mtsa_bert" in done.stderr


def test_attention_maps_come_out_of_models_without_a_head():
    """The class of the model itself is changed here, not only what is inside it; in a process where none was loaded before."""
    code = """
from mtsa.interop import replace_self_attention
from tests.interop.test_swap import MODELS, inputs, made
for kind in MODELS:
    model, given = made(kind).base_model, inputs(kind)
    model.set_attn_implementation("eager")
    given.pop("labels", None)
    found = replace_self_attention(model)(**given, output_attentions=True, output_hidden_states=True)
    encoder = "encoder_" if "decoder_input_ids" in given else ""
    maps, states = found[encoder + "attentions"], found[encoder + "hidden_states"]
    print(kind, len(maps), maps[0].dim(), len(states), states[0].dim())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == [f"{kind} 2 4 3 3" for kind in MODELS], done.stderr


@every
def test_attention_maps_come_out(kind):
    plain, given = made(kind), inputs(kind)
    plain.set_attn_implementation("eager")
    name = "encoder_attentions" if "decoder_input_ids" in given else "attentions"
    before = getattr(plain(**given, output_attentions=True), name)
    after = getattr(replace_self_attention(plain)(**given, output_attentions=True), name)
    assert len(after) == len(before) == 2
    for old, new in zip(before, after, strict=True):
        torch.testing.assert_close(new, old, rtol=1e-5, atol=1e-6)
    masked = made(kind)
    masked.set_attn_implementation("eager")
    maps = getattr(replace_self_attention(masked, masks="halves")(**given, output_attentions=True), name)[0]
    assert (maps[2, 0].triu() == 0).all()  # the first half of the heads: forward
    assert (maps[2, -1].tril() == 0).all()  # the second: backward
    assert math.isclose(maps[2].sum().item(), 4 * 8, rel_tol=1e-5)  # a row without keys sums to 0


@pytest.mark.parametrize("source", ["value", "key"])
def test_the_numbers_are_those_of_the_definition(source):
    options = {"masks": "halves", "score_activation": "logsigmoid", "source_activation": "logsigmoid", "source_input": source}
    model = stir(replace_self_attention(made("bert"), **options))
    module = model.bert.encoder.layer[0].attention.self
    x = torch.randn(2, 7, 32)
    keep = torch.arange(7)[None] < torch.tensor([[7], [4]])
    q, k, v = (part(x).view(2, 7, 4, 8).transpose(1, 2) for part in (module.query, module.key, module.value))

    def dense(values, layer):
        return torch.einsum("bhnd,hde->bhne", values, layer.weight) + layer.bias

    if source == "value":
        raw = dense(v, module.source.score) / math.sqrt(8)
    else:
        raw = dense(dense(k, module.source.hidden).relu(), module.source.score)
    s = torch.nn.functional.logsigmoid(raw)
    spec = make_spec(q, k, v, s, masks="forward*2, backward*2", attention_mask=keep)
    wanted = attend(spec, q, k, v, s).transpose(1, 2).flatten(2)
    mask = keep[:, None, None, :].expand(2, 1, 7, 7)
    torch.testing.assert_close(module(x, attention_mask=mask)[0], wanted)
    added = torch.zeros(2, 1, 7, 7).masked_fill(~mask, torch.finfo(torch.float32).min)
    torch.testing.assert_close(module(x, added)[0], wanted)


def test_training_moves_the_scores():
    model = replace_self_attention(made("bert")).train()
    out = model(**inputs("bert"), labels=inputs("bert")["input_ids"])
    out.loss.backward()
    assert model.bert.encoder.layer[1].attention.self.source.score.weight.grad.abs().sum() > 0


def test_generation_with_and_without_a_cache_takes_the_likeliest_tokens():
    model = stir(replace_self_attention(made("m2m_100"), masks="halves"))
    given = {name: value for name, value in inputs("m2m_100").items() if name != "decoder_input_ids"}
    model.generation_config.eos_token_id = None  # always eight tokens
    answers = [
        model.generate(**given, max_new_tokens=8, do_sample=False, num_beams=1, use_cache=cache) for cache in (True, False)
    ]
    assert torch.equal(*answers)
    answer = torch.full((3, 1), model.config.decoder_start_token_id)
    for _ in range(8):
        likeliest = model(**given, decoder_input_ids=answer).logits[:, -1].argmax(-1, keepdim=True)
        answer = torch.cat([answer, likeliest], 1)
    assert torch.equal(answers[0], answer)


SLIPS = {
    "not supported": (
        lambda: transformers.GPT2Model(transformers.GPT2Config(n_embd=8, n_layer=1, n_head=2)),
        {},
        '"gpt2" cannot be replaced',
    ),
    "no model": (lambda: torch.nn.Linear(2, 2), {}, '"Linear" cannot be replaced; supported: bert'),
    "twice": (lambda: replace_self_attention(made("bert")), {}, "already replaced"),
    "masks": (lambda: made("bert"), {"masks": "forward*3"}, "3 heads, but there are 4"),
    "source": (lambda: made("bert"), {"source_input": "query"}, 'unknown source_input "query"; it must be value or key'),
    "init": (lambda: made("bert"), {"init": "random"}, 'unknown init "random"'),
    "score_activation": (lambda: made("bert"), {"score_activation": "sigmoid"}, "score_activation"),
    "a function": (lambda: made("bert"), {"score_activation": torch.tanh}, "to be stored in a configuration"),
    "bias": (lambda: made("bert"), {"source_bias": float("nan")}, "source_bias is nan; it must be a number"),
    "many masks": (lambda: made("bert"), {"masks": "forward*3000000000"}, "too many"),
    "encoder alone": (lambda: made("bart").get_encoder(), {}, "pass the whole model"),
    "decoder": (
        lambda: transformers.BertLMHeadModel(transformers.BertConfig(**_BERT, is_decoder=True)),
        {},
        "is a decoder",
    ),
    "decoder alone": (lambda: made("bart").get_decoder(), {}, "no encoder self-attention"),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_every_slip_is_answered(slip):
    build, options, told = SLIPS[slip]
    model = build()
    before = type(model)
    with pytest.raises((InputError, ValueError), match=told):
        replace_self_attention(model, **options)
    assert type(model) is before


def test_masks_of_more_than_padding_are_refused():
    mask = torch.ones(1, 1, 3, 3, dtype=torch.bool).tril()
    with pytest.raises(ValueError, match="not a padding mask"):
        padding_mask(mask)
    assert padding_mask(None) is None
    assert padding_mask(torch.tensor([[1, 0]])).tolist() == [[True, False]]
    with pytest.raises(ValueError, match="set_attn_implementation"):
        padding_mask("a mask of flex attention")
    assert padding_mask(torch.tensor([[True, False]])).tolist() == [[True, False]]


def test_classification_heads_come_back_by_their_auto_class(tmp_path):
    import mtsa.hub  # noqa: F401

    model = stir(replace_self_attention(made("roberta")))
    model.save_pretrained(tmp_path)
    loaded = AutoModelForSequenceClassification.from_pretrained(tmp_path).eval()
    assert torch.equal(loaded(**inputs("roberta")).logits, model(**inputs("roberta")).logits)


def test_options_of_version_0_2_are_accepted():
    with pytest.warns(DeprecationWarning, match="pairwise is now score_activation"):
        model = replace_self_attention(made("bert"), pairwise="logsigmoid")
    assert model.config.mtsa["score_activation"] == "logsigmoid"
