"""Translation (the paper's Table 6)."""

from reproduce.dataset import DataSet
from reproduce.table import Column, Model, Table, View, by_name


def _bitext(name: str, title: str, recipe: str, train: str, dev: str, test: str, *further: str) -> DataSet:
    """Parallel text: names of files without the ending of the language."""
    data: dict[str, str | tuple[str, ...]] = {}
    for part, stem in (("train", train), ("dev", dev), ("test", test)):
        data |= {part: f"{stem}.en", f"{part}_target": f"{stem}.de"}
    if further:
        data |= {"tests": tuple(f"{stem}.en" for stem in further), "tests_target": tuple(f"{stem}.de" for stem in further)}
    return DataSet(name, title, recipe, data, seeds=3, folder="multi30k")


DATASETS = by_name(
    [
        _bitext("multi30k", "Multi30k", "multi30k.cpu", "train", "val", "test_2016_flickr", "test_2017_flickr"),
        _bitext("wmt14-setup1", "WMT14, setup 1", "wmt.setup1.paper", "train", "newstest2013", "newstest2014"),
        _bitext("wmt14-setup2", "WMT14, setup 2", "wmt.setup2.paper", "train", "newstest2013", "newstest2014"),
    ]
)
MODELS = by_name(
    [
        Model("multihead", "multi-head attention", "multihead", paper="multi-head"),
        Model("mtsa", "tensorized attention without positional masks, as in the authors' code", "mtsa", paper="MTSA"),
        Model(
            "mtsa-halves",
            "tensorized attention with forward masks in half of the heads and backward masks in the others",
            "mtsa",
            {"encoder.masks": "halves"},
        ),
    ]
)
PAPER = {  # Table 6: mean BLEU of newstest2014
    "wmt14-setup1": {"multihead": ("23.64",), "mtsa": ("24.09",)},
    "wmt14-setup2": {"multihead": ("26.98",), "mtsa": ("27.21",)},
}
NOTES = """\
- **Scores**: BLEU (sacreBLEU), mean (standard deviation) over seeds; [n of m]: n of m planned runs exist. The best epoch
  is selected on the dev set. Each record has the dev curve and one evaluation of each test set.
- **The paper** reports 23.64 for multi-head attention and 24.09 for MTSA in its setup 1 (p = 0.001), 26.98 and 27.21 in
  setup 2 (p = 0.080), on WMT14.
- **Differences of Multi30k from the paper**: 29,000 pairs instead of WMT14; 2 + 2 layers of width 256 with 4 heads and
  feed-forward width 512, instead of 6 + 6 layers of width 512 with 8 heads and 2,048; 4,000 subwords instead of 33,708;
  batches of 1,024 subwords for 8 epochs; linear warm-up and decay; no attention dropout; the best epoch is selected by
  greedy decoding of the dev set, the paper uses the last checkpoint (setup 1).
"""


def _view(dataset: DataSet) -> View:
    columns = [Column(f"{dataset.title}: test", dataset.name, "test", "bleu", 1.0)]
    further = dataset.data.get("tests", ())
    columns += [Column(name.removesuffix(".en"), dataset.name, name.removesuffix(".en"), "bleu", 1.0) for name in further]
    return View(dataset.title, tuple(columns), tuple(MODELS), PAPER.get(dataset.name, {}), digits=2)


TRANSLATION = Table(
    name="translation",
    title="Translation",
    datasets=DATASETS,
    models=MODELS,
    views=tuple(map(_view, DATASETS.values())),
    notes=NOTES,
    deviation="29,000 sentence pairs instead of WMT14, 2 + 2 layers of width 256 instead of 6 + 6 of 512",
)
