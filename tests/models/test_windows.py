"""Windows of long texts over a pretrained model."""

import pytest
import torch

from mtsa.models.windows import Windows


def counted(calls):
    """A model whose vector of a token is (id, place in the window, real tokens of the window)."""

    def read(ids, keep):
        calls.append(ids.shape[0])
        place = torch.arange(ids.shape[1]).expand_as(ids)
        return torch.stack([ids, place, keep.sum(1, keepdim=True).expand_as(ids)], -1).float()

    return read


def text(length, before=1, after=1):
    """Ids of a text: 101s before it, 102s after it, 1000, 1001, ... in it."""
    return [101] * before + list(range(1000, 1000 + length)) + [102] * after


def padded(*rows):
    longest = max(map(len, rows))
    ids = torch.tensor([[*row, *[0] * (longest - len(row))] for row in rows])
    return ids, torch.tensor([[n < len(row) for n in range(longest)] for row in rows])


@pytest.mark.parametrize(("before", "after"), [(1, 1), (0, 0), (2, 0)])
def test_each_token_has_the_vector_of_its_most_central_window(before, after):
    windows = Windows(18, before, after)
    room, stride = 18 - before - after, windows.stride
    lengths = (100, 41, room + 1, room, 1, 0)
    rows = [text(length, before, after) for length in lengths]
    ids, keep = padded(*rows)
    calls = []
    out = windows.read(ids, keep, counted(calls))
    used = 0
    for row, length in enumerate(lengths):
        starts = [0]
        while starts[-1] + room < length:
            starts.append(starts[-1] + stride)
        used += len(starts)
        for n, number in enumerate(rows[row]):
            found = out[row, n].tolist()
            assert found[0] == number
            inner = n - before
            if not 0 <= inner < length:
                continue
            central = [min(inner - start + (start == 0) * 99, start + room - 1 - inner + (start == starts[-1]) * 99)
                       for start in starts if start <= inner < start + room]  # fmt: skip
            held = [start for start in starts if start <= inner < start + room]
            own = inner - (found[1] - before)
            assert own in held
            distance = central[held.index(own)]
            assert distance == max(central), "a neighbouring window has it farther from its end"
            assert found[2] == before + min(room, length - own) + after
    assert sum(calls) == used


def test_a_text_that_fits_is_read_as_a_whole():
    ids, keep = padded(text(16), text(3))
    out = Windows(18, 1, 1).read(ids, keep, counted([]))
    assert out[0, :, 1].tolist() == list(range(18))
    assert out[1, :5, 2].tolist() == [5] * 5


def test_texts_shorter_than_a_window_are_read_without_its_rest():
    ids, keep = padded(text(5), text(3))
    calls = []
    out = Windows(18, 1, 1).read(ids, keep, counted(calls))
    assert out[..., 0][keep].tolist() == ids[keep].tolist()
    assert out[0, :, 1].tolist() == list(range(7))
    assert calls == [2]


def test_a_static_graph_reads_the_same(monkeypatch):
    ids, keep = padded(text(75), text(20), text(0))
    windows = Windows(18, 1, 1)
    plain = windows.read(ids, keep, counted([]))
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    torch.testing.assert_close(windows.read(ids, keep, counted([]))[keep], plain[keep])


def test_without_gradient_windows_are_read_in_groups():
    ids, keep = padded(text(1000))
    for gradient, groups in ((True, 1), (False, 3)):
        calls = []
        with torch.set_grad_enabled(gradient):
            Windows(18, 1, 1).read(ids, keep, counted(calls))
        assert len(calls) == groups
