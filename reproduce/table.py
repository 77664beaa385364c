"""The definition of a table: its data sets, its models, its runs and the values it shows. All tables of the paper use it."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mtsa.errors import InputError
from mtsa.messages import nearest
from mtsa.training.split import check_file_exists

from .dataset import DataSet
from .names import display
from .paths import Paths
from .records import check_alike

if TYPE_CHECKING:
    from .runs import Run

Record = Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Search:
    """Hyperparameter search; every model has the same candidates and budget, and only dev data are used.

    Every candidate is trained for a part of the training (screening) on the first runs of the data set; the best `finalists`
    on dev are trained to the end. With folds, the dev set of each fold decides between the finalists; with seeds, that of
    the first seed decides for all.

    Args:
        candidates: settings beyond those of recipe and model.
        screened: part of the training after which candidates are compared.
        finalists: how many are trained to the end.
    """

    candidates: tuple[Mapping[str, Any], ...]
    screened: float = 3 / 8
    finalists: int = 2


SEARCH = Search(
    tuple({"training.learning_rate": rate, "model.dropout": dropout} for rate in (5e-4, 2e-3) for dropout in (0.2, 0.4))
)
"""The search of the protocol."""


@dataclass(frozen=True, eq=False)
class Model:
    """A model of a table: an encoder with its options, or a simple baseline.

    Args:
        name: used on the command line, in tables and in the path of a record.
        about: one line for the page.
        encoder: name of the encoder; empty for a baseline of `mtsa.baselines`.
        options: settings beyond those of the recipe, such as {"encoder.head_dim": 300}.
        overrides: further settings for single data sets, by their names.
        paper: what the paper calls it.
        pretrained: name of the pretrained model it needs.
        recipe: its recipe, where that is not the data set's.
        runs: how many runs are planned on a data set, where not all are.
        searched: whether its hyperparameters are searched.
        screened: part of the training for which its candidates are screened, where that is not the search's; 0: as there.
    """

    name: str
    about: str
    encoder: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    overrides: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    paper: str = ""
    pretrained: str = ""
    recipe: str = ""
    runs: Mapping[str, int] = field(default_factory=dict)
    searched: bool = True
    screened: float = 0.0

    def planned(self, dataset: DataSet) -> int:
        """How many runs on a data set are planned."""
        return self.runs.get(dataset.name, dataset.runs)


@dataclass(frozen=True, eq=False)
class Column:
    """A column of a table: one metric on one part of one data set.

    Args:
        title: shown in the header.
        dataset: name of the data set.
        part: "train", "dev" or the name of a test part.
        metric: name of the metric in the record, with dots for inner values, such as "verbs.f1".
        factor: what the value is multiplied by; 100 for percent.
    """

    title: str
    dataset: str
    part: str = "test"
    metric: str = "accuracy"
    factor: float = 100.0

    def value(self, record: Record) -> float | None:
        """The value of a record of this data set; None where it has none."""
        found: Any = record.get(self.part) if self.part in ("train", "dev") else record["test"].get(self.part)
        for key in self.metric.split("."):
            found = found.get(key) if isinstance(found, Mapping) else None
        return None if found is None else self.factor * float(found)


@dataclass(frozen=True, eq=False)
class View:
    """Some columns for some models, compared with the values of the paper.

    Args:
        title: heading of the table.
        columns: the values.
        models: names of the models, in order.
        paper: the values of the paper for a model, one cell for each column.
        digits: decimal places.
        optional: whether the view is omitted if no record has a value for it.
        references: models of other views that are repeated; the view is omitted if only they have values.
        paper_data: data set of the paper's values, if it is another one; they are then shown in a separate table.
    """

    title: str
    columns: tuple[Column, ...]
    models: tuple[str, ...]
    paper: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    digits: int = 1
    optional: bool = False
    references: tuple[str, ...] = ()
    paper_data: str = ""


@dataclass(frozen=True, eq=False)
class Table:
    """A table of the paper.

    Args:
        name: used on the command line; records are in `results/NAME`.
        title: heading on the results page.
        datasets: its data sets.
        models: its models.
        views: the tables shown.
        notes: how it was measured, and where it deviates from the paper.
        deviation: the main reason why its values are not those of the paper, in a few words.
        scores_train: whether the training part is scored as well.
        search: the search that every model gets, if there is one.
        dev_only: whether the candidates are screened on dev and nothing else is run.
        before: with dev_only, the model that each changed model is compared with.
    """

    name: str
    title: str
    datasets: Mapping[str, DataSet]
    models: Mapping[str, Model]
    views: tuple[View, ...]
    notes: str
    deviation: str = ""
    scores_train: bool = False
    search: Search | None = None
    dev_only: bool = False
    before: Mapping[str, str] = field(default_factory=dict)

    def runs(
        self,
        paths: Paths,
        datasets: Sequence[str] = (),
        models: Sequence[str] = (),
        limit: int = 0,
        records: Sequence[Record] = (),
    ) -> list[Run]:
        """The runs of the chosen cells that can start: first one of every cell, then the second of every cell, and so on.

        Runs that depend on others, such as those of the finalists of a search, appear when these have records.

        Args:
            paths: where the files are.
            datasets: names; all whose files exist when empty.
            models: names; all that can be run when empty.
            limit: runs of a cell; 0: as many as planned.
            records: the records so far.

        Raises:
            InputError: an unknown name, a missing file, or a package that is not installed.
        """
        from .runs import cell_runs

        check_names(datasets, self.datasets, "data set")
        check_names(models, self.models, "model")
        chosen = [self.datasets[name] for name in dict.fromkeys(datasets)]
        chosen = chosen or [dataset for dataset in self.datasets.values() if dataset.is_present(paths)]
        if not chosen:
            fetch = next((dataset.fetch for dataset in self.datasets.values() if dataset.fetch), "")
            remedy = f"download one with: mtsa data get {fetch}" if fetch else "specify the folder with --data"
            raise InputError(f"{paths.data} contains no data set of table {self.name}; {remedy}")
        for name in models:
            needed = self.models[name].pretrained
            if needed and needed not in paths.pretrained:
                raise InputError(f'model "{name}" requires a pretrained model; specify it with --pretrained {needed}=FOLDER')
        selected = [self.models[name] for name in dict.fromkeys(models)] or [
            model for model in self.models.values() if not model.pretrained or model.pretrained in paths.pretrained
        ]
        cells = [
            cell_runs(self, dataset, model, min(model.planned(dataset), limit or dataset.runs), paths, records)
            for dataset in chosen
            for model in selected
        ]
        runs = [run for round_ in itertools.zip_longest(*cells) for run in round_ if run is not None]
        for path in dict.fromkeys(file for run in runs for file in run.files.values()):
            check_file_exists(str(path))
        return runs

    def check(self, records: Sequence[Record]) -> list[Record]:
        """The records without those of screening (all, in a table of dev scores), if they fit into this table.

        Raises:
            InputError: a record outside the plan, or records of one cell that differ in settings or files.
        """
        for record in records:
            dataset = self.datasets.get(record["dataset"])
            names = [dataset.run_name(number) for number in range(dataset.runs)] if dataset else []
            if self.search is not None:
                names += [screening_name(place, name) for name in names for place in range(len(self.search.candidates))]
            if record["table"] != self.name or record["model"] not in self.models or record["run"] not in names:
                place = f"{record['dataset']}/{record['model']}/{record['run']}.json"
                raise InputError(f"{place} does not belong to table {self.name}; delete it")
        if self.dev_only:
            return list(records)
        final = [record for record in records if not is_screening(record)]
        check_alike(final)
        return final

    def rows(self, view: View, records: Sequence[Record]) -> list[list[str]]:
        """Return header and rows of a view: each model that has a value, with the paper's values next to its own."""
        papers = [
            not view.paper_data and any(view.paper.get(name, cells)[index] for name in view.models)
            for index, cells in enumerate([("",) * len(view.columns)] * len(view.columns))
        ]
        header = ["model"]
        for column, paper in zip(view.columns, papers, strict=True):
            header += [column.title, f"{column.title} (paper)"] if paper else [column.title]
        lines = [[*header, "settings and deviations"]]
        for name in view.models:
            if not any(self.values(column, name, records) for column in view.columns):
                continue
            line = [f"{display(name)} (`{name}`)"]
            for index, column in enumerate(view.columns):
                line.append(self._cell(view, column, name, records))
                if papers[index]:
                    line.append(view.paper[name][index] if name in view.paper else "")
            lines.append([*line, self.models[name].about])
        return lines

    def paper_rows(self, view: View) -> list[list[str]]:
        """Return header and rows of the paper's values, where they were measured on other data."""
        columns = [index for index in range(len(view.columns)) if any(cells[index] for cells in view.paper.values())]
        header = ["model", *(view.columns[index].title for index in columns)]
        return [header, *([self.models[name].paper, *(cells[i] for i in columns)] for name, cells in view.paper.items())]

    def missing(self, records: Sequence[Record], datasets: Collection[str]) -> list[str]:
        """Return a line for each data set with the models whose planned runs do not all have records."""
        lines = []
        for dataset in (self.datasets[name] for name in self.datasets if name in datasets):
            models = []
            for model in self.models.values():
                planned = model.planned(dataset)
                count = sum(one["dataset"] == dataset.name and one["model"] == model.name for one in records)
                if count < planned:
                    models.append(f"{display(model.name)}" + (f" ({count} of {planned} runs)" if count else ""))
            if models:
                lines.append(f"{dataset.title}: {'all' if len(models) == len(self.models) else ', '.join(models)}")
        return lines

    def _cell(self, view: View, column: Column, model: str, records: Sequence[Record]) -> str:
        """Mean (standard deviation) [runs of those planned]."""
        values = self.values(column, model, records)
        if not values:
            planned = self.models[model].planned(self.datasets[column.dataset])
            return "not run" if planned and not view.optional else ""
        planned = self.models[model].planned(self.datasets[column.dataset])
        count = "" if len(values) == planned else f" [{len(values)} of {planned}]"
        spread = f" ({statistics.stdev(values):.{view.digits}f})" if len(values) > 1 else ""
        return f"{statistics.fmean(values):.{view.digits}f}{spread}{count}"

    def values(self, column: Column, model: str, records: Sequence[Record]) -> list[float]:
        """The values of a model's runs in a column."""
        runs = [one for one in records if one["model"] == model and one["dataset"] == column.dataset]
        return [value for record in runs if (value := column.value(record)) is not None]

    def shown(self, records: Sequence[Record]) -> list[View]:
        """Return the views with a value of a model that is not only repeated from another view."""
        return [
            view
            for view in self.views
            if any(
                self.values(column, name, records)
                for column in view.columns
                for name in view.models
                if name not in view.references
            )
        ]

    def test_columns(self) -> list[Column]:
        """The columns that models are compared in: the main metric of each test part."""
        columns: dict[tuple[str, str], Column] = {}
        for column in (column for view in self.views for column in view.columns):
            if column.part not in ("train", "dev") and column.metric in ("accuracy", "f1", "bleu"):
                columns.setdefault((column.dataset, column.part), column)
        return list(columns.values())

    def label(self, column: Column) -> str:
        """The title of a column, with its data set."""
        dataset = self.datasets[column.dataset].title
        return column.title if column.title.startswith(dataset) else f"{dataset}: {column.title}"


SCREENING = "screen-"


def screening_name(candidate: int, run: str) -> str:
    """The name of a run that screens a candidate, counted from 0."""
    return f"{SCREENING}{candidate + 1}-{run}"


def is_screening(record: Record) -> bool:
    """Whether a record is one of screening, which has no test scores."""
    return str(record["run"]).startswith(SCREENING)


def by_name(items: Sequence[Any]) -> dict[str, Any]:
    """Data sets or models by their names."""
    return {item.name: item for item in items}


def check_names(given: Sequence[str], known: Collection[str], what: str) -> None:
    """Check that chosen data sets or models exist.

    Raises:
        InputError: an unknown name, with the nearest known one.
    """
    for name in given:
        if name not in known:
            raise InputError(f'unknown {what} "{name}"; {nearest(name, known)}')
