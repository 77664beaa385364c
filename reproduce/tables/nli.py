"""Natural language inference: encoders and ablations over word vectors (the paper's Tables 1 and 3), transfer (Table 2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mtsa.data import readers
from mtsa.data.examples import Example, Layout
from mtsa.training.recipe import Recipe
from mtsa.training.split import Split, check_file_exists, split_off
from reproduce.dataset import DataSet
from reproduce.paths import Paths
from reproduce.table import SEARCH, Column, Model, Table, View, by_name


@dataclass(frozen=True, eq=False)
class PairSet(DataSet):
    """Sentence pairs whose parts are in several files of different formats; `data` names the files with their formats."""

    formats: Mapping[str, str] | None = None  # file to format
    tests: Mapping[str, str] | None = None  # test part to file

    def data_settings(self, paths: Paths) -> dict[str, Any]:
        return {"train": self.name, "dev": "", "test": ""}

    def files(self, paths: Paths) -> dict[str, Path]:
        return {name: self.path(paths, name) for name in self.formats or {}}

    def split(self, recipe: Recipe, paths: Paths, number: int) -> Split:
        return self.read(paths, number)

    def read(self, paths: Paths, seed: int = 0) -> Split:
        """All parts; without a dev file, a tenth of the training pairs is cut off by the seed.

        Raises:
            InputError: a file that does not exist or cannot be read.
        """
        train = [example for name in self.data["train"] for example in self._read(paths, name)]
        dev = [example for name in self.data["dev"] for example in self._read(paths, name)]
        if not dev:
            train, dev = split_off(train, 0.1, seed, by_class=True)
        return Split(
            train, dev, [], [], {f"test:{part}": self._read(paths, name) for part, name in (self.tests or {}).items()}
        )

    def _read(self, paths: Paths, name: str) -> list[Example]:
        path = self.path(paths, name)
        check_file_exists(str(path))
        return readers.read(path, Layout(format=(self.formats or {})[name]), paired=True).items


def _pairs(
    name: str, title: str, train: dict[str, str], dev: dict[str, str], tests: dict[str, tuple[str, str]], **options: Any
) -> PairSet:
    """A data set from files with their formats."""
    formats = {**train, **dev, **dict(tests.values())}
    parts = {part: file for part, (file, _) in tests.items()}
    return PairSet(
        name, title, "snli.cpu", {"train": tuple(train), "dev": tuple(dev)}, formats=formats, tests=parts, **options
    )


_PROTOCOLS = {f"protocols.{name}.train.tsv": "nli" for name in ("base", "contrast", "edit_other", "edit_premise")}
_SUBSET = {"snli.train_subset_18k.tsv": "label_pair", "counterfactual.train.tsv": "nli"}
DATASETS: dict[str, PairSet] = by_name(
    [
        _pairs(
            "snli",
            "SNLI",
            {"snli_1.0_train.jsonl": "nli"},
            {"snli_1.0_dev.jsonl": "nli"},
            {"test": ("snli_1.0_test.jsonl", "nli")},
            seeds=3,
            fetch="snli",
        ),
        _pairs(
            "multinli",
            "MultiNLI",
            {"multinli_1.0_train.jsonl": "nli"},
            {},
            {
                "matched": ("multinli_1.0_dev_matched.jsonl", "nli"),
                "mismatched": ("multinli_1.0_dev_mismatched.jsonl", "nli"),
            },
            fetch="multinli",
        ),
        _pairs(
            "snli-subset",
            "SNLI subset",
            _SUBSET,
            {"snli.dev.tsv": "label_pair"},
            {"test": ("snli.test.tsv", "label_pair")},
            seeds=3,
        ),
        _pairs(
            "protocols",
            "NLI protocols (Wikipedia)",
            _PROTOCOLS,
            {},
            {
                "matched": ("multinli.dev_matched_1k.tsv", "label_pair"),
                "mismatched": ("multinli.dev_mismatched_1k.tsv", "label_pair"),
            },
        ),
    ]
)
"""`snli` and `multinli` are the official files; `snli-subset` is 18,000 training pairs of SNLI with 8,330 counterfactual ones
and the official dev and test parts; `protocols` is training text in the style of MultiNLI, tested on parts of its dev files.
"""
_SNLI_ONLY = {"multinli": 0, "protocols": 0}
_ONE_SEED = {**_SNLI_ONLY, "snli": 1, "snli-subset": 1}


def _ablation(name: str, about: str, paper: str) -> Model:
    return Model(name, about, name, paper=paper, runs=_SNLI_ONLY)


def _transfer(name: str, about: str, pretrained: str, *, block: Mapping[str, Any] | None = None) -> Model:
    """MTSA on top of a pretrained model, or an additional Transformer block with these options."""
    options = block or {}
    encoder, paper = ("transformer_block", "Transfer + Multi-Head") if block else ("mtsa", "Transfer + MTSA")
    recipe, runs = f"snli.{pretrained}.cpu", {"snli": 1, "snli-subset": 1}
    exp = {"encoder.score_activation": "identity", "encoder.source_activation": "identity", "encoder.source_layers": 1}
    if pretrained == "gpt":
        exp["encoder.masks"] = '"causal*4"'
    return Model(
        name,
        about,
        encoder,
        options,
        overrides={} if options else {"multinli": exp, "protocols": exp},
        paper=paper,
        pretrained=pretrained,
        recipe=recipe,
        runs=runs,
        searched=False,
    )


_BLOCK = {"encoder.heads": 4, "encoder.masks": '"causal*4"', "encoder.attention_dropout": 0.1, "model.pooling": "last"}
_MINILM_BLOCK = {"encoder.heads": 6, "encoder.attention_dropout": 0.1, "model.pooling": "mean"}


MODELS = by_name(
    [
        Model("bilstm", "150 units in each direction", "bilstm", paper="Bi-LSTM", runs=_SNLI_ONLY),
        Model("bigru", "150 units in each direction", "bigru", paper="Bi-GRU", runs=_SNLI_ONLY),
        Model("multi_cnn", "100 filters of each size", "multi_cnn", paper="Multi-CNN", runs=_SNLI_ONLY),
        Model("hierarchical_cnn", "150 channels", "hierarchical_cnn", paper="Hrchy-CNN", runs=_SNLI_ONLY),
        Model(
            "multihead",
            "4 heads of 75; sinusoidal positions scaled by 0.1, because their norm exceeds that of the word vectors",
            "multihead",
            {"encoder.position_scale": 0.1},
            paper="Multi-head",
        ),
        Model("disa", "150 features in each direction", "disa", paper="DiSA", runs=_ONE_SEED),
        Model("biblosa", "150 features in each direction", "biblosa", paper="Bi-BloSA", runs=_ONE_SEED),
        Model("mtsa", "two heads of 150", "mtsa", paper="MTSA"),
        _ablation("mtsa_no_masks", "every head attends to all other tokens", "MTSA w/o fw&bw masks"),
        _ablation("mtsa_no_token2token", "no token2token scores", "MTSA w/o token2token"),
        _ablation("mtsa_no_source2token", "no source2token scores", "MTSA w/o source2token"),
        _ablation("mtsa_none", "a dense layer on each token, without any context", "MTSA w/o proposed modules"),
        _transfer(
            "gpt-block",
            "additional causal Transformer block on top of a small GPT, classified from the last token",
            "gpt",
            block=_BLOCK,
        ),
        _transfer("gpt-mtsa", "MTSA on top of a small GPT", "gpt"),
        _transfer(
            "minilm-block",
            "additional Transformer block on top of MiniLM, mean pooling",
            "minilm",
            block=_MINILM_BLOCK,
        ),
        _transfer("minilm-mtsa", "MTSA on top of MiniLM", "minilm"),
    ]
)
CONTEXTS = {  # Table 1: accuracy on the training and test parts of SNLI
    "bilstm": ("90.4", "", "85.0"), "bigru": ("91.9", "", "84.9"), "multi_cnn": ("89.3", "", "83.2"),
    "hierarchical_cnn": ("91.3", "", "83.9"), "multihead": ("89.6", "", "84.2"), "disa": ("91.1", "", "85.6"),
    "biblosa": ("91.6", "", "85.8"), "mtsa": ("91.8", "", "86.3"),
}  # fmt: skip
ABLATIONS = {  # Table 3: test accuracy
    "mtsa": ("86.3",), "mtsa_no_masks": ("85.3",), "mtsa_no_token2token": ("85.8",), "mtsa_no_source2token": ("84.9",),
    "mtsa_none": ("84.3",),
}  # fmt: skip
TRANSFER = {  # Table 2: SNLI dev and test, MultiNLI matched and mismatched
    "Transfer + Multi-Head": ("86.9", "86.6", "76.3", "75.7"), "Transfer + MTSA": ("87.2", "86.9", "76.7", "76.4"),
}  # fmt: skip
_OVER = tuple(name for name, model in MODELS.items() if model.pretrained)


def _views() -> tuple[View, ...]:
    found = []
    for snli, multinli in (("snli", "multinli"), ("snli-subset", "protocols")):
        title = DATASETS[snli].title
        parts = tuple(Column(f"{title}: {part}", snli, part) for part in ("train", "dev", "test"))
        contexts = (*CONTEXTS, "mtsa_none")
        found.append(View("Encoders on word vectors (the paper's Table 1)", parts, contexts, CONTEXTS))
        found.append(View("Ablations (Table 3)", parts[2:], tuple(ABLATIONS), ABLATIONS))
        columns = (*parts[1:], *(Column(f"{multinli}: {part}", multinli, part) for part in ("matched", "mismatched")))
        paper = {name: TRANSFER[MODELS[name].paper] for name in _OVER}
        references = ("multihead", "mtsa")
        found.append(
            View("Transfer from pretrained models (Table 2)", columns, (*references, *_OVER), paper, references=references)
        )
    return tuple(found)


NOTES = """\
- **Scores**: accuracy in percent, mean (standard deviation) over seeds; [n of m]: n of m planned runs exist; *train*:
  accuracy on the training pairs. The best step is selected on the dev pairs. Each record has the dev curve and one
  evaluation of each test set, with the prediction for every pair.
- **Data**: `snli-subset` has 18,000 training pairs of SNLI and 8,330 pairs of counterfactually augmented SNLI (Kaushik
  et al., 2020) instead of 549,367, and the official dev and test sets. `protocols` has 34,000 pairs from Wikipedia text
  (Bowman et al., 2020) instead of the training set of MultiNLI, tested on the first 1,000 pairs of each of its dev sets.
- **Models**: GloVe 6B vectors of 100 dimensions instead of 300, half of the paper's width. All models have the same
  layers above the encoder: source2token pooling, a highway layer, ELU. Those of the paper differ from model to model
  (see the parameter counts).
- **Search**: the same for all models of Tables 1 and 3 (`reproduce/PROTOCOL.md`).
- **Transfer** (recipes `snli.gpt.cpu`, `snli.minilm.cpu`): the small GPT (4 layers, width 256) was trained by `mtsa
  pretrain` on a small amount of English text, the paper's on a large corpus of books; the weight of its language-model
  loss is 0.3. As in the authors' code: AdamW, batches of 20, texts of at most 50 tokens, one GELU layer of the width of
  the pretrained model before the output; on MultiNLI and `protocols`, MTSA has exponential scores, one source2token
  layer and a causal mask. Different: the block classifies from the last token, the authors append a classification
  token. MiniLM has no language-model loss; its authors trained it on pairs of SNLI and MultiNLI, so its scores are
  contaminated.
"""
NLI = Table(
    name="nli",
    title="Natural language inference",
    datasets=DATASETS,
    models=MODELS,
    views=_views(),
    notes=NOTES,
    deviation="26,330 training pairs instead of 549,367, GloVe vectors of 100 dimensions instead of 300, half of the width",
    scores_train=True,
    search=SEARCH,
)
