"""`mtsa data check`: what is in a file, and what is wrong with it."""

from typer.testing import CliRunner

from mtsa.cli import app
from mtsa.data.check_parallel import check_parallel
from mtsa.data.check_texts import check_texts
from mtsa.data.examples import Layout


def report(folder, text, **options):
    path = folder / "a.csv"
    path.write_text(text)
    return check_texts(path, Layout(), **options)


def test_a_good_file(tmp_path):
    found = report(tmp_path, "text,label\none two,x\nthree,y\nfour,x\n")
    assert found.errors == []
    assert found.labels == {"x": 2, "y": 1}
    lines = "\n".join(found.lines())
    assert "3 rows" in lines
    assert "columns: text, label" in lines
    assert "accuracy of the majority class (x): 66.7%" in lines
    assert lines.endswith("no errors found")


def test_oddities_are_told_with_their_lines(tmp_path):
    found = report(tmp_path, "text,label\na,x\na,x\na,y\n,x\nb,y\n" + "w " * 600 + ",y\n")
    for words in (
        ("empty text", "line 5"),
        ("same label", "lines 2 and 3"),
        ("a different label", "lines 2 and 4"),
        ("more than 512 words",),
    ):
        assert any(all(word in remark for word in words) for remark in found.warnings), words
    assert found.errors == []


def test_what_is_wrong_is_said_with_what_was_read_before(tmp_path):
    found = report(tmp_path, "text,label\na,x\nb,y,z\n")
    assert found.rows == 1
    assert "line 3: 3 fields" in found.errors[0]
    (wrong,) = report(tmp_path, "text,label\na,x\nb,x\n").errors
    assert 'label "x"' in wrong
    assert "two classes" in wrong
    assert "contains no examples" in report(tmp_path, "text,label\n").errors[0]


def test_targets_are_described(tmp_path):
    found = report(tmp_path, "text,label\na,1\nb,3\n", number=True)
    assert "targets: 1 to 3, mean 2, standard deviation 1" in found.lines()


def parallel_report(folder, english, german):
    (folder / "a.en").write_text(english)
    (folder / "a.de").write_text(german)
    return check_parallel(folder / "a.en", folder / "a.de")


def test_parallel_text(tmp_path):
    long = "one two three four five six seven eight nine"
    found = parallel_report(tmp_path, f"a dog\n\nOK\na dog\n{long}\n", "ein Hund\nleer\nOK\nein Hund\nkurz\n")
    assert not found.errors
    assert found.sentences == 4
    assert all(word in found.summary[0] for word in ("a.en", "median 2", "longest 9"))
    for words in (
        ("empty", "line 2"),
        ("identical in both files", "line 3"),
        ("3 times as many words", "line 5"),
        ("duplicate", "line 4"),
    ):
        assert any(all(word in remark for word in words) for remark in found.warnings), words
    assert len(found.warnings) == 4
    assert parallel_report(tmp_path, "a dog\n", "ein Hund\n").warnings == []
    (told,) = parallel_report(tmp_path, "a\nb\n", "c\n").errors
    assert "ends after line 1" in told


def test_the_command_takes_as_many_files_as_the_task(tmp_path):
    parallel_report(tmp_path, "a dog\n", "ein Hund\n")
    names = [str(tmp_path / "a.en"), str(tmp_path / "a.de")]
    assert CliRunner().invoke(app, ["data", "check", *names, "--task", "translation"]).exit_code == 0
    for words, told in ((names[:1], "requires two files"), ([*names, "x"], "requires two files")):
        done = CliRunner().invoke(app, ["data", "check", *words, "--task", "translation"])
        assert done.exit_code == 2
        assert told in done.output
    done = CliRunner().invoke(app, ["data", "check", *names])
    assert done.exit_code == 2
    assert "requires one file" in done.output


def test_pairs_that_are_one_text_or_turned_round(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("text,pair,label\na b,c d,yes\nc d,a b,no\ne f,e f,no\na b,c d,yes\n")
    odd = check_texts(path, Layout(pair_column="pair"), paired=True).warnings
    for words in (("identical texts", "line 4"), ("reverse order", "line 3"), ("same label", "lines 2 and 5")):
        assert any(all(word in remark for word in words) for remark in odd), words
