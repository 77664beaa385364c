"""The tables of natural language inference: plan, counts, real runs on small files, and the figure."""

import dataclasses
import json
import re

import pytest
from reproduce.__main__ import app
from reproduce.benchmarks import nli as bench
from reproduce.benchmarks.report import sections
from reproduce.parameter_counts import NLI as COUNTED
from reproduce.parameter_counts import build, nli_counts
from reproduce.paths import Paths
from reproduce.records import read_records
from reproduce.runner import execute_all
from reproduce.tables import NLI
from typer.testing import CliRunner

from mtsa.errors import InputError
from mtsa.files import write_json
from mtsa.training.language_model import Setting, pretrain
from reproduce import table_page
from tests.sample_data import glove
from tests.training.test_pairs import pairs

UNSEARCHED = dataclasses.replace(NLI, search=None)
KINDS = {"same": "entailment", "other": "neutral"}


def official(path, rows):
    lines = ["\t".join(("gold_label", "sentence1", "sentence2"))]
    path.write_text("\n".join([*lines, *(f"{KINDS[label]}\t{a}\t{b}" for a, b, label, _ in rows)]) + "\n")


def bare(path, rows):
    path.write_text("".join(f"{KINDS[label]}\t{a}\t{b}\n" for a, b, label, _ in rows))


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    folder = tmp_path_factory.mktemp("nli")
    bare(folder / "snli.train_subset_18k.tsv", pairs(40, 1))
    official(folder / "counterfactual.train.tsv", pairs(20, 2))
    bare(folder / "snli.dev.tsv", pairs(12, 3))
    bare(folder / "snli.test.tsv", [*pairs(14, 4), *pairs(3, 1)])
    for number, name in enumerate(("base", "contrast", "edit_other", "edit_premise")):
        official(folder / f"protocols.{name}.train.tsv", pairs(12, 10 + number))
    bare(folder / "multinli.dev_matched_1k.tsv", pairs(9, 20))
    bare(folder / "multinli.dev_mismatched_1k.tsv", pairs(7, 21))
    texts = [side for a, b, _, _ in pairs(600, 30) for side in (a, b)]
    small = Setting(layers=1, width=8, tokens=300, length=128, batch=8, steps=2)
    pretrain(texts, folder / "gpt", small)
    return Paths(folder, glove(folder / "vectors.txt"), {"gpt": folder / "gpt"})


@pytest.fixture(scope="module")
def records(paths, tmp_path_factory):
    folder = tmp_path_factory.mktemp("records")
    chosen = UNSEARCHED.runs(paths, ["snli-subset", "protocols"], ["mtsa", "multihead", "mtsa_none", "gpt-mtsa"], 1)
    assert len(chosen) == 7
    execute_all(chosen, folder, minutes=None)
    return folder


PRINTED = {  # the paper's, in millions
    "mtsa": 2.9, "mtsa_no_masks": 2.9, "mtsa_no_token2token": 2.5, "mtsa_no_source2token": 2.5, "mtsa_none": 1.8,
    "bilstm": 2.9, "bigru": 2.5, "multi_cnn": 1.4, "hierarchical_cnn": 3.4, "multihead": 2.0, "disa": 2.3, "biblosa": 4.1,
}  # fmt: skip


def test_counts_are_the_papers_to_the_digit_printed():
    counts = nli_counts()
    assert {name: round(count / 1e6, 1) for name, count in counts.items()} == PRINTED
    assert (counts["mtsa"], counts["multihead"], counts["biblosa"]) == (2_885_403, 1_982_403, 4_148_403)
    told = CliRunner().invoke(app, ["params", "--task", "nli", "--json"])
    assert json.loads(told.output) == counts
    assert CliRunner().invoke(app, ["params", "--task", "srl"]).exit_code == 2


def test_the_plan_has_every_row_of_the_paper(paths):
    assert {model.paper for model in NLI.models.values()} >= {
        "Bi-LSTM", "Bi-GRU", "Multi-CNN", "Hrchy-CNN", "Multi-head", "DiSA", "Bi-BloSA", "MTSA", "MTSA w/o fw&bw masks",
        "MTSA w/o token2token", "MTSA w/o source2token", "MTSA w/o proposed modules", "Transfer + Multi-Head",
        "Transfer + MTSA",
    }  # fmt: skip
    found = [(run.model, run.dataset) for run in UNSEARCHED.runs(paths)]
    assert {found.count((model, "snli-subset")) for model in ("mtsa", "multihead", "bilstm")} == {3}
    assert ("gpt-mtsa", "protocols") in found
    assert not any(model.startswith("minilm") for model, _ in found)  # its folder was not given
    with pytest.raises(InputError, match='model "minilm-mtsa" requires a pretrained model'):
        UNSEARCHED.runs(paths, [], ["minilm-mtsa"])


def test_records_have_one_evaluation_of_each_test_part(records, paths):
    found = {(record["dataset"], record["model"]): record for record in read_records(records)}
    record = found["snli-subset", "mtsa"]
    test = record["test"]["test"]
    assert (test["count"], len(test["items"]["rows"]), test["unseen"]["count"]) == (17, 17, 14)
    assert record["examples"] == {"train": 60, "dev": 12, "test": 17}
    assert record["train"]["count"] == 60
    parts = found["protocols", "mtsa"]["test"]
    assert {name: part["count"] for name, part in parts.items()} == {"matched": 9, "mismatched": 7}
    assert found["snli-subset", "gpt-mtsa"]["settings"]["pretrained"]["lm_weight"] == 0.3
    said = []
    again = UNSEARCHED.runs(paths, ["snli-subset"], ["mtsa"], 1)
    assert execute_all(again, records, minutes=None, say=said.append).runs == []
    assert said == ["1 runs: 1 finished, 0 remaining, about 0 minutes"]


def test_the_views(records):
    found = NLI.check(read_records(records))
    views = [
        [dict(zip(lines[0], line, strict=True)) for line in lines[1:]]
        for lines in map(NLI.rows, NLI.shown(found), [found] * 3)
    ]
    contexts, ablations, transfer = ({line["model"]: line for line in view} for view in views)
    assert "DiSA (`disa`)" not in contexts
    mine = next(record for record in found if (record["dataset"], record["model"]) == ("snli-subset", "mtsa"))
    values = [100 * mine[part]["accuracy"] for part in ("train", "dev")] + [100 * mine["test"]["test"]["accuracy"]]
    line = contexts["MTSA (`mtsa`)"]
    assert [line[f"SNLI subset: {part}"] for part in ("train", "dev", "test")] == [f"{value:.1f} [1 of 3]" for value in values]
    assert (line["SNLI subset: train (paper)"], line["SNLI subset: test (paper)"]) == ("91.8", "86.3")
    assert ablations["no context (`mtsa_none`)"]["SNLI subset: test (paper)"] == "84.3"
    paper = [value for title, value in transfer["GPT + MTSA (`gpt-mtsa`)"].items() if title.endswith("(paper)")]
    assert paper == ["87.2", "86.9", "76.7", "76.4"]
    page = table_page.page(NLI, found, [], "")
    assert "7 runs" in page
    assert re.search("SNLI subset: .*DiSA", page)


def test_the_command_prints_existing_records(records):
    shown = CliRunner().invoke(app, ["table", "nli", "--show", "--records", str(records)])
    assert shown.exit_code == 0
    assert "mtsa_none" in shown.output


@pytest.mark.slow
def test_the_bench_measures_beside_multihead_and_counts_operations(tmp_path):
    setting = bench.Setting(lengths=(5,), batch=3, repeats=1, names=("mtsa",), memory_length=5)
    record = bench.run(setting)
    assert [row["name"] for row in record["rows"]] == ["multihead", "mtsa"]
    assert record["rows"][0]["step_ratio"] == 1.0
    assert all(row["step_bytes"] > 0 for row in record["memory"])
    assert record["passes"] == []
    write_json(tmp_path / "x" / "bench-nli.json", record)
    (page,) = sections(tmp_path)
    assert "2,885,403" in page


def test_counted_operations_are_those_of_the_layers():
    """By hand, for 64 words: maps of each token, scores and sums of each pair of tokens, the head of each pair of texts."""
    multihead = 2 * (64 * (540_000 + 720_000) + 64 * 64 * 1200) + 2400 * 300 + 300 * 3
    assert bench.operations(build("multihead"), "multihead", 64) == multihead
    maps = 180_000 + 360_000 + 360_000 + 360_000 + 720_000
    mtsa = 2 * (64 * maps + 64 * 64 * 1800) + 2400 * 300 + 2 * 300 * 300 + 300 * 3
    assert bench.operations(build("mtsa"), "mtsa", 64) == mtsa
    between = 2 * (90_000 + 180_000 + 180_000)  # of Bi-BloSA: 13 blocks of 5 for 64 words
    biblosa = 2 * (64 * (2 * (90_000 + 180_000 + 90_000 + 540_000) + 720_000) + 13 * between) + 2400 * 300 + 300 * 3
    assert bench.operations(build("biblosa"), "biblosa", 64) == pytest.approx(biblosa)
    assert set(COUNTED) == set(PRINTED)


@pytest.mark.slow
def test_a_pass_is_measured_on_the_lengths_of_the_data_and_drawn(records, paths, tmp_path):
    train, dev = bench.lengths_of("snli-subset", paths.data)
    assert (len(train), len(dev)) == (60, 12)
    first = pairs(40, 1)[0]
    assert train[0] == (len(first[0].split()), len(first[1].split()))
    lengths = {"train_lengths": tuple(train), "dev_lengths": tuple(dev)}
    record = bench.run(bench.Setting(lengths=(3,), batch=2, repeats=1, names=("mtsa",), memory_length=3, sample=1, **lengths))
    assert {row["name"] for row in record["passes"]} == {"mtsa", "multihead"}
    assert all(row["epoch_seconds"] > row["dev_seconds"] > 0 for row in record["passes"])
    record_file = tmp_path / "nli-cost" / "bench-nli.json"
    record_file.parent.mkdir()
    write_json(record_file, record)
    assert "paper: epoch" in sections(tmp_path)[0]
    options = ["figure", "--records", str(records), "--out", str(tmp_path / "a.png")]
    shown = CliRunner().invoke(app, [*options, "--cost", str(record_file)])
    assert shown.exit_code == 0, shown.output
    assert shown.output.rstrip().endswith("a.png: mtsa, multihead")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    wrong = CliRunner().invoke(app, [*options, "--cost", str(tmp_path / "none.json")])
    assert wrong.exit_code == 2
    assert "reproduce bench nli" in wrong.output
