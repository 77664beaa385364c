"""A pretrained model in the place of word vectors: pretrained here, loaded, fine-tuned, saved, opened again."""

import dataclasses
import hashlib
import json
import math
import shutil

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, AutoTokenizer, BertConfig, BertModel, OpenAIGPTConfig, OpenAIGPTLMHeadModel

import mtsa
from mtsa.errors import InputError
from mtsa.models.pretrained import is_language_model, max_input_length
from mtsa.training import language_model as pretraining
from mtsa.training.language_model import Setting, pretrain
from mtsa.training.launch import build_recipe
from mtsa.training.optimizer import make_optimizer
from mtsa.training.prepare import prepare
from mtsa.training.recipe_files import load_recipe, make_recipe
from mtsa.training.resume import describe_sources
from mtsa.training.run import run_recipe
from mtsa.training.split import read_split
from tests.sample_data import pairs, write_pairs

SMALL = Setting(layers=2, width=16, tokens=300, length=64, batch=8, steps=30, learning_rate=1e-2, warmup=3)


def texts(count=600):
    return [side for first, second, _, _ in pairs(count) for side in (first, second)]


@pytest.fixture(scope="module")
def gpt(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gpt") / "model"
    pretrain(texts(), folder, SMALL)
    return folder


def recipe_for(train, below, task="pair", **sections):
    table = {
        "task": task,
        "data": {"train": str(train)},
        "tokens": {"max_length": 64},
        "pretrained": {"model": str(below), "lm_weight": 0.3, **sections.pop("pretrained", {})},
        "encoder": {"name": "mtsa", "head_dim": 5},
        "model": {"hidden": 12, "dropout": 0.0},
        "training": {"batch_size": 16, "epochs": 3, "learning_rate": 0.005, "patience": 0, **sections.pop("training", {})},
    }
    return make_recipe(table, [])


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_pairs(tmp_path_factory.mktemp("data") / "train.jsonl", pairs(200))


def test_a_language_model_learns_and_transformers_loads_it(gpt):
    record = json.loads((gpt / "record.json").read_text())
    assert record["dev_loss"] < 0.6 * math.log(300)  # far below guessing
    assert not (gpt / "checkpoints").exists()
    tokenizer, model = AutoTokenizer.from_pretrained(gpt), AutoModelForCausalLM.from_pretrained(gpt).eval()
    ids = tokenizer("the red there", return_tensors="pt").input_ids
    loss = model(input_ids=ids, labels=ids).loss
    assert loss < 0.8 * math.log(300)
    assert is_language_model(model.config)


def test_a_stopped_pretraining_goes_on_to_the_same_weights(gpt, tmp_path, monkeypatch):
    save, saved = pretraining._PretrainingLoop._save, []

    def stopping(self):
        save(self)
        saved.append(self.step)
        if len(saved) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(pretraining._PretrainingLoop, "_save", stopping)
    options = {"save_every": 10}
    with pytest.raises(KeyboardInterrupt):
        pretrain(texts(), tmp_path / "model", SMALL, **options)
    with pytest.raises(InputError, match="unfinished model with other text or settings"):
        pretrain(texts(), tmp_path / "model", dataclasses.replace(SMALL, steps=40), **options)
    pretrain(texts(), tmp_path / "model", SMALL, **options)
    assert saved == [10, 20, 30]
    whole, resumed = (load_file(folder / "model.safetensors") for folder in (gpt, tmp_path / "model"))
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)
    with pytest.raises(InputError, match="contains a finished model"):
        pretrain(texts(), tmp_path / "model", SMALL, **options)


def test_pretraining_ignores_files_of_a_process_killed_while_writing(tmp_path):
    """A kill during the very first write leaves a temporary file, and nothing that names the run."""
    (tmp_path / "gpt").mkdir()
    (tmp_path / "gpt" / ".begun.json.1.partial").write_text("half")
    pretrain(texts(), tmp_path / "gpt", dataclasses.replace(SMALL, steps=1))
    assert not list((tmp_path / "gpt").glob("*.partial"))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="not empty"):
        pretrain(texts(), tmp_path / "other", SMALL)


def test_the_model_starts_from_the_pretrained_weights_and_all_of_them_are_trained(gpt, data):
    recipe = recipe_for(data, gpt, pretrained={"lr_multiplier": 0.1})
    prepared = prepare(recipe, read_split(recipe))
    model = prepared.model()
    before = load_file(gpt / "model.safetensors")
    for name, value in model.words.model.state_dict().items():
        assert torch.equal(value, before[f"transformer.{name}"]), name
    rates = {group["lr"]: len(group["params"]) for group in make_optimizer(model, recipe).param_groups}
    assert rates[0.005 * 0.1] == sum(1 for _ in model.words.parameters())


def test_the_auxiliary_loss_is_that_of_the_language_model(gpt, data):
    recipe = recipe_for(data, gpt)
    prepared = prepare(recipe, read_split(recipe))
    model = prepared.model().eval()
    part = prepared.parts["train"]
    inputs = part.collate([0, 1, 2])
    joint = model(**inputs).loss
    model.config.lm_weight = 0.0
    plain = model(**inputs).loss
    whole = AutoModelForCausalLM.from_pretrained(gpt).eval()
    total, count = 0.0, 0
    for row in (*part.rows[:3], *part.pairs[:3]):
        ids = torch.tensor([row])
        if len(row) > 1:
            total += whole(input_ids=ids, labels=ids).loss.item() * (len(row) - 1)
            count += len(row) - 1
    assert (joint - plain).item() == pytest.approx(0.3 * total / count, rel=1e-4)


@pytest.mark.parametrize("encoder", ["mtsa", "multihead"])
def test_transfer_runs_are_saved_and_opened(encoder, gpt, data, tmp_path):
    recipe = recipe_for(data, gpt)
    options = {"name": encoder, "head_dim": 5} | ({"heads": 2} if encoder == "multihead" else {})
    recipe = dataclasses.replace(recipe, encoder=options)
    outcome = run_recipe(recipe, tmp_path / "run")
    predictor = mtsa.load(tmp_path / "run")
    asked = [(first, second) for first, second, _, _ in pairs(9, seed=3)] + [("", "plum"), ("word " * 500, "x")]
    answers = predictor.predict(asked)
    (alone,) = predictor.predict(asked[2:3])
    assert alone.probabilities == pytest.approx(answers[2].probabilities, abs=1e-5)
    assert outcome.dev.metrics.count > 0
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["pretrained"]["model_type"] == "openai-gpt"
    assert str(gpt) not in (tmp_path / "run" / "config.json").read_text()


def test_single_texts_and_signs_of_other_tokenisers(tmp_path, data, gpt):
    """A BERT with its own signs around each text, under a classifier and under a pair model."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace
    from tokenizers.processors import TemplateProcessing
    from transformers import PreTrainedTokenizerFast

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "red", "plum", "there"]
    tokenizer = Tokenizer(WordLevel({word: number for number, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    folder = tmp_path / "bert"
    torch.manual_seed(0)
    config = BertConfig(vocab_size=8, hidden_size=12, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16)
    BertModel(config).save_pretrained(folder)
    signs = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **signs).save_pretrained(folder)
    recipe = recipe_for(data, folder, pretrained={"lm_weight": 0.0})
    prepared = prepare(recipe, read_split(recipe))
    assert prepared.parts["train"].rows[0][0] == 2
    assert prepared.parts["train"].pairs[0][-1] == 3
    pair = prepared.inputs.tokenizer.encode("the red", "plum")
    assert pair.tokens == ["[CLS]", "the", "red", "[SEP]", "[CLS]", "plum", "[SEP]"]
    assert pair.type_ids == [0, 0, 0, 0, 1, 1, 1]
    from mtsa.data.tokenization import encode_texts

    assert encode_texts(prepared.inputs.tokenizer, ["the red plum there"], 4) == ([[2, 4, 5, 3]], 1)
    wanted = recipe_for(data, folder)
    with pytest.raises(InputError, match=r"requires a GPT or GPT-2 model, but .*bert is not one"):
        prepare(wanted, read_split(wanted))


def test_the_recipe_of_the_papers_gpt_loads_that_architecture(tmp_path, data, gpt):
    """The weights are not here: a tiny model of the same architecture, saved as the hub has it."""
    recipe = load_recipe("snli.gpt.paper")
    assert recipe.pretrained == dataclasses.replace(
        recipe.pretrained, model="openai-community/openai-gpt", lm_weight=0.3, lr_multiplier=1.0
    )
    assert (recipe.training.schedule, recipe.training.warmup_steps > 0) == ("linear", True)
    tokenizer = AutoTokenizer.from_pretrained(gpt)
    folder = tmp_path / "openai-gpt"
    config = OpenAIGPTConfig(vocab_size=len(tokenizer), n_positions=512, n_embd=12, n_layer=1, n_head=2)
    torch.manual_seed(0)
    OpenAIGPTLMHeadModel(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    small = {"pretrained.model": str(folder), "training.max_steps": 2, "training.eval_steps": 1, "training.batch_size": 8}
    predictor = mtsa.train(
        "snli.gpt.paper", out=tmp_path / "run", train=data, dev="", test="", settings={**small, "encoder.head_dim": 5}
    )
    assert len(predictor.predict([("the red", "blue")])) == 1


WRONG = {
    "no such model": (
        {"model": "no/such/folder"},
        r"no/such/folder: no such folder, and not a valid name on the Hugging Face hub",
    ),
    "negative": ({"model": "x", "lr_multiplier": -1.0}, "pretrained.lr_multiplier is -1.0; it must be at least 0"),
    "no model": ({"lm_weight": 0.3}, "requires pretrained.model"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_settings(case, data):
    options, message = WRONG[case]

    def start():
        recipe = make_recipe({"task": "pair", "data": {"train": str(data)}, "pretrained": options}, [])
        return prepare(recipe, read_split(recipe))

    with pytest.raises(InputError, match=message):
        start()


def test_texts_longer_than_the_model_reads_are_refused_with_the_cure(data, gpt):
    recipe = recipe_for(data, gpt)
    recipe = dataclasses.replace(recipe, tokens=dataclasses.replace(recipe.tokens, max_length=512))
    with pytest.raises(InputError, match=r"supports at most 64 tokens; add --set tokens.max_length=64"):
        prepare(recipe, read_split(recipe))


def bert(folder, tokenizer, **options):
    torch.manual_seed(0)
    sizes = {"hidden_size": 12, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16, **options}
    model = BertModel(BertConfig(vocab_size=len(tokenizer), **sizes))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return model


def test_half_precision_is_computed_in_float32_and_nothing_unread_is_kept(tmp_path, data, gpt):
    folder = tmp_path / "bert"
    model = bert(folder, AutoTokenizer.from_pretrained(gpt))
    model.half().save_pretrained(folder)
    recipe = recipe_for(data, folder, pretrained={"lm_weight": 0.0})
    made = prepare(recipe, read_split(recipe)).model()
    assert {value.dtype for value in made.parameters()} == {torch.float32}
    assert not [name for name, _ in made.named_parameters() if "pooler" in name]  # two processes would wait for its gradient


def test_weights_that_do_not_fit_are_refused(tmp_path, data, gpt):
    folder = tmp_path / "bert"
    bert(folder, AutoTokenizer.from_pretrained(gpt))
    recipe = recipe_for(data, folder, pretrained={"lm_weight": 0.0})
    whole = (folder / "model.safetensors").read_bytes()

    def start():
        return prepare(recipe, read_split(recipe)).model()

    (folder / "model.safetensors").write_bytes((gpt / "model.safetensors").read_bytes())
    with pytest.raises(InputError, match="the weights do not match the configuration"):
        start()
    (folder / "model.safetensors").write_bytes(whole[:-100])
    with pytest.raises(InputError, match=r"cannot be loaded .safetensors and tokenizer.json are required"):
        start()
    (folder / "model.safetensors").unlink()
    with pytest.raises(InputError, match=r"^pretrained.model .* cannot be loaded"):
        start()


def test_the_language_loss_of_gpt2_is_known_too(tmp_path, data, gpt):
    from transformers import GPT2Config, GPT2LMHeadModel

    tokenizer = AutoTokenizer.from_pretrained(gpt)
    torch.manual_seed(0)
    whole = GPT2LMHeadModel(GPT2Config(vocab_size=len(tokenizer), n_positions=64, n_embd=12, n_layer=1, n_head=2)).eval()
    whole.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    recipe = recipe_for(data, tmp_path)
    words = prepare(recipe, read_split(recipe)).model().eval().words
    ids = torch.tensor([[5, 9, 7, 30]])
    keep = torch.ones_like(ids, dtype=torch.bool)
    total, count = words.language_loss(words(ids, keep), ids, keep)
    assert (total / count).item() == pytest.approx(whole(input_ids=ids, labels=ids).loss.item(), rel=1e-5)


def test_another_model_below_is_another_run(tmp_path, data, gpt):
    copy = tmp_path / "gpt"
    shutil.copytree(gpt, copy)
    recipe = recipe_for(data, copy)
    before = describe_sources(recipe, read_split(recipe))
    text = (copy / "tokenizer.json").read_text()
    (copy / "tokenizer.json").write_text(text + " ")
    assert describe_sources(recipe, read_split(recipe)) != before


def test_a_kill_in_the_middle_of_a_save_is_no_obstacle(tmp_path):
    out = tmp_path / "model"
    options = {"save_every": 10}
    (out / "checkpoints" / ".saving-10").mkdir(parents=True)
    identity = {"setting": dataclasses.asdict(SMALL), "sha256": hashlib.sha256("\0".join(texts()).encode()).hexdigest()}
    (out / "begun.json").write_text(json.dumps(identity))
    pretrain(texts(), out, SMALL, **options)
    assert (out / "record.json").exists()


def test_places_are_counted_as_the_models_count_them():
    from transformers import BertConfig, RobertaConfig, XLNetConfig

    assert max_input_length(BertConfig(max_position_embeddings=66)) == 66
    assert max_input_length(RobertaConfig(max_position_embeddings=66, pad_token_id=1)) == 64
    assert max_input_length(XLNetConfig()) is None


def test_files_without_a_recipe_get_settings_for_a_pretrained_model(tmp_path, data, gpt):
    made = build_recipe(
        None, task="pair", data={"train": str(data)}, settings=[f'pretrained.model="{gpt}"', "tokens.max_length=64"]
    )
    assert (made.training.schedule, made.pretrained.lr_multiplier, made.model.dropout) == ("linear", 0.1, 0.1)
    assert made.tokens.max_length == 64
