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
    assert "accuracy of always predicting x: 66.7%" in lines
    assert lines.endswith("no errors found")


def test_oddities_are_told_with_their_lines(tmp_path):
    found = report(tmp_path, "text,label\na,x\na,x\na,y\n,x\nb,y\n" + "w " * 600 + ",y\n")
    odd = "\n".join(found.warnings)
    assert "1 row with an empty text, which training skips: line 5" in odd
    assert "1 duplicate with the same label: lines 2 and 3" in odd
    assert "1 duplicate with another label: lines 2 and 4" in odd
    assert "1 texts have more than 512 words" in odd
    assert found.errors == []


def test_what_is_wrong_is_said_with_what_was_read_before(tmp_path):
    found = report(tmp_path, "text,label\na,x\nb,y,z\n")
    assert found.rows == 1
    assert "line 3: 3 fields" in found.errors[0]
    assert report(tmp_path, "text,label\na,x\nb,x\n").errors == [
        'all rows have the label "x"; a classifier needs at least two classes'
    ]
    assert "contains no examples" in report(tmp_path, "text,label\n").errors[0]


def test_targets_are_described(tmp_path):
    found = report(tmp_path, "text,label\na,1\nb,3\n", number=True)
    assert "targets: 1 to 3, mean 2, deviation 1" in found.lines()


def parallel_report(folder, english, german):
    (folder / "a.en").write_text(english)
    (folder / "a.de").write_text(german)
    return check_parallel(folder / "a.en", folder / "a.de")


def test_parallel_text(tmp_path):
    long = "one two three four five six seven eight nine"
    found = parallel_report(tmp_path, f"a dog\n\nOK\na dog\n{long}\n", "ein Hund\nleer\nOK\nein Hund\nkurz\n")
    assert not found.errors
    assert found.sentences == 4
    assert found.summary[0] == "words in a line of a.en: median 2, longest 9"
    assert found.warnings == [
        "1 lines with an empty side, which training skips: line 2",
        "1 lines that are identical in both files: line 3",
        "1 lines with 3 times as many words as the other side; are they translations? line 5",
        "1 duplicate sentences: line 4",
    ]
    assert parallel_report(tmp_path, "a dog\n", "ein Hund\n").warnings == []
    (told,) = parallel_report(tmp_path, "a\nb\n", "c\n").errors
    assert "ends after line 1" in told


def test_the_command_takes_as_many_files_as_the_task(tmp_path):
    parallel_report(tmp_path, "a dog\n", "ein Hund\n")
    names = [str(tmp_path / "a.en"), str(tmp_path / "a.de")]
    assert CliRunner().invoke(app, ["data", "check", *names, "--task", "translation"]).exit_code == 0
    for words, told in ((names[:1], "takes two files"), ([*names, "x"], "takes two files")):
        done = CliRunner().invoke(app, ["data", "check", *words, "--task", "translation"])
        assert done.exit_code == 2
        assert told in done.output
    done = CliRunner().invoke(app, ["data", "check", *names])
    assert done.exit_code == 2
    assert "takes one file" in done.output


def test_pairs_that_are_one_text_or_turned_round(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("text,pair,label\na b,c d,yes\nc d,a b,no\ne f,e f,no\na b,c d,yes\n")
    odd = check_texts(path, Layout(pair_column="pair"), paired=True).warnings
    assert "1 pair of two identical texts: line 4" in odd
    assert "1 pair also in reverse order: line 3" in odd
    assert "1 duplicate with the same label: lines 2 and 5" in odd
