"""Inference of taggers over many sentences: batches of similar length, outputs in the order of the inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor

from mtsa.data.batching import sorted_batches
from mtsa.data.bio import BEGIN
from mtsa.data.encoded_words import EncodedWords, word_mask
from mtsa.data.frames import VERB
from mtsa.progress import advance

from .batched_inference import BATCH_SIZE, BATCH_TOKENS
from .tagger import IGNORED, Tagger

_FORCED_SCORE = 1000.0  # more than any difference of scores


def predict_tags(
    model: Tagger, sentences: EncodedWords, predicates: Sequence[int | None] | None = None, *, count: bool = True
) -> list[list[int]]:
    """Return the best valid sequence of tag indices for each sentence.

    Args:
        model: the tagger.
        sentences: the encoded sentences.
        predicates: index of the predicate in each sentence; None for a tagger without predicates.
        count: whether to report progress.
    """

    names: list[str] = model.config.tags
    verb = names.index(BEGIN + VERB) if BEGIN + VERB in names else None

    def read(batch: list[int], inputs: dict[str, Tensor]) -> list[list[int]]:
        if predicates is not None:
            inputs["predicates"] = predicate_flags([predicates[number] for number in batch], word_mask(inputs))
        logits = model(**inputs).logits
        if predicates is not None and verb is not None:
            logits[..., verb] += _FORCED_SCORE * inputs["predicates"]  # the predicate itself has the tag of verbs
        return model.decoder.decode(logits, word_mask(inputs).bool())

    return _predict_batches(model, sentences, read, count=count)


def find_predicates(model: Tagger, sentences: EncodedWords) -> list[list[int]]:
    """Return the indices of the words in each sentence that the predicate finder classifies as predicates."""

    def read(batch: list[int], inputs: dict[str, Tensor]) -> list[list[int]]:
        found = (model.predicate_scores(**inputs) > 0) & word_mask(inputs).bool()
        return [row.nonzero()[:, 0].tolist() for row in found]

    return _predict_batches(model, sentences, read, count=False)


@torch.no_grad()
def labelled_logits(model: Tagger, batches: Iterable[dict[str, Tensor]]) -> dict[str, tuple[Tensor, Tensor]]:
    """Return the logits and labels of all labelled words, for fitting temperatures.

    Args:
        model: the tagger.
        batches: inputs of the model, with labels.

    Returns:
        Logits [n, T] and labels [n] of the tags under "labels"; with a predicate finder, logits [n, 2] and labels of its two
        classes under "predicate_labels".
    """
    training = model.training
    model.eval()
    collected: dict[str, list[tuple[Tensor, Tensor]]] = {}
    for batch in batches:
        inputs = {name: value.to(model.device) for name, value in batch.items()}
        output = model(**{name: value for name, value in inputs.items() if name not in ("labels", "predicate_labels")})
        logits = {"labels": output.logits}
        if output.predicate_logits is not None and "predicate_labels" in inputs:
            positive = output.predicate_logits
            logits["predicate_labels"] = torch.stack([torch.zeros_like(positive), positive], -1)
        for name, values in logits.items():
            labelled = inputs[name] != IGNORED
            collected.setdefault(name, []).append((values[labelled].float().cpu(), inputs[name][labelled].cpu()))
    model.train(training)
    return {
        name: (torch.cat([one for one, _ in parts]), torch.cat([one for _, one in parts])) for name, parts in collected.items()
    }


def predicate_flags(indices: Sequence[int | None], like: Tensor) -> Tensor:
    """Return a tensor with 1 at the given index of each row and 0 elsewhere, in the shape of `like` [B, N]."""
    out = torch.zeros_like(like)
    for row, index in enumerate(indices):
        if index is not None:
            out[row, index] = 1
    return out


@torch.no_grad()
def _predict_batches(
    model: Tagger,
    sentences: EncodedWords,
    read: Callable[[list[int], dict[str, Tensor]], list[list[int]]],
    *,
    count: bool,
) -> list[list[int]]:
    training = model.training
    model.eval()
    outputs: list[list[int]] = [[] for _ in range(len(sentences))]
    for batch in sorted_batches(sentences.lengths, tokens=BATCH_TOKENS, most=BATCH_SIZE):
        predicted = read(batch, {name: value.to(model.device) for name, value in sentences.batch(batch).items()})
        for number, output in zip(batch, predicted, strict=True):
            outputs[number] = output
        if count:
            advance(len(batch))
    model.train(training)
    return outputs
