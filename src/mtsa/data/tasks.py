"""The tasks by name, and what the steps of a run must know of each."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Task:
    """A task: what an example is, and what is answered. As it stands, a text and its class."""

    name: str
    paired: bool = False  # an example is a pair of texts
    numbers: bool = False  # a number is answered
    tagged: bool = False  # each word gets a tag
    roles: bool = False  # tags say what a word is to a predicate
    translated: bool = False  # a text is answered with a text

    @property
    def by_class(self) -> bool:
        """Whether an example is of one class, so that parts are cut from each class by itself."""
        return not (self.numbers or self.tagged or self.translated)


TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        Task("classification"),
        Task("regression", numbers=True),
        Task("pair", paired=True),
        Task("similarity", paired=True, numbers=True),
        Task("tagging", tagged=True),
        Task("srl", tagged=True, roles=True),
        Task("translation", translated=True),
    )
}
