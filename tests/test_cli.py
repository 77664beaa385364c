"""The command line: help at once, one sentence and exit code 2 for bad input, files written."""

import os
import subprocess
import sys

import pytest
from reproduce.__main__ import app as reproduction
from typer.testing import CliRunner

from mtsa.cli import app

runner = CliRunner()


def test_bench_layer_prints_tables_and_writes_record_and_pictures(tmp_path):
    arguments = [
        "bench",
        "layer",
        "--lengths",
        "5",
        "--layers",
        "paper",
        "--repeats",
        "1",
        "--no-memory",
        "--out",
        str(tmp_path),
    ]
    done = runner.invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert "training step" in done.output
    assert "multihead" in done.output
    assert (tmp_path / "bench-layer.json").exists()
    assert (tmp_path / "time.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--lengths", "16,x"], '"x" is not a length'),
        (["--lengths", ""], "is not a length"),
        (["--layers", "papr"], 'did you mean "paper"'),
        (["--preset", "big"], "sentences, layer, paper, documents"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(arguments, said):
    done = runner.invoke(app, ["bench", "layer", *arguments])
    assert done.exit_code == 2
    assert said in done.stderr
    assert "Traceback" not in done.output
    assert len(done.stderr.strip().splitlines()) == 1


def test_results_without_records_says_what_to_do(tmp_path):
    done = runner.invoke(reproduction, ["results", "--records", str(tmp_path), "--out", str(tmp_path / "r.md")])
    assert done.exit_code == 2
    assert "mtsa bench layer" in done.stderr


def test_a_command_that_moved_is_forwarded_with_a_warning(tmp_path, capfd):
    done = runner.invoke(app, ["results", "--records", str(tmp_path), "--out", str(tmp_path / "r.md")])
    assert done.exit_code == 2
    assert "python -m reproduce results" in done.stderr
    assert "mtsa bench layer" in capfd.readouterr().err  # of the process that it starts


def test_benchmarks_of_whole_models_are_forwarded(capfd):
    done = runner.invoke(app, ["bench", "srl", "--recipes", "x"])
    assert done.exit_code == 2
    assert "python -m reproduce bench srl" in done.stderr
    assert "recipe" in capfd.readouterr().err  # of the process that it starts


def test_old_options_of_a_moved_command_are_translated(tmp_path, capfd):
    old = ["--sets", "snli-subset", "--rows", "minilm-mtsa", "--units", "1", "--minilm", str(tmp_path / "none")]
    done = runner.invoke(app, ["table", "nli", "--data", str(tmp_path), *old, "--records", str(tmp_path / "records")])
    assert done.exit_code == 2
    assert "snli.train_subset_18k.tsv: no such file" in capfd.readouterr().err


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"kind": "attack", "rows": []}', '{"kind": "srl", "setting": 3}'])
def test_results_of_a_record_that_is_none(tmp_path, text):
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / "bench-x.json").write_text(text)
    done = runner.invoke(reproduction, ["results", "--records", str(tmp_path), "--out", str(tmp_path / "r.md")])
    assert done.exit_code == 2
    assert "bench-x.json is not a valid record" in done.stderr
    assert done.stderr.count("\n") == 1


def test_backends_prints_the_capability_table():
    done = runner.invoke(app, ["backends"])
    assert done.exit_code == 0
    for name in ("reference", "factored", "native", "blocked"):
        assert name in done.output


def test_without_its_extras_the_command_names_the_extra_in_one_line():
    code = (
        "import importlib.util, sys\n"
        "real = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, *rest: None if name == 'typer' else real(name, *rest)\n"
        "from mtsa.__main__ import main\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "typer" in done.stderr
    assert "pip install 'mtsa[cli]'" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_information_goes_to_standard_output_and_warnings_to_standard_error():
    """Also in a process of its own, and with the traceback of an error."""
    code = (
        "import logging\n"
        "from mtsa.cli.main import start_logging\n"
        "start_logging()\n"
        "start_logging()\n"  # a second call adds nothing
        "log = logging.getLogger('mtsa.training.run')\n"
        "log.debug('too much')\n"
        "log.info('step 1')\n"
        "log.warning('a row is skipped')\n"
        "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    log.error('a request failed', exc_info=error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "step 1\n"
    assert done.stderr.startswith("a row is skipped\na request failed\nTraceback")
    assert done.stderr.endswith("ZeroDivisionError: division by zero\n")


@pytest.mark.parametrize(
    ("given", "wanted"), [({}, "5000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "active"}, None)]
)
def test_threads_that_wait_sleep_soon(given, wanted):
    """The variable is set before torch is imported, unless the user has decided otherwise."""
    code = (
        "import os, sys; import mtsa.__main__ as entry; import mtsa.cli; sys.argv = ['mtsa', '--help']\n"
        "assert 'torch' not in sys.modules\n"
        "try: entry.main()\n"
        "except SystemExit: print(os.environ.get('GOMP_SPINCOUNT'))"
    )
    clean = {key: value for key, value in os.environ.items() if key not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")}
    done = subprocess.run([sys.executable, "-c", code], env={**clean, **given}, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == str(wanted)
