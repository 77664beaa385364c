"""The workbench from the command line: three commands for a newcomer, one sentence for every mistake."""

import csv
import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from mtsa.cli import app
from mtsa.encoders import encoder_names
from tests.sample_data import sentences, write_csv

runner = CliRunner()
FAST = (
    "--set",
    "training.epochs=8",
    "--set",
    "encoder.head_dim=5",
    "--set",
    "training.learning_rate=0.01",
    "--set",
    "vectors.dim=6",
)


def call(*arguments, **options):
    return runner.invoke(app, [str(argument) for argument in arguments], **options)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli")
    write_csv(folder / "train.csv", sentences(200), "sentence,kind")
    write_csv(folder / "test.csv", sentences(40, seed=5), "sentence,kind")
    return folder


@pytest.fixture(scope="module")
def trained(files):
    columns = ("--text-column", "sentence", "--label-column", "kind")
    done = call(
        "train",
        "--task",
        "classification",
        "--train",
        files / "train.csv",
        *columns,
        "--out",
        files / "run",
        "--seed",
        3,
        *FAST,
    )
    assert done.exit_code == 0, done.output
    return files / "run", done


def test_train_says_what_happened_and_what_is_next(trained):
    _, done = trained
    assert "20 examples split off from the training data" in done.stderr
    assert "best step" in done.stdout
    assert "Next: mtsa predict" in done.stdout


def test_evaluate_remembers_the_columns(trained, files):
    done = call("evaluate", trained[0], "--data", files / "test.csv", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert 0.8 < found["accuracy"] <= 1
    assert found["count"] == 40
    assert 0 <= found["ece"] < 0.5
    assert 0 < found["log_loss"] < 1
    for name in ("confusion.png", "reliability.png"):
        assert (trained[0] / name).read_bytes().startswith(b"\x89PNG")
    shown = call("evaluate", trained[0], "--data", files / "test.csv", "--plot", files / "c.png")
    assert "macro-F1" in shown.stdout
    assert "colour" in shown.stdout
    assert f"log loss {found['log_loss']:.3f}, ECE {found['ece']:.3f}" in shown.stdout
    for what, name in (("confusion matrix", "c.png"), ("reliability diagram", "c.reliability.png")):
        assert f"{what}: {files / name}" in shown.stdout
        assert (files / name).exists()


def test_predict_a_file_in_order(trained, files):
    done = call("predict", trained[0], files / "test.csv", "--out", files / "out.jsonl")
    assert done.exit_code == 0, done.output
    rows = [json.loads(line) for line in (files / "out.jsonl").read_text().splitlines()]
    truth = [label for _, label in sentences(40, seed=5)]
    assert len(rows) == 40
    right = sum(row["label"] == label for row, label in zip(rows, truth, strict=True))
    found = json.loads(call("evaluate", trained[0], "--data", files / "test.csv", "--json").stdout)
    assert right / 40 == pytest.approx(found["accuracy"])
    assert set(rows[0]["probabilities"]) == {"colour", "fruit"}
    call("predict", trained[0], files / "test.csv", "--out", files / "out.csv")
    lines = (files / "out.csv").read_text().splitlines()
    assert lines[0] == "label,colour,fruit"
    assert [line.split(",")[0] for line in lines[1:]] == [row["label"] for row in rows]


def test_columns_of_the_table_stand_beside_their_answers(trained, files):
    rows = [("" if number % 50 == 7 else text, number) for number, (text, _) in enumerate(sentences(600, seed=9))]
    path = write_csv(files / "ids.csv", rows, "sentence,id")
    plain = call("predict", trained[0], path).stdout.splitlines()
    for ending in ("csv", "jsonl"):
        keep = (
            ["--keep-columns", "id, sentence"] if ending == "csv" else ["--keep-columns", "id", "--keep-columns", "sentence"]
        )
        done = call("predict", trained[0], path, *keep, "--out", files / f"kept.{ending}")
        assert done.exit_code == 0, done.output
    kept = [json.loads(line) for line in (files / "kept.jsonl").read_text().splitlines()]
    assert [(row.pop("sentence"), int(row.pop("id"))) for row in kept] == rows
    assert kept == [json.loads(line) for line in plain]
    with (files / "kept.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    assert list(table[0])[:3] == ["id", "sentence", "label"]
    assert [(row["sentence"], int(row["id"]), row["label"]) for row in table] == [
        (*row, answer["label"]) for row, answer in zip(rows, kept, strict=True)
    ]
    for words, told in (
        ((path, "--keep-columns", "idd"), 'no column "idd"; did you mean "id"?'),
        ((path, "--keep-columns", "label"), "already has a column of this name"),
        (("a text", "--keep-columns", "id"), "--keep-columns selects columns of a table"),
    ):
        refused = call("predict", trained[0], *words)
        assert refused.exit_code == 2
        assert told in refused.output


def test_predict_a_sentence_lines_and_standard_input(trained, files):
    one = json.loads(call("predict", trained[0], "a red one").stdout)
    assert one["label"] in ("colour", "fruit")
    piped = [json.loads(line) for line in call("predict", trained[0], "-", input="a red one\n\nplum\n").stdout.splitlines()]
    assert len(piped) == 3
    assert piped[0]["label"] == one["label"]
    assert piped[0]["probabilities"] == pytest.approx(one["probabilities"], abs=1e-6)  # in a batch of three, and alone
    (files / "lines.txt").write_text("a red one\n\nplum\n")
    done = call("predict", trained[0], files / "lines.txt")
    assert [json.loads(line) for line in done.stdout.splitlines()] == piped


def test_standard_output_has_predictions_alone(trained, files):
    """In a process of its own, with a remark about a text that is too long."""
    command = [sys.executable, "-m", "mtsa", "predict", str(trained[0]), "-"]
    with (files / "printed.jsonl").open("wb") as out:
        done = subprocess.run(
            command, input=b"a red one\n" + b"plum " * 5000, stdout=out, stderr=subprocess.PIPE, check=True, timeout=120
        )
    assert b"1 text truncated" in done.stderr
    lines = (files / "printed.jsonl").read_text().splitlines()
    assert [set(json.loads(line)) for line in lines] == [{"label", "probabilities"}] * 2


def test_what_standard_input_may_hold(trained):
    done = call("predict", trained[0], "-", input=b"Gr\xfc\xdfe\n")
    assert done.exit_code == 2
    assert "standard input, line 1: byte 0xfc is not valid utf-8" in done.stderr
    assert call("predict", trained[0], "-", "--encoding", "cp1252", input=b"Gr\xfc\xdfe\n").exit_code == 0
    assert json.loads(call("predict", trained[0], "").stdout)["label"] in ("colour", "fruit")


def test_an_encoding_is_not_remembered(files):
    (files / "latin.csv").write_bytes(
        b"text,label\n" + "".join(f"gr\u00fcn {n},{n % 2}\n" for n in range(40)).encode("cp1252")
    )
    done = call("train", "--train", files / "latin.csv", "--encoding", "cp1252", "--out", files / "latin", *FAST)
    assert done.exit_code == 0, done.output
    (files / "utf.csv").write_text("text,label\ngr\u00fcn 1,1\n,0\n", encoding="utf-8")
    done = call("evaluate", files / "latin", "--data", files / "utf.csv", "--json")
    assert json.loads(done.stdout)["count"] == 1
    assert "skipped (line 3)" in done.stderr
    assert call("evaluate", files / "latin", "--data", files / "latin.csv").exit_code == 2


def test_every_row_gets_an_answer(trained, files):
    (files / "holes.csv").write_text("sentence,kind\na red one,x\n,\nplum,y\n")
    assert len(call("predict", trained[0], files / "holes.csv").stdout.splitlines()) == 3
    (files / "single.csv").write_text('sentence\n"a red one"\n""\nplum\n')
    assert len(call("predict", trained[0], files / "single.csv").stdout.splitlines()) == 3
    assert call("predict", trained[0], "a red plum " * 60).exit_code == 0
    assert len(call("predict", trained[0], "corpus:questions").stdout.splitlines()) == 238


def test_explain_writes_a_picture(trained, files):
    done = call("explain", trained[0], "a red plum", "--out", files / "a.png")
    assert done.exit_code == 0, done.output
    assert (files / "a.png").exists()


def test_lists(trained):
    names = call("encoders").stdout
    assert all(name in names for name in encoder_names())
    assert "trec.paper" in call("recipes").stdout
    assert 'optimizer = "adadelta"' in call("recipes", "trec.paper").stdout
    assert "glove.6B" in call("data", "list").stdout


def test_data_check(files):
    good = call("data", "check", files / "train.csv", "--text-column", "sentence", "--label-column", "kind")
    assert good.exit_code == 0
    assert "no errors found" in good.stdout
    assert call("data", "check", files / "train.csv").exit_code == 2


def mistakes(files, run):
    """Arguments that are wrong, and what the answer must hold."""

    def made(name, text):
        (files / name).write_bytes(text.encode() if isinstance(text, str) else text)
        return files / name

    out = ("--out", files / "never")
    yield ("train", "--train", made("empty.csv", ""), *out), "contains no examples"
    yield ("train", "--train", made("broken.csv", 'text,label\n"a,x\n'), *out), "closing quote"
    yield ("train", "--train", made("latin.csv", b"text,label\ncaf\xe9,x\nb,y\n"), *out), "--encoding cp1252"
    yield ("train", "--train", made("one.csv", "text,label\na,x\nb,x\nc,x\n"), *out), "needs at least two classes"
    yield ("train", "--train", made("long.csv", "text,label\n" + "a" * 1_100_000 + ",x\nb,y\n"), *out), "1,048,576"
    nan = made("nan.csv", "text,label\na,1\nb,nan\n")
    yield ("train", "--task", "regression", "--train", nan, *out), "finite number"
    yield ("train", "--train", files / "none.csv", *out), "no such file"
    yield ("train", *out), "no training data"
    yield ("train", "--train", files / "train.csv"), "--out"
    yield ("train", "--train", files / "train.csv", *out), 'no column "text"'
    yield ("train", "--train", files / "train.csv", "--encoder", "bilsm", *out), 'did you mean "bilstm"'
    yield ("train", "--train", files / "train.csv", "--set", "training.batchsize=2", *out), 'did you mean "batch_size"'
    yield ("train", "trec.cpa", *out), 'did you mean "trec.cpu"'
    yield ("train", "trec.cpu", *out), "download it with: mtsa data get trec"
    good = ("--text-column", "sentence", "--label-column", "kind", "--train", files / "train.csv")
    yield ("train", *good, "--vectors", files / "none.txt", *out), "no such file"
    yield ("train", *good, "--out", run), "finished run"
    yield ("train", *good, "--folds", "1", *out), "at least 2"
    yield ("train", *good, "--folds", "3", "--repeats", "2", *out), "choose one"
    unknown = made("unknown.csv", "sentence,kind\na,colour\nb,shape\n")
    yield (
        ("evaluate", run, "--data", unknown),
        'line 3: label "shape" is not a label of the model; it must be one of colour, fruit',
    )
    yield ("evaluate", files / "nowhere", "--data", unknown), "no such run directory"
    yield ("evaluate", files, "--data", unknown), "is not a run directory"
    yield ("predict", run, files / "none.csv"), "no such file"
    yield ("predict", run, files / "none.dat"), "looks like a file name"
    (files / "mine").mkdir(exist_ok=True)
    made("mine/thesis.txt", "x")
    yield ("demo", "--out", files / "mine"), "was not created by mtsa demo"
    yield ("predict", run, unknown, "--out", files / "x.txt"), ".jsonl or .csv"
    yield ("predict", run, made("cut.jsonl", '{"sentence": "a"}\n{"sent')), "line 2: not valid JSON"
    yield ("predict", run, made("other.csv", "txt\na\n")), 'no column "sentence"'
    yield ("train", *good, "--set", "encoder.heads=3", *out), "num_heads (3) is odd"
    yield ("train", files / "train.csv", *out), "--train"
    semicolons = made("excel.csv", "text;label\na;x\nb;y\n")
    yield ("train", "--train", semicolons, *out), "--delimiter ';'"
    yield ("data", "check", files / "nothing.csv", "--format", "cvs"), 'did you mean "csv"'
    yield ("recipes", "trek.cpu"), 'did you mean "trec.cpu"'
    yield ("data", "get", "glov"), 'did you mean "glove.6B"'
    yield ("data", "check", made("x.data", "a")), "cannot infer the format"


def test_every_mistake_gets_one_sentence_and_exit_code_2(trained, files):
    for arguments, message in mistakes(files, trained[0]):
        done = call(*arguments)
        assert done.exit_code == 2, (arguments, done.output, done.exception)
        assert message in done.stderr, (arguments, done.stderr)
        assert len(done.stderr.strip().splitlines()) == 1, done.stderr
        assert "Traceback" not in done.output
    assert not (files / "never").exists()
