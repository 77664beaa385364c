"""The downloads of `mtsa data get NAME`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Download:
    """One file, and the members to extract if it is an archive."""

    url: str
    name: str
    members: tuple[tuple[str, str], ...] = ()  # (path in the archive, name of the extracted file)


@dataclass(frozen=True)
class Source:
    """A data set or a file of vectors: its name, description and files."""

    name: str
    about: str
    files: tuple[Download, ...]


_STANFORD = "https://nlp.stanford.edu"
_SENTENCES = "https://raw.githubusercontent.com/harvardnlp/sent-conv-torch/master/data"
_TREES = tuple((f"trees/{part}.txt", f"{part}.txt") for part in ("train", "dev", "test"))
_SNLI = tuple((f"snli_1.0/snli_1.0_{part}.jsonl", f"snli_1.0_{part}.jsonl") for part in ("train", "dev", "test"))
_MULTINLI = tuple(
    (f"multinli_1.0/multinli_1.0_{part}.jsonl", f"multinli_1.0_{part}.jsonl")
    for part in ("train", "dev_matched", "dev_mismatched")
)

SOURCES: dict[str, Source] = {
    source.name: source
    for source in (
        Source(
            "trec",
            "TREC questions, 6 or 50 classes (--format trec)",
            (
                Download("https://cogcomp.seas.upenn.edu/Data/QA/QC/train_5500.label", "trec.train"),
                Download("https://cogcomp.seas.upenn.edu/Data/QA/QC/TREC_10.label", "trec.test"),
            ),
        ),
        Source(
            "sst",
            "Stanford Sentiment Treebank, trees (--format sst)",
            (Download(f"{_STANFORD}/sentiment/trainDevTestTrees_PTB.zip", "trainDevTestTrees_PTB.zip", _TREES),),
        ),
        Source("cr", "customer reviews (--format label_text)", (Download(f"{_SENTENCES}/custrev.all", "cr.all"),)),
        Source("mpqa", "MPQA polarity (--format label_text)", (Download(f"{_SENTENCES}/mpqa.all", "mpqa.all"),)),
        Source("subj", "subjectivity (--format label_text)", (Download(f"{_SENTENCES}/subj.all", "subj.all"),)),
        Source(
            "snli",
            "Stanford Natural Language Inference",
            (Download(f"{_STANFORD}/projects/snli/snli_1.0.zip", "snli_1.0.zip", _SNLI),),
        ),
        Source(
            "multinli",
            "Multi-Genre Natural Language Inference",
            (Download("https://cims.nyu.edu/~sbowman/multinli/multinli_1.0.zip", "multinli_1.0.zip", _MULTINLI),),
        ),
        Source(
            "glove.6B",
            "GloVe vectors, 50 to 300 dimensions, lower-cased (use with --vectors and --set vectors.member=glove.6B.100d.txt)",
            (Download(f"{_STANFORD}/data/glove.6B.zip", "glove.6B.zip"),),
        ),
        Source(
            "glove.840B",
            "GloVe vectors, 300 dimensions, cased (use with --vectors)",
            (Download(f"{_STANFORD}/data/glove.840B.300d.zip", "glove.840B.300d.zip"),),
        ),
    )
}
