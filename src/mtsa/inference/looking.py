"""What a model looked at while it read a sentence: the weights of every attention layer of its encoder, and of its pooling.

Any task: the layers are found in the model, and watched while it answers.

Letters: H heads, N tokens, D width of a head, E width of the pooled vectors.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from mtsa.data import subwords, tokens
from mtsa.data.role_files import own_lemma
from mtsa.data.sentences import Sentence
from mtsa.data.source import InputError
from mtsa.data.tokens import kept_places
from mtsa.models.swapped_attention import SwappedAttention
from mtsa.models.tag_answers import flags
from mtsa.nn.attention import MultiMaskAttention
from mtsa.nn.masks import Mask
from mtsa.nn.pooling import Source2Token

from .opening import AnyPredictor
from .predictor import Predictor
from .tagging import RolePredictor, TagPredictor


@dataclass(frozen=True)
class Layer:
    """The weights of one attention layer."""

    heads: list[str]  # the mask of each head
    token2token: Tensor  # [H, N, N]: row: the word that looks; each row sums to 1 over the words it may look at, or is 0
    source2token: Tensor  # [H, N, D]: for each feature, sums to 1 over the words

    def pairs(self, feature: int | None = None) -> Tensor:
        """Where each word looks, [H, N, N]: in all, or for one feature: both kinds of weights multiplied, and shared out."""
        if feature is None:
            return self.token2token
        product = self.token2token.double() * self.source2token[:, None, :, feature]  # small numbers times small numbers
        total = product.sum(-1, keepdim=True)
        return torch.where(total > 0, product / total, 0.0).to(self.token2token.dtype)

    def words(self, feature: int | None = None) -> Tensor:
        """What a head takes from each word by itself, [H, N]: in the mean of the features, or for one."""
        return self.source2token.mean(-1) if feature is None else self.source2token[..., feature]


@dataclass(frozen=True)
class Look:
    """One sentence as a model read it."""

    words: list[str]
    layers: list[Layer]
    pooling: Tensor | None  # [N, E]: for each feature, sums to 1 over the words; None where nothing is pooled
    answer: str  # what the model said
    predicate: int | None = None  # of roles: the place of the word that was asked about
    predicates: tuple[int, ...] = ()  # of roles: the places of all that were found, or of the one that was asked about


def look(predictor: AnyPredictor, text: str, pair: str | None = None, predicate: int | None = None) -> list[Look]:
    """Watch a model while it reads a text, or both texts of a pair: a look at each.

    Args:
        predictor: an opened run.
        text: a sentence.
        pair: the second one, of a model of pairs.
        predicate: of roles: the place of the word that is asked about; the first one found when None.

    Raises:
        InputError: a model without tensorized attention, or a text without words.
    """
    if isinstance(predictor, Predictor):
        asked: Any = text if pair is None else (text, pair)
        (answer,) = predictor.predict([asked])
        said = f"{answer.value:.3g}" if answer.label is None else f"{answer.label} ({answer.probabilities[answer.label]:.2f})"
        return [_sentence(predictor, side, said) for side in ([text] if pair is None else (text, pair))]
    if isinstance(predictor, TagPredictor | RolePredictor):
        return [_tagged(predictor, text, predicate)]
    if not text.strip():
        raise _no_words()
    ids = predictor.run.tokenizer.encode(text.strip())
    pieces = subwords.pieces(predictor.run.tokenizer, ids.ids)
    encoder = predictor.model.get_encoder()
    inputs = {"input_ids": torch.tensor([ids.ids]), "attention_mask": torch.ones(1, len(ids.ids), dtype=torch.long)}
    return [_watched(predictor, encoder, inputs, pieces, predictor.predict([text])[0])]


def look_alone(predictor: AnyPredictor, text: str) -> Look:
    """Watch a model while it reads one text by itself; one of pairs says nothing then.

    Raises:
        InputError: a model without tensorized attention, or a text without words.
    """
    if isinstance(predictor, Predictor) and predictor.run.recipe.paired:
        return _sentence(predictor, text, "")
    return look(predictor, text)[0]


def _sentence(predictor: Predictor, text: str, said: str) -> Look:
    encoding = predictor.run.tokenizer.encode(text)
    if not encoding.ids:
        raise _no_words()
    read = kept_places(encoding, predictor.run.recipe.tokens.longest)
    ids = torch.tensor([[encoding.ids[place] for place in read]])
    spans = [encoding.offsets[place] for place in read]
    words = [text[start:stop] or encoding.tokens[place] for place, (start, stop) in zip(read, spans, strict=True)]
    keep = torch.ones_like(ids, dtype=torch.bool)
    return _watched(predictor, predictor.model.sentences, {"ids": ids, "keep": keep}, words, said)


def _tagged(predictor: TagPredictor | RolePredictor, text: str, predicate: int | None) -> Look:
    words = predictor.words(text)
    if not words:
        raise _no_words()
    if predicate is not None and not 0 <= predicate < len(words):
        raise InputError(f"the predicate is word {predicate + 1}, but the text has {len(words)} words")
    ids = torch.tensor(tokens.word_numbers(predictor.run.tokenizer, [words]))
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    if isinstance(predictor, TagPredictor):
        (tagged,) = predictor.predict([words])
        said = " ".join(tagged.tags)
    else:
        asked = None if predicate is None else ((predicate, own_lemma(words[predicate])),)
        (answer,) = predictor.stream([Sentence(words, asked)])
        frame = answer.frames[0] if answer.frames else None
        inputs["predicates"] = flags([None if frame is None else frame.predicate], ids)
        roles = "" if frame is None else ", ".join(span.label for span in frame.spans)
        said = "no predicate" if frame is None else f"{words[frame.predicate]}: {roles}"
        found = _watched(predictor, predictor.model, inputs, list(words), said)
        places = tuple(one.predicate for one in answer.frames)
        return dataclasses.replace(found, predicate=None if frame is None else frame.predicate, predicates=places)
    return _watched(predictor, predictor.model, inputs, list(words), said)


@torch.no_grad()
def _watched(predictor: AnyPredictor, call: Any, inputs: dict[str, Tensor], words: list[str], said: str) -> Look:
    model: nn.Module = predictor.model
    model.eval()
    with _recorded(model) as calls:
        call(**inputs)
    layers: list[Layer] = []
    pooling = None
    for module, arguments in calls:
        if isinstance(module, Source2Token):
            pooling = module.weights(*arguments)[0]
        elif isinstance(module, MultiMaskAttention):
            found = module.explain(*arguments)
            names = [_short(mask) for mask in module.masks]
            layers.append(Layer(names, found.token2token[0], found.source2token[0]))
        elif isinstance(module, SwappedAttention):
            names = [_short(mask) for mask in module.swap.rules(module.source.score.weight.shape[0])]
            token2token, source2token = module.weights_of(*arguments)
            layers.append(Layer(names, token2token[0], source2token[0]))
    if not layers:
        raise InputError("the encoder of this model has no tensorized attention to show; train one with mtsa in its name")
    return Look(words, layers, pooling, said)


@contextmanager
def _recorded(model: nn.Module) -> Iterator[list[tuple[nn.Module, tuple[Any, ...]]]]:
    """The calls of attention and pooling layers, in their order."""
    calls: list[tuple[nn.Module, tuple[Any, ...]]] = []
    kinds = (MultiMaskAttention, SwappedAttention, Source2Token)

    def note(module: nn.Module, arguments: tuple[Any, ...], options: dict[str, Any]) -> None:
        calls.append((module, tuple(one for one in (*arguments, *options.values()) if isinstance(one, Tensor))))

    hooks = [part.register_forward_pre_hook(note, with_kwargs=True) for part in model.modules() if isinstance(part, kinds)]
    try:
        yield calls
    finally:
        for hook in hooks:
            hook.remove()


def _short(mask: Mask) -> str:
    return str(mask).replace("(include_self=False)", "").replace("()", "").lower()


def _no_words() -> InputError:
    return InputError("the text holds no words; give a sentence")
