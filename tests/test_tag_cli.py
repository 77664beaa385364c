"""Taggers from the command line: train, evaluate, predict to every kind of file, and one sentence for every mistake."""

import json

import pytest
from reproduce.__main__ import app as reproduction
from reproduce.benchmarks.report import sections
from typer.testing import CliRunner

from mtsa.cli import app
from mtsa.corpora import corpus_files
from mtsa.data.props import read_props
from tests.sample_data import TAGGER, tagged

runner = CliRunner()
FAST = [part for key, value in TAGGER.items() for part in ("--set", f"{key}={value}")]
SENTENCE = "The committee approved the plan after a long debate ."


def call(*arguments, **options):
    return runner.invoke(app, [str(argument) for argument in arguments], **options)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli")
    tagged(folder / "train.conll")
    tagged(folder / "test.conll", 40, seed=5)
    tagged(folder / "more.conll", 30, seed=6)
    return folder


@pytest.fixture(scope="module")
def names(folder):
    files = ("--train", folder / "train.conll", "--test", folder / "test.conll", "--test", folder / "more.conll")
    done = call("train", "--task", "tagging", *files, "--out", folder / "names", *FAST)
    assert done.exit_code == 0, done.output
    return folder / "names", done


@pytest.fixture(scope="module")
def roles(folder):
    quick = ("--set", "training.epochs=6", "--set", "encoder.layers=1")
    done = call("train", "roles.cpu", "--out", folder / "roles", *quick)
    assert done.exit_code == 0, done.output
    return folder / "roles", done


def test_training_tells_figures_of_every_test_file(names):
    _, done = names
    assert "144 train, 16 dev, 40 test, 30 test:more; 5 tags" in done.stdout
    assert "test: span F1" in done.stdout
    assert "more: span F1" in done.stdout


def test_evaluating_tags(names, folder):
    run, _ = names
    done = call("evaluate", run, "--data", folder / "test.conll")
    assert done.exit_code == 0, done.output
    assert "PER" in done.stdout
    assert "precision" in done.stdout
    told = json.loads(call("evaluate", run, "--data", folder / "test.conll", "--json").stdout)
    assert told["f1"] > 0.8
    assert not (run / "confusion.png").exists()
    assert not (run / "reliability.png").exists()


def test_predicting_tags_in_every_way(names, folder):
    run, _ = names
    told = json.loads(call("predict", run, "Bob saw Rome.").stdout)
    assert told["words"] == ["Bob", "saw", "Rome", "."]
    assert told["tags"][:3] == ["B-PER", "O", "B-LOC"]
    lines = call("predict", run, "-", input="Ada\nin Oslo\n").stdout.splitlines()
    assert [json.loads(line)["tags"] for line in lines] == [["B-PER"], ["O", "B-LOC"]]
    assert call("predict", run, folder / "test.conll", "--out", folder / "out.conll").exit_code == 0
    from mtsa.data.examples import Layout
    from mtsa.data.tagged import read_tagged

    answers, truth = (read_tagged(folder / name, Layout()) for name in ("out.conll", "test.conll"))
    assert [one.words for one in answers] == [one.words for one in truth]
    assert sum(one.tags == other.tags for one, other in zip(answers, truth, strict=True)) > 30


def test_predicting_roles_and_scoring_them(roles, folder):
    run, done = roles
    assert "predicate identification: F1" in done.stdout
    gold = corpus_files("corpus:roles")["test"]
    out = folder / "answers.props"
    assert call("predict", run, gold, "--predicates", "given", "--out", out).exit_code == 0
    scored = json.loads(call("score", "srl", gold, out, "--json").stdout)
    measured = json.loads(call("evaluate", run, "--data", "corpus:roles", "--json").stdout)
    assert scored["f1"] == pytest.approx(measured["f1"])
    assert scored["complete"] == pytest.approx(measured["complete"])
    assert [one.words for one in read_props(out, out.with_suffix(".words"))] == [
        one.words for one in read_props(gold, gold.with_suffix(".words"))
    ]
    found = folder / "found.jsonl"
    assert call("predict", run, gold.with_suffix(".words"), "--format", "columns", "--out", found).exit_code == 0
    assert len(found.read_text().splitlines()) == 40


def test_files_with_roles_are_read_for_their_words(roles, folder):
    run, _ = roles
    gold = corpus_files("corpus:roles")["test"]
    wanted = [list(one.words) for one in read_props(gold, gold.with_suffix(".words"))]
    assert call("data", "convert", gold, folder / "gold.conll", "--words", gold.with_suffix(".words")).exit_code == 0
    for source in (gold, "corpus:roles", folder / "gold.conll"):
        lines = call("predict", run, source).stdout.splitlines()
        assert [json.loads(line)["words"] for line in lines] == wanted, source
    given = call("predict", run, "corpus:roles", "--predicates", "given").stdout.splitlines()
    frames = [frame["predicate"] for line in given for frame in json.loads(line)["frames"]]
    assert frames == [frame.predicate for one in read_props(gold, gold.with_suffix(".words")) for frame in one.frames]
    assert call("predict", run, gold, "--format", "csv").exit_code == 2


def test_asking_about_chosen_predicates(roles):
    run, _ = roles
    told = json.loads(call("predict", run, SENTENCE, "--predicates", "approved, 9").stdout)
    assert [(frame["predicate"], frame["lemma"]) for frame in told["frames"]] == [(2, "approved"), (8, "debate")]
    told = json.loads(call("predict", run, SENTENCE, "--predicates", "9,3,approved").stdout)
    assert [frame["predicate"] for frame in told["frames"]] == [2, 8]
    for bad, word in (("the", "occurs 2 times"), ("rejected", "not a word of the text"), ("11", "not a word of the text")):
        done = call("predict", run, SENTENCE, "--predicates", bad)
        assert done.exit_code == 2
        assert word in done.output


def test_answers_are_shown_readably(roles, names, monkeypatch, capsys):
    from mtsa.data.frames import Frame, RoleSentence, Span
    from mtsa.data.tagged import TaggedSentence
    from mtsa.tasks.tag_output import role_writer, tag_writer

    monkeypatch.setattr("sys.stdout.isatty", lambda: True)

    def _shown(answer):
        with (role_writer if isinstance(answer, RoleSentence) else tag_writer)(None) as write:
            write(None, answer)

    spans = (Span(0, 1, "A0"), Span(2, 2, "V"))
    _shown(RoleSentence(("The", "man", "slept", "."), (Frame(2, "sleep", spans),), 1))
    assert capsys.readouterr().out == "The man slept .\n  slept: [A0 The man] [V slept] .\n"
    _shown(RoleSentence(("No", "."), (), 1))
    assert "no predicate found" in capsys.readouterr().out
    _shown(TaggedSentence(("Ada", "ran"), ("B-PER", "O"), 1))
    assert capsys.readouterr().out == "[PER Ada] ran\n"
    _shown(TaggedSentence(("Ada", "ran"), ("NN", "VB"), 1))
    assert capsys.readouterr().out == "Ada/NN ran/VB\n"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("{names}", "a b", "--pair", "c"), "--pair does not apply to task tagging"),
        (("{names}", "a b", "--predicates", "a"), "--predicates does not apply to task tagging"),
        (("{names}", "a b", "--out", "x.csv"), "file extension must be .jsonl or .conll"),
        (("{roles}", "a b", "--out", "x.conll"), "file extension must be .jsonl or .props"),
        (("{roles}", "missing.conll"), "looks like a file name"),
        (("{roles}", "-", "--predicates", "given"), "--predicates requires a text or a file"),
        (("{roles}", "{gold}", "--predicates", "gave"), "use --predicates given"),
    ],
)
def test_every_slip_gets_one_sentence(roles, names, arguments, told):
    places = {"{names}": names[0], "{roles}": roles[0], "{gold}": corpus_files("corpus:roles")["test"]}
    done = call("predict", *(places.get(part, part) for part in arguments))
    assert done.exit_code == 2, done.output
    assert told in done.output
    assert "Traceback" not in done.output


def test_checking_files(folder):
    done = call("data", "check", folder / "train.conll", "--task", "tagging")
    assert (done.exit_code, "160 sentences" in done.output) == (0, True)
    done = call("data", "check", corpus_files("corpus:roles")["dev"], "--task", "srl")
    assert (done.exit_code, "20 sentences" in done.output) == (0, True)
    (folder / "bad.props").write_text("give\t(V*\n\n")
    (folder / "bad.words").write_text("give\n\n")
    done = call("data", "check", folder / "bad.props", "--task", "srl")
    assert done.exit_code == 2
    assert 'bad.props, line 1: "(V" is not closed' in done.output


def test_the_benchmark_compares_batches_with_single_sentences(names, folder):
    def bench(run):
        arguments = ("bench", "tagging", run, folder / "test.conll", "--single", 20, "--out", folder / "bench")
        return runner.invoke(reproduction, [str(argument) for argument in arguments])

    done = bench(names[0])
    assert done.exit_code == 0, done.output
    assert "20 of 20 predictions are identical" in done.output
    record = json.loads((folder / "bench" / "bench-tagging.json").read_text())
    assert (record["sentences"], record["compared"], record["same"]) == (40, 20, 20)
    assert record["ratio"] == record["sentences_per_second"]["batched"] / record["sentences_per_second"]["single"]
    (page,) = sections(folder)
    assert "Tagging in batches" in page
    refused = bench(folder)
    assert refused.exit_code == 2
    assert len(refused.stderr.strip().splitlines()) == 1


def test_what_is_read_is_never_overwritten(names, roles, folder):
    for run, source, out in (
        (names[0], "test.conll", "test.conll"),
        (roles[0], "copy.props", "copy.props"),
        (roles[0], "copy.words", "copy.props"),
    ):
        gold = corpus_files("corpus:roles")["test"]
        (folder / "copy.props").write_text(gold.read_text())
        (folder / "copy.words").write_text(gold.with_suffix(".words").read_text())
        before = (folder / source).read_text()
        done = call("predict", run, folder / source, "--out", folder / out)
        assert done.exit_code == 2
        assert "would overwrite the input" in done.output
        assert (folder / source).read_text() == before


def test_odd_sources(names, roles, folder):
    (folder / "doc.conll").write_text("-DOCSTART- O\n\nBob B-PER\n")
    lines = call("predict", names[0], folder / "doc.conll").stdout.splitlines()
    assert [json.loads(line)["words"] for line in lines] == [["Bob"]]
    (folder / "table.csv").write_text("text,label\na,b\n")
    assert "tables are not supported" in call("predict", names[0], folder / "table.csv").output
    for run, _ in (names, roles):
        assert json.loads(call("predict", run, "").stdout)["words"] == []
    done = call("embed", names[0], "-", "--out", folder / "v.npy")
    assert done.exit_code == 2
    assert "use a model for texts" in done.output


def test_converted_files_may_be_packed(folder):
    gold = corpus_files("corpus:roles")["test"]
    assert call("data", "convert", gold, folder / "c.conll.gz").exit_code == 0
    assert call("data", "convert", folder / "c.conll.gz", folder / "d.props").exit_code == 0
    assert (folder / "d.props").read_text() == gold.read_text()
    assert (folder / "d.words").read_text() == gold.with_suffix(".words").read_text()
