"""Taggers from file to answer: small real runs of both tasks."""

import itertools
import json
import random

import pytest
import torch
from transformers import AutoModelForTokenClassification, pipeline

import mtsa
from mtsa.data.batching import shuffled_batches
from mtsa.data.bio import may_follow
from mtsa.data.encoded_words import EncodedWords
from mtsa.errors import InputError
from mtsa.interop import sentence_transformer
from mtsa.models.tagger import IGNORED
from mtsa.tasks.registry import get_task
from mtsa.training.loop import TrainingLoop
from mtsa.training.prepare import prepare
from mtsa.training.recipe_files import load_recipe, make_recipe
from mtsa.training.split import read_split
from tests.log_messages import logged
from tests.sample_data import TAGGER, tagged


@pytest.fixture(scope="module")
def names(tmp_path_factory):
    folder = tmp_path_factory.mktemp("names")
    train, test, other = (tagged(folder / f"{part}.conll", seed=seed) for seed, part in enumerate(("train", "test", "other")))
    model = mtsa.train(task="tagging", train=train, test=test, tests=[str(other)], out=folder / "run", settings=TAGGER)
    return model, folder


def test_a_tagger_learns_and_tells_its_figures(names):
    model, folder = names
    metrics = json.loads((folder / "run" / "metrics.json").read_text())
    assert metrics["test"]["f1"] > 0.9
    assert metrics["test:other"]["f1"] > 0.9
    assert metrics["test:other"] != metrics["test"]
    assert model.evaluate(folder / "test.conll").metrics.as_json() == {
        key: value for key, value in metrics["test"].items() if key != "unseen"
    }
    assert set(metrics["test"]["labels"]) == {"LOC", "PER"}
    (answer,) = model.predict(["Bob saw Rome."])
    assert answer.words[:3] == ("Bob", "saw", "Rome")
    assert answer.tags[:3] == ("B-PER", "O", "B-LOC")
    (split,) = model.predict([["Bob", "saw", "Rome."]])
    assert split.words == ("Bob", "saw", "Rome.")
    assert repr(model).startswith("TagPredictor(")


def test_plain_tags_are_no_test_data_of_a_span_model(names, tmp_path):
    model, folder = names
    plain = tmp_path / "plain.conll"
    plain.write_text("Ada\tNNP\nsaw\tVBD\nit\tO\n\nRome\tB-LOC\n")
    with pytest.raises(InputError, match=r"plain.conll: the model predicts spans, but NNP, VBD are not BIO or IOBES tags"):
        model.evaluate(plain)
    files = {"train": folder / "train.conll", "out": tmp_path / "run", "settings": TAGGER}
    for part in ("dev", "test"):
        with pytest.raises(InputError, match=r"plain.conll: the model predicts spans"):
            mtsa.train(task="tagging", **files, **{part: plain})
    iobes = tmp_path / "iobes.conll"
    iobes.write_text("Bob\tS-PER\nsaw\tO\nRome\tS-LOC\n")
    assert model.evaluate(iobes).metrics.as_json()["f1"] == 1.0


def test_what_is_no_sentence_is_refused(names):
    model, folder = names
    assert [answer.words for answer in model.stream(["Bob saw", ["Rome"]])] == [("Bob", "saw"), ("Rome",)]
    for bad in ("a text", [["two words"]], [[3]], [None], [3]):
        with pytest.raises(InputError):
            model.predict(bad)
    again = mtsa.load(folder / "run")
    assert type(again) is type(model)
    assert again.predict(["Bob saw Rome"]) == model.predict(["Bob saw Rome"])
    with pytest.raises(InputError, match="no sentence vectors"):
        sentence_transformer(folder / "run")
    assert not (folder / "run" / "modules.json").exists()


def test_transformers_loads_a_tagger(names):
    import mtsa.hub  # noqa: F401

    model, folder = names
    loaded = AutoModelForTokenClassification.from_pretrained(folder / "run")
    ids = torch.tensor([[2, 3, 4]])
    torch.testing.assert_close(loaded.eval()(ids).logits, model.model.eval()(ids).logits)
    pipe = pipeline("token-classification", model=str(folder / "run"))
    assert [one["entity"] for one in pipe("Bob saw Rome")] == ["B-PER", "B-LOC"]


def test_parts_of_speech_are_scored_word_by_word(tmp_path):
    path = tagged(tmp_path / "t.conll")
    plain = path.read_text().replace("B-PER", "NN").replace("I-PER", "NN").replace("B-LOC", "LC").replace("I-LOC", "LC")
    path.write_text(plain.replace(" O", " XX"))
    model = mtsa.train(task="tagging", train=path, out=tmp_path / "run", settings={**TAGGER, "training.epochs": 4})
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert metrics["dev"]["accuracy"] > 0.9
    assert "f1" not in metrics["dev"]
    assert model.labels == ["LC", "NN", "XX"]


def test_the_embedded_roles_train_and_find_their_predicates(tmp_path):
    settings = {"training.epochs": 14, "encoder.layers": 1}
    model = mtsa.train("roles.cpu", out=tmp_path / "run", settings=settings)
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert metrics["dev"]["predicates"]["f1"] > 0.4
    assert metrics["dev"]["f1"] > 0.15
    again = model.evaluate("corpus:roles").as_json()
    assert again["f1"] == metrics["test"]["f1"]
    (answer,) = model.predict(["The committee approved the plan after a long debate."])
    assert answer.words[-1] == "."
    assert answer.frames
    for frame in answer.frames:
        assert frame.lemma == answer.words[frame.predicate].lower()
        assert all(0 <= span.start <= span.end < len(answer.words) for span in frame.spans)
    assert model.predict([""])[0].frames == ()
    with pytest.raises(InputError, match=r"corpus:roles .*--task srl"):
        mtsa.train(train="corpus:roles", out=tmp_path / "other")
    with pytest.raises(InputError, match=r"corpus:questions .*--task classification"):
        mtsa.train(task="srl", train="corpus:questions", out=tmp_path / "other")


def test_rows_of_roles():
    recipe = load_recipe("roles.cpu")
    prepared = prepare(recipe, read_split(recipe))
    part = prepared.parts["train"]
    assert len(part) == 217 + 6  # predicates, and sentences without
    several = next(place for place, one in enumerate(part.questions) if len(one.sentence.frames) > 1)
    empty = next(place for place, one in enumerate(part.questions) if one.frame is None)
    batch = part.collate([several, several + 1, empty])
    first, second = part.questions[several].sentence.frames[:2]
    assert batch["predicates"].nonzero().tolist() == [[0, first.predicate], [1, second.predicate]]
    assert batch["predicate_labels"][0].gt(0).nonzero()[:, 0].tolist() == [
        one.predicate for one in part.questions[several].sentence.frames
    ]
    assert (batch["predicate_labels"][1] == IGNORED).all()  # said once for each sentence
    assert (batch["predicate_labels"][2, : len(part.rows[empty])] == 0).all()
    assert (batch["labels"][2] == IGNORED).all()
    spans = [prepared.labels[tag] for tag in batch["labels"][1].tolist() if tag != IGNORED]
    assert "B-V" in spans
    assert all(may_follow(before, after) for before, after in zip([None, *spans], spans, strict=False))


def test_long_training_sentences_are_cut_and_their_late_predicates_left_out(tmp_path):
    props = "".join(f"p{n}\t" + "\t".join("(V*)" if n == m else "*" for m in range(3)) + "\n" for n in range(3))
    for part in ("train", "dev"):
        (tmp_path / f"{part}.props").write_text(f"{props}\n" * 4)
        (tmp_path / f"{part}.words").write_text("a\nb\nc\n\n" * 4)
    data = {part: str(tmp_path / f"{part}.props") for part in ("train", "dev")}
    recipe = make_recipe({"task": "srl", "data": data, "tokens": {"max_length": 2, "min_freq": 1}}, [])
    prepared = prepare(recipe, read_split(recipe))
    assert len(prepared.parts["train"]) == 8
    assert max(prepared.parts["train"].lengths) == 2
    assert len(prepared.parts["dev"]) == 12
    assert max(prepared.parts["dev"].lengths) == 3
    assert "train: 4 texts truncated to 2 words" in prepared.remarks
    assert prepared.parts["train"].collate([0])["predicate_labels"].tolist() == [[1, 1]]


def test_figures_of_verbs_are_those_of_verbs(tmp_path):
    from mtsa.data.frames import Frame, RoleSentence, Span
    from mtsa.tasks.tag_data import PredicateRow, RoleData, RolePredictions

    span, verb = Span(0, 0, "A0"), Span(1, 1, "V")
    frames = (Frame(1, "run", (span, verb), "VBD"), Frame(3, "plan", (Span(2, 2, "A1"), Span(3, 3, "V")), "NN"))
    sentence = RoleSentence(("he", "ran", "the", "plan"), frames, 1)
    words = EncodedWords([[2, 3, 4, 5]] * 2)
    part = RoleData(words.rows, words, [PredicateRow(sentence, frame) for frame in frames], ["O"])
    found = part.score(RolePredictions([frames[0], Frame(3, "plan", (), "NN")], [[1, 2], []])).as_json()
    assert (found["f1"], found["precision"], found["recall"], found["complete"]) == (pytest.approx(2 / 3), 1.0, 0.5, 0.5)
    assert (found["verbs"]["f1"], found["verbs"]["frames"]) == (1.0, 1)
    assert (found["predicates"]["precision"], found["predicates"]["recall"]) == (0.5, 0.5)
    only = part.score(RolePredictions([frames[0], None], [[1, 2], []]), [0]).as_json()
    assert (only["frames"], only["f1"]) == (1, 1.0)


def test_repeated_sentences_are_told_row_by_row(tmp_path):
    words, props = "a\nb\n\nc\n\n", "p0\t(V*)\t*\np1\t*\t(V*)\n\n-\n\n"
    for part, text in (("train", words), ("dev", words), ("test", "c\n\na\nx\n\na\nb\n\n")):
        (tmp_path / f"{part}.words").write_text(text)
        (tmp_path / f"{part}.props").write_text(props if part != "test" else "-\n\np0\t(V*)\n-\t*\n\n" + props.split("-")[0])
    data = {part: str(tmp_path / f"{part}.props") for part in ("train", "dev", "test")}
    recipe = make_recipe({"task": "srl", "data": data, "tokens": {"min_freq": 1}}, [])
    prepared = prepare(recipe, read_split(recipe))
    assert prepared.repeated == [True, False, True, True]
    assert len(prepared.parts["test"]) == 4


def test_another_encoder_in_a_recipe_keeps_its_size():
    from mtsa.training.launch import build_recipe

    for name in ("stacked_multihead", "stacked_bilstm", "stacked_multi_cnn"):
        made = build_recipe("srl.paper", encoder=name)
        assert (made.encoder["layers"], made.encoder["width"], made.encoder["hidden"]) == (10, 200, 800)
    assert "score_activation" not in build_recipe("srl.paper", encoder="stacked_multihead").encoder


def test_resume_of_roles_matches_uninterrupted_run(tmp_path):
    from mtsa.training.run import run_recipe

    settings = ["training.epochs=2", "encoder.layers=1", "training.eval_steps=4"]
    recipe = load_recipe("roles.cpu", settings)

    class StopError(Exception):
        pass

    run_recipe(recipe, tmp_path / "whole")
    step = TrainingLoop._step
    calls = []

    def dies(self, *arguments, **options):
        calls.append(1)
        if len(calls) == 7:
            raise StopError
        return step(self, *arguments, **options)

    TrainingLoop._step = dies
    try:
        with pytest.raises(StopError):
            run_recipe(recipe, tmp_path / "cut")
    finally:
        TrainingLoop._step = step
    with logged() as messages:
        run_recipe(recipe, tmp_path / "cut")
    assert "resuming from step 4" in messages
    first, second = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "cut"))
    assert first == second


def test_what_a_file_is_read_like_is_remembered(tmp_path):
    path = tagged(tmp_path / "t.conll", 60)
    path.write_text("".join(f"{line} extra\n" if line else "\n" for line in path.read_text().split("\n")))
    model = mtsa.train(task="tagging", train=path, label_column="2", out=tmp_path / "run", settings=TAGGER)
    assert model.evaluate(path).metrics.accuracy > 0.9
    with pytest.raises(InputError, match="none of its tags"):
        model.evaluate(path, label_column="3")


def test_batches_by_words_hold_no_more_and_are_as_many_in_each_epoch():
    rng = random.Random(3)
    lengths = [rng.randint(1, 60) for _ in range(700)]
    first, second = (shuffled_batches(lengths, 1, tokens=256, seed=5, epoch=epoch) for epoch in (0, 1))
    assert sorted(number for batch in first for number in batch) == list(range(700))
    assert all(len(batch) * max(lengths[number] for number in batch) <= 256 for batch in first)
    assert len(first) == len(second)
    assert sorted(number for batch in second for number in batch) == list(range(700))
    same = {frozenset(batch) for batch in first} & {frozenset(batch) for batch in second}
    assert len(same) < 0.1 * len(first)  # composed anew
    for seed, least in itertools.product(range(20), (1, 3, 8)):
        several = [shuffled_batches(lengths[:150], 1, tokens=120, least=least, seed=seed, epoch=epoch) for epoch in range(4)]
        assert len({len(batches) for batches in several}) == 1
        assert all(len(batch) >= least for batches in several for batch in batches)
        assert all(sorted(number for batch in batches for number in batch) == list(range(150)) for batches in several)
    shared = shuffled_batches(lengths, 1, tokens=64, least=4, seed=5, epoch=0)
    assert min(map(len, shared)) == 4  # a share for each of four processes
    assert sorted(number for batch in shared for number in batch) == list(range(700))
    words = sum(lengths) / sum(len(batch) * max(lengths[number] for number in batch) for batch in first)
    assert words > 0.9


def test_the_rate_is_halved_where_the_recipe_says(tmp_path):
    settings = {"max_steps": 6, "lr_milestones": [2, 4], "learning_rate": 0.8, "optimizer": "adadelta", "epsilon": 1e-6}
    path = tagged(tmp_path / "t.conll", 40)
    table = {
        "task": "tagging", "data": {"train": str(path)}, "vectors": {"dim": 6}, "training": settings,
        "encoder": {"name": "stacked_mtsa", "layers": 1, "width": 12, "heads": 2, "hidden": 10},
    }  # fmt: skip
    recipe = make_recipe(table, [])
    prepared = prepare(recipe, read_split(recipe))
    train, dev = prepared.parts["train"], prepared.parts["dev"]
    loop = TrainingLoop(
        prepared.model(), recipe, get_task(recipe.task), train, dev, known=prepared.inputs.known, folder=tmp_path
    )
    rates = []
    loop.run(lambda step, note: rates.append(loop.optimizer.param_groups[0]["lr"]))
    assert rates == pytest.approx([0.8, 0.8, 0.4, 0.4, 0.2, 0.2])
    assert loop.optimizer.defaults["eps"] == 1e-6
