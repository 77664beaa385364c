"""`mtsa data check`: what is in a file, and what is wrong with it."""

from mtsa.data.check import check
from mtsa.data.examples import Layout


def report(folder, text, **options):
    path = folder / "a.csv"
    path.write_text(text)
    return check(path, Layout(), **options)


def test_a_good_file(tmp_path):
    found = report(tmp_path, "text,label\none two,x\nthree,y\nfour,x\n")
    assert found.wrong == []
    assert found.labels == {"x": 2, "y": 1}
    lines = "\n".join(found.lines())
    assert "3 rows" in lines
    assert "columns: text, label" in lines
    assert "always answering x would be right in 66.7%" in lines
    assert lines.endswith("nothing is wrong with this file")


def test_oddities_are_told_with_their_lines(tmp_path):
    found = report(tmp_path, "text,label\na,x\na,x\na,y\n,x\nb,y\n" + "w " * 600 + ",y\n")
    odd = "\n".join(found.odd)
    assert "1 row with an empty text, which training leaves out: line 5" in odd
    assert "1 text there before with the same label: lines 2 and 3" in odd
    assert "1 text there before with another label: lines 2 and 4" in odd
    assert "1 texts have more than 512 words" in odd
    assert found.wrong == []


def test_what_is_wrong_is_said_with_what_was_read_before(tmp_path):
    found = report(tmp_path, "text,label\na,x\nb,y,z\n")
    assert found.rows == 1
    assert "line 3: 3 fields" in found.wrong[0]
    assert report(tmp_path, "text,label\na,x\nb,x\n").wrong == [
        'all rows have the label "x"; a classifier needs at least two classes'
    ]
    assert "holds no examples" in report(tmp_path, "text,label\n").wrong[0]


def test_targets_are_described(tmp_path):
    found = report(tmp_path, "text,label\na,1\nb,3\n", number=True)
    assert "targets: 1 to 3, mean 2, deviation 1" in found.lines()
