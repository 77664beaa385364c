"""`mtsa pretrain`: pretrain a small language model on text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from .console import exit_on_error, exit_stopped


def pretrain(
    sources: Annotated[
        list[str],
        typer.Argument(help="Text files with one text per line, tables with a column `text`, or FORMAT:FILE."),
    ],
    out: Annotated[Path, typer.Option(help="Output folder.")],
    attention: Annotated[
        str, typer.Option(help="multihead (GPT) or mtsa (tensorized attention with a causal mask, about as many parameters).")
    ] = "multihead",
    layers: Annotated[int, typer.Option(min=1, help="Number of Transformer layers.")] = 4,
    hidden_size: Annotated[int, typer.Option(min=4, help="Hidden size; a multiple of 4, the number of heads.")] = 256,
    vocab_size: Annotated[int, typer.Option(min=300, help="Vocabulary size.")] = 8000,
    max_length: Annotated[int, typer.Option(min=8, help="Sequence length in tokens.")] = 128,
    batch_size: Annotated[int, typer.Option(min=1, help="Number of sequences per batch.")] = 32,
    steps: Annotated[int, typer.Option(min=1, help="Number of training steps.")] = 1000,
    learning_rate: Annotated[float, typer.Option(min=1e-9, help="Peak learning rate.")] = 1e-3,
    seed: Annotated[int, typer.Option(min=0, help="Random seed.")] = 0,
    distributed: Annotated[
        str, typer.Option(help="With torchrun: ddp (each process has all weights) or fsdp (each process has a shard).")
    ] = "ddp",
) -> None:
    """Pretrain a small GPT on text, for use as a pretrained model (recipe snli.gpt.cpu). Rerun the command to resume.

    With --attention mtsa, the model has tensorized attention instead of dot-product attention.
    """
    from mtsa.errors import InputError
    from mtsa.training.language_model import ATTENTIONS, Setting
    from mtsa.training.language_model import pretrain as run
    from mtsa.training.recipe import DISTRIBUTED

    with exit_on_error():
        if distributed not in DISTRIBUTED:
            raise InputError(f'--distributed is "{distributed}"; it must be {" or ".join(DISTRIBUTED)}')
        if attention not in ATTENTIONS:
            raise InputError(f'--attention is "{attention}"; it must be {" or ".join(ATTENTIONS)}')
        if hidden_size % 4:
            raise InputError(f"--hidden-size {hidden_size} must be a multiple of 4, the number of heads")
        setting = Setting(
            attention=attention, layers=layers, width=hidden_size, tokens=vocab_size, length=max_length, batch=batch_size,
            steps=steps, learning_rate=learning_rate, seed=seed, warmup=min(100, max(1, steps // 10)),
        )  # fmt: skip
        texts = read_texts(sources)
        try:
            run(texts, out, setting, sharded=distributed == "fsdp")
        except KeyboardInterrupt:
            exit_stopped()


def read_texts(sources: Sequence[str]) -> list[str]:
    """Return the texts of all sources that are not empty."""
    return [text for source in sources for text in _texts(source) if text]


def _texts(source: str) -> Iterator[str]:
    from mtsa.data import readers
    from mtsa.data.examples import Layout
    from mtsa.data.text_files import lines

    format, colon, name = source.partition(":")
    if not colon:
        if Path(source).suffix.lower() not in readers.ENDINGS:
            yield from (text.strip() for _, text in lines(Path(source), "utf-8"))
            return
        format, name = "auto", source
    layout = Layout(format=format)
    for example in readers.stream(Path(name), layout, labelled=False, paired=format in readers.PAIR_FORMATS):
        yield from example.texts
