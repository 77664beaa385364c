"""Translation from files to answers: small real runs, and a clear word for everything that is no parallel text."""

import json

import pytest
import sacrebleu
import torch
from transformers import AutoModelForSeq2SeqLM, M2M100ForConditionalGeneration
from typer.testing import CliRunner

import mtsa
from mtsa.cli import app
from mtsa.cli.paired_files import repeat_options
from mtsa.data.parallel import read_parallel
from mtsa.data.subwords import END_ID, decode_subwords, encode_subwords, train_subwords
from mtsa.errors import InputError
from mtsa.metrics.bleu import bleu_of, score_translations
from mtsa.models.translator import IGNORED, build_translator, smoothed_loss, translate, translator_config
from mtsa.training.prepare import prepare
from mtsa.training.recipe import AUTHORS_SWAP
from mtsa.training.recipe_files import make_recipe
from mtsa.training.split import read_split
from tests.sample_data import TRANSLATOR, parallel


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("translation")
    files = [
        argument
        for seed, (part, count) in enumerate((("train", 300), ("dev", 20), ("test", 20)))
        for argument in (f"--{part}", *parallel(folder, part, count, seed))
    ]
    files += ["--test", *parallel(folder, "other", 10, 7)]
    settings = [argument for key, value in TRANSLATOR.items() for argument in ("--set", f"{key}={value}")]
    done = CliRunner().invoke(app, ["train", "--task", "translation", *files, "--out", str(folder / "run"), *settings])
    assert done.exit_code == 0, done.output
    return folder, done


def test_a_translator_learns_and_tells_bleu_with_its_signature(trained):
    folder, done = trained
    metrics = json.loads((folder / "run" / "metrics.json").read_text())
    assert metrics["test"]["bleu"] > 40
    assert "tok:13a" in metrics["test"]["signature"]
    assert metrics["test:other"]["count"] == 10
    assert "other: BLEU" in done.output
    model = mtsa.load(folder / "run")
    answers = model.predict((folder / "test.en").read_text().splitlines())
    truths = (folder / "test.de").read_text().splitlines()
    assert sacrebleu.corpus_bleu(answers, [truths]).score == pytest.approx(metrics["test"]["bleu"])
    assert model.evaluate(folder / "test.en", target=folder / "test.de").metrics.bleu == pytest.approx(metrics["test"]["bleu"])
    assert repr(model).endswith("encoder mtsa, translation)")


def test_predicting_files_keeps_every_line(trained, tmp_path):
    folder, _ = trained
    source = tmp_path / "a.en"
    source.write_text("red dog\n\n" + "old " * 2500 + "\ncat\n")
    out = CliRunner().invoke(app, ["predict", str(folder / "run"), str(source)])
    assert out.exit_code == 0, out.output
    lines = out.stdout.split("\n")
    assert len(lines) == 5  # four, and what follows the last line feed
    assert lines[1] == ""
    assert (
        CliRunner().invoke(app, ["predict", str(folder / "run"), str(source), "--out", str(tmp_path / "a.de")]).exit_code == 0
    )
    assert (tmp_path / "a.de").read_text() == out.stdout
    asked = CliRunner().invoke(app, ["predict", str(folder / "run"), "-"], input="red dog\ncat\n")
    assert asked.stdout.splitlines() == [lines[0], lines[3]]


def test_transformers_loads_a_translator(trained):
    import mtsa.hub

    folder, _ = trained
    loaded = AutoModelForSeq2SeqLM.from_pretrained(folder / "run").eval()
    own = mtsa.load(folder / "run").model.eval()
    ids = torch.tensor([[5, 6, END_ID]])
    torch.testing.assert_close(loaded(ids, decoder_input_ids=ids).logits, own(ids, decoder_input_ids=ids).logits)


def test_greedy_is_a_beam_of_one_and_batches_change_nothing(trained):
    folder, _ = trained
    model = mtsa.load(folder / "run")
    texts = (folder / "test.en").read_text().splitlines()
    assert model.predict(texts, num_beams=1) == [model.predict([text], num_beams=1)[0] for text in texts]
    rows, _ = encode_subwords(model.run.tokenizer, texts, 0)
    greedy = []
    for row in rows:
        ids, answer = torch.tensor([row]), [END_ID]
        for _ in range(40):
            answer.append(int(model.model(ids, decoder_input_ids=torch.tensor([answer])).logits[0, -1].argmax()))
            if answer[-1] == END_ID:
                break
        greedy.append([token for token in answer if token > 2])
    assert translate(model.model, rows, num_beams=1, length_penalty=0.6) == greedy
    assert model.predict(texts, num_beams=1) == decode_subwords(model.tokenizer, greedy)


def test_unknown_options_are_refused(trained, runs):
    """An option that nothing reads is an error, such as `beam`, the name that `num_beams` had in version 0.2."""
    folder, _ = trained
    model = mtsa.load(folder / "run")
    with pytest.raises(TypeError, match='unknown option "beam"; did you mean "num_beams"'):
        model.predict(["red"], beam=1)
    with pytest.raises(TypeError, match='unknown option "targets"; did you mean "target"'):
        model.evaluate(folder / "test.en", targets=folder / "test.de")
    for task in ("classification", "pair", "tagging", "srl"):
        with pytest.raises(TypeError, match='unknown option "num_beams"'):
            runs[task].predict([], num_beams=1)
        with pytest.raises(TypeError, match='unknown option "label_colum"; did you mean "label_column"'):
            runs[task].evaluate("a.csv", label_colum="x")


@pytest.mark.parametrize("beam", [None, 1, 3])
def test_a_beam_for_the_evaluation(trained, monkeypatch, beam):
    folder, _ = trained
    asked = []
    generate = M2M100ForConditionalGeneration.generate
    monkeypatch.setattr(
        M2M100ForConditionalGeneration,
        "generate",
        lambda *args, **named: asked.append(named["generation_config"].num_beams) or generate(*args, **named),
    )
    command = ["evaluate", str(folder / "run"), "--data", str(folder / "test.en"), "--target", str(folder / "test.de")]
    done = CliRunner().invoke(app, [*command, *([] if beam is None else ["--num-beams", str(beam)])])
    assert "BLEU" in done.stdout
    assert set(asked) == {beam or 4}
    if beam is not None:
        asked.clear()
        done = CliRunner().invoke(app, [*command, "--beam", str(beam)])
        assert set(asked) == {beam}
        assert "--beam is deprecated" in done.stderr
        both = CliRunner().invoke(app, [*command, "--beam", "2", "--num-beams", "2"])
        assert both.exit_code == 2


def test_the_tokenizer_gives_back_what_it_took(trained):
    folder, _ = trained
    tokenizer = mtsa.load(folder / "run").run.tokenizer
    for text in ("red dog", "Straße 7, “weiß”", "in two  spaces"):
        assert tokenizer.decode(tokenizer.encode(text).ids) == text


def test_the_papers_counts():
    sizes = {"layers": 6, "width": 512, "heads": 8, "hidden": 2048, "dropout": 0.1, "attention_dropout": 0.1}
    counts = []
    for swap in (None, AUTHORS_SWAP):
        with torch.device("meta"):
            model = build_translator(translator_config(33_708, **sizes, swap=swap))
        counts.append(sum(value.numel() for value in model.parameters()))
    assert counts[0] == 61_378_560 - 16_384 + 6 * 4 * 512 + 6 * 8 * 512  # no table of target spaces, but biases
    assert counts[1] - counts[0] == 199_680 == 6 * 8 * (64 * 64 + 64)


def test_the_loss_is_that_of_smoothed_truth():
    logits = torch.randn(2, 3, 7)
    labels = torch.tensor([[1, 2, IGNORED], [3, IGNORED, IGNORED]])
    truth = torch.full((3, 7), 0.1 / 6)
    truth[[0, 1, 2], [1, 2, 3]] = 0.9
    chosen = torch.stack([logits[0, 0], logits[0, 1], logits[1, 0]]).log_softmax(-1)
    torch.testing.assert_close(smoothed_loss(logits, labels, 0.1), -(truth * chosen).sum() / 3)


def test_a_batch_asks_for_each_token_from_those_before_it(tmp_path):
    en, de = parallel(tmp_path, "train", 40, 0)
    table = {"task": "translation", "data": {"train": en, "train_target": de}, "tokens": {"vocab_size": 300}}
    recipe = make_recipe({**table, "encoder": {"name": "multihead"}}, [])
    part = prepare(recipe, read_split(recipe)).parts["train"]
    batch = part.collate([0, 1])
    for row, place in enumerate((0, 1)):
        count = len(part.targets[place])
        assert batch["labels"][row, :count].tolist() == part.targets[place]
        assert (batch["labels"][row, count:] == IGNORED).all()
        assert batch["decoder_input_ids"][row, :count].tolist() == [END_ID, *part.targets[place][:-1]]
        assert part.targets[place][-1] == part.rows[place][-1] == END_ID
        assert decode_subwords(part.tokenizer, [part.targets[place]]) == [part.truths[place]]


def test_subwords_hold_any_text():
    tokenizer = train_subwords(["hello world", "hallo welt"] * 9, 300)
    texts = ["hello", "日本語 und 🙂", "", "a\tb"]
    rows, cut = encode_subwords(tokenizer, texts, 0)
    assert decode_subwords(tokenizer, rows) == ["hello", "日本語 und 🙂", "", "a b"]
    assert cut == 0
    short, cut = encode_subwords(tokenizer, texts, 4)
    assert max(map(len, short)) == 4
    assert all(row[-1] == END_ID for row in short)
    assert cut == 2


def test_bleu_comes_from_the_counts_of_sentences():
    answers, truths = ["the cat sat on the mat .", "a man sleeps"], ["the cat sat on a mat .", "a man is sleeping now"]
    score = score_translations(truths, answers)
    assert score.bleu == pytest.approx(sacrebleu.corpus_bleu(answers, [truths]).score)
    assert bleu_of(score.counts) == pytest.approx(score.bleu)
    one = score_translations(truths[:1], answers[:1])
    assert bleu_of(score.counts[:1]) == pytest.approx(one.bleu)


@pytest.mark.parametrize(
    ("english", "german", "told"),
    [
        ("a\nb\n", "c\n", r"b.de ends after line 1, but .*a.en continues"),
        ("a\n", "c\nd\n", r"a.en ends after line 1, but .*b.de continues"),
        ("a\n" + "x" * 10_001 + "\n", "c\nd\n", r"a.en, line 2: 10,001 characters"),
        ("\n\n", "\n\n", "contain no sentence pairs"),
    ],
)
def test_what_is_no_parallel_text_is_told(tmp_path, english, german, told):
    (tmp_path / "a.en").write_text(english)
    (tmp_path / "b.de").write_text(german)
    with pytest.raises(InputError, match=told):
        read_parallel(tmp_path / "a.en", tmp_path / "b.de")


def test_empty_lines_are_left_out_and_told(tmp_path):
    (tmp_path / "a.en").write_text("a\n\nc\n")
    (tmp_path / "b.de").write_text("d\ne\n\n")
    found = read_parallel(tmp_path / "a.en", tmp_path / "b.de")
    assert [(one.text, one.label, one.line) for one in found] == [("a", "d", 1)]
    (remark,) = found.remarks()
    assert all(word in remark for word in ("a.en", "2 rows", "empty text", "lines 2, 3"))


WRONG = {
    "no target": ({"data": {"train": "a.en"}}, "missing target file"),
    "encoder": ({"encoder": {"name": "bilstm"}}, "supports the encoders multihead and mtsa"),
    "options": ({"encoder": {"name": "multihead", "heads": 2}}, "multihead has no options"),
    "swap": ({"encoder": {"name": "mtsa", "source_input": "query"}}, 'unknown source_input "query"'),
    "swap key": ({"encoder": {"name": "mtsa", "head_dim": 3}}, 'has no option "head_dim"'),
    "masks": ({"encoder": {"name": "mtsa", "masks": "forward*3"}}, r"\[encoder\]"),
    "vectors": ({"vectors": {"file": "x"}}, "task translation uses subwords"),
    "width": ({"translator": {"d_model": 30, "heads": 4}}, r"translator\.d_model \(30\) must be even and divisible by heads"),
    "beam": ({"translator": {"num_beams": 0}}, "translator.num_beams is 0"),
    "elsewhere": (
        {"task": "classification", "translator": {"num_beams": 2}},
        r"\[translator\] applies to task translation only",
    ),
    "targets elsewhere": (
        {"task": "classification", "data": {"train_target": "x"}},
        "apply to task translation only",
    ),
    "pooling": ({"model": {"pooling": "max"}}, "model.pooling is not used by task translation"),
}


@pytest.mark.parametrize("case", WRONG)
def test_every_slip_is_answered(case):
    table, told = WRONG[case]
    with pytest.raises(InputError, match=told):
        make_recipe({"task": "translation", **table}, [])


def test_two_files_after_one_option():
    given = ["--task", "translation", "--train", "a", "b", "--test", "c", "d", "--test", "e", "f", "--out", "r"]
    assert repeat_options(given) == [
        "--task", "translation", "--train", "a", "--train", "b", "--test", "c", "--test", "d", "--test", "e", "--test", "f",
        "--out", "r",
    ]  # fmt: skip
    assert repeat_options(["--train", "a", "b"]) == ["--train", "a", "b"]
    assert repeat_options(["--task=translation", "--dev", "a", "b"]) == ["--task=translation", "--dev", "a", "--dev", "b"]


def test_mistakes_at_the_command_line(trained):
    folder, _ = trained
    run = str(folder / "run")
    for arguments, told in (
        (["predict", run, "a text", "--pair", "x"], "--pair does not apply to task translation"),
        (["predict", run, "a text", "--format", "csv"], "--format does not apply to task translation"),
        (["evaluate", run, "--data", str(folder / "test.en")], "missing reference translations of"),
        (
            ["evaluate", run, "--data", str(folder / "test.en"), "--plot", "a.png"],
            "--plot does not apply to task translation",
        ),
        (["predict", run, "missing.en"], "looks like a file name"),
        (
            ["train", "--task", "translation", "--train", str(folder / "test.en"), "--out", "x"],
            "missing target file",
        ),
    ):
        done = CliRunner().invoke(app, arguments)
        assert done.exit_code == 2, arguments
        assert told in done.output
        assert "Traceback" not in done.output


@pytest.mark.parametrize(
    ("name", "steps", "warmup", "tokens", "beta2", "bias"),
    [("wmt.setup1.paper", 250_000, 16_000, 2048, 0.997, 5.0), ("wmt.setup2.paper", 133_000, 8_000, 4 * 6144, 0.997, 0.0)],
)
def test_the_papers_setups(name, steps, warmup, tokens, beta2, bias):
    from mtsa.training.recipe_files import load_recipe

    recipe = load_recipe(name)
    training = recipe.training
    assert (training.max_steps, training.warmup_steps, training.batch_tokens, training.beta2) == (steps, warmup, tokens, beta2)
    assert training.learning_rate == pytest.approx(2 / (warmup * 512) ** 0.5, rel=1e-3)
    assert training.schedule == "inverse_sqrt"
    assert (recipe.model.label_smoothing, recipe.translator.length_penalty) == (0.1, 0.6)
    assert recipe.swap["source_bias"] == bias
    assert (recipe.swap["masks"], recipe.swap["score_activation"], recipe.swap["source_activation"]) == (
        "full",
        "identity",
        "logsigmoid",
    )


def test_signs_in_a_text_are_text():
    tokenizer = train_subwords(["hello world", "hallo welt"] * 9, 300)
    texts = ["a <s>b</s> c", "<unk>", "x <pad> y"]
    rows, _ = encode_subwords(tokenizer, texts, 0)
    assert decode_subwords(tokenizer, rows) == texts
    assert all(END_ID not in row[:-1] and 0 not in row for row in rows)


def test_training_leaves_out_pairs_that_are_too_long(tmp_path):
    (tmp_path / "a.en").write_text("red dog\n" * 20 + "red " * 50 + "\nred\n")
    (tmp_path / "a.de").write_text("roter Hund\n" * 20 + "rot\n" + "rot " * 50 + "\n")
    data = {"train": str(tmp_path / "a.en"), "train_target": str(tmp_path / "a.de")}
    table = {
        "task": "translation",
        "data": data,
        "tokens": {"vocab_size": 300, "max_length": 30},
        "encoder": {"name": "multihead"},
    }
    recipe = make_recipe(table, [])
    split = read_split(recipe)
    part = prepare(recipe, split).parts["train"]
    whole = [example for example in split.train if len(example.text) < 40 and len(example.label) < 40]
    assert sorted(part.truths) == sorted(example.label for example in whole)


def test_long_lines_are_cut_and_told(trained, tmp_path):
    folder, _ = trained
    (tmp_path / "a.en").write_text("red dog\n" + "old " * 2000 + "\n")
    done = CliRunner().invoke(app, ["predict", str(folder / "run"), str(tmp_path / "a.en")])
    assert "1 text truncated to 128 subwords" in done.stderr
    (tmp_path / "a.de").write_text("a\nb\n")
    command = ["evaluate", str(folder / "run"), "--data", str(tmp_path / "a.en"), "--target", str(tmp_path / "a.de")]
    assert "1 text truncated to 128 subwords" in CliRunner().invoke(app, command).stderr


def test_a_batch_counts_the_longer_side(tmp_path):
    en, de = parallel(tmp_path, "train", 40, 0)
    table = {"task": "translation", "data": {"train": en, "train_target": de}, "tokens": {"vocab_size": 300}}
    recipe = make_recipe({**table, "encoder": {"name": "multihead"}}, [])
    part = prepare(recipe, read_split(recipe)).parts["train"]
    assert part.lengths == [max(len(row), len(other)) for row, other in zip(part.rows, part.targets, strict=True)]
    assert part.lengths != [len(row) for row in part.rows]
