"""The embedded sentences with roles are what they say: enough of them, varied, in the props layout, each role in its place."""

from collections import Counter
from importlib import resources
from pathlib import Path

import pytest

from mtsa.data.frames import VERB
from mtsa.data.srl_formats import read_roles

FOLDER = Path(str(resources.files("mtsa.corpora"))) / "roles"


@pytest.fixture(scope="module")
def parts():
    return {part: read_roles(FOLDER / f"{part}.props", words=FOLDER / f"{part}.words") for part in ("train", "dev", "test")}


def test_sizes(parts):
    assert {part: len(found) for part, found in parts.items()} == {"train": 120, "dev": 20, "test": 40}
    every = [sentence for found in parts.values() for sentence in found]
    assert len({sentence.words for sentence in every}) == 180
    assert sum(len(sentence.frames) for sentence in every) == 327
    assert sum(not sentence.frames for sentence in every) == 10


def test_every_frame_has_its_verb_and_every_piece_and_reference_its_argument(parts):
    labels = Counter()
    for found in parts.values():
        for sentence in found:
            for frame in sentence.frames:
                names = [span.label for span in frame.spans]
                labels.update(names)
                (verb,) = [span for span in frame.spans if span.label == VERB]
                assert (verb.start, verb.end) == (frame.predicate, frame.predicate)
                for span in frame.spans:
                    if span.label.startswith(("C-", "R-")):
                        assert span.label[2:] in names, (sentence.words, frame)
    assert labels["C-A1"] >= 12
    assert sum(count for label, count in labels.items() if label.startswith("R-")) >= 15
    assert len(labels) >= 20
