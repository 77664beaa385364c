"""The translator: a pre-norm Transformer with sinusoidal positions, ReLU and shared embeddings (M2M100's architecture).

In its encoder stands multi-head attention, or tensorized attention in its place; nothing else differs.

Letters: B batch, N tokens.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from transformers import GenerationConfig, M2M100Config, M2M100ForConditionalGeneration

from mtsa.data.batching import make_batch, sorted_batches
from mtsa.data.subwords import BEGIN_ID, END_ID, PAD_ID
from mtsa.progress import advance

from .attention_patching import patch_attention, patched_config_class, patched_model_class
from .batched_inference import TokenIds

_BATCH_TOKENS, _BATCH_SIZE = 2048, 128  # padded tokens and sentences that are translated together
IGNORED = -100
_LENGTH_STEP = 16  # subwords


def translator_config(
    tokens: int,
    *,
    layers: int,
    width: int,
    heads: int,
    hidden: int,
    dropout: float,
    attention_dropout: float,
    swap: dict[str, Any] | None,
) -> M2M100Config:
    """The configuration of a translator of so many subwords.

    Args:
        tokens: how many subwords, of both languages together.
        layers: of the encoder, and of the decoder.
        width: of every layer.
        heads: of every attention.
        hidden: inside the feed-forward parts.
        dropout: of residuals, inputs, and inside the feed-forward parts.
        attention_dropout: of attention weights.
        swap: options of the tensorized attention in the encoder (`Swap`); None for multi-head attention.
    """
    options: dict[str, Any] = {
        "vocab_size": tokens,
        "d_model": width,
        "encoder_layers": layers,
        "decoder_layers": layers,
        "encoder_attention_heads": heads,
        "decoder_attention_heads": heads,
        "encoder_ffn_dim": hidden,
        "decoder_ffn_dim": hidden,
        "dropout": dropout,
        "attention_dropout": attention_dropout,
        "activation_dropout": dropout,
        "encoder_layerdrop": 0.0,
        "decoder_layerdrop": 0.0,
        "pad_token_id": PAD_ID,
        "bos_token_id": BEGIN_ID,
        "eos_token_id": END_ID,
        "decoder_start_token_id": END_ID,
        "max_position_embeddings": 512,
    }
    if swap is None:
        return M2M100Config(**options)
    swapped: Any = patched_config_class("m2m_100")
    made: M2M100Config = swapped(mtsa=swap, **options)
    return made


def build_translator(config: M2M100Config) -> M2M100ForConditionalGeneration:
    """A translator drawn anew: Glorot maps, zero biases, shared embeddings of deviation 1 / sqrt(width)."""
    options = getattr(config, "mtsa", None)
    values = {**config.to_dict(), "activation_function": config.activation_function}
    plain = M2M100Config(**{key: value for key, value in values.items() if key not in _NOT_PLAIN})
    model = M2M100ForConditionalGeneration(plain)
    for module in model.modules():
        if isinstance(module, nn.Linear) and module is not model.lm_head:
            nn.init.xavier_uniform_(module.weight)
            nn.init.zeros_(module.bias)
    nn.init.normal_(model.model.shared.weight, std=config.d_model**-0.5)
    with torch.no_grad():
        model.model.shared.weight[PAD_ID] = 0.0
    return model if options is None else patch_attention(model, **options)


_NOT_PLAIN = ("mtsa", "model_type", "plain_activation", "architectures", "transformers_version")


def translator_class(*, swapped: bool) -> type[M2M100ForConditionalGeneration]:
    """What a saved translator is loaded by."""
    return patched_model_class(M2M100ForConditionalGeneration) if swapped else M2M100ForConditionalGeneration


def smoothed_loss(logits: Tensor, labels: Tensor, smoothing: float) -> Tensor:
    """Cross-entropy over the real tokens; the smoothed part goes to all others in equal shares."""
    count = logits.shape[-1]
    total = nn.functional.cross_entropy(
        logits.flatten(0, 1),
        labels.flatten(),
        ignore_index=IGNORED,
        label_smoothing=smoothing * count / (count - 1),
        reduction="sum",
    )
    return total / (labels != IGNORED).sum().clamp(min=1)


@torch.no_grad()
def translate(model: M2M100ForConditionalGeneration, rows: TokenIds, *, beam: int, penalty: float) -> list[list[int]]:
    """The translation of each sentence given as subword numbers, in order; batches of like length.

    A translation has at most twice as many subwords as the sentence, whose length is rounded up to a multiple of 16, and 10
    more; only sentences with the same limit are translated together, so that none depends on its neighbours.

    Args:
        model: the translator.
        rows: numbers of the subwords of each.
        beam: how many translations are followed at once; 1 is greedy.
        penalty: exponent of the length that the score of a whole translation is divided by.
    """
    training = model.training
    model.eval()
    found: list[list[int]] = [[] for _ in rows]
    for batch in _batches(rows, _BATCH_TOKENS // max(1, beam // 2)):
        inputs = make_batch([rows[number] for number in batch])
        how = generation_config(beam, penalty, _max_new_tokens(rows[batch[0]]))
        generate: Any = getattr(model, "generate")  # noqa: B009  # typed for language models alone
        out: Tensor = generate(**{name: value.to(model.device) for name, value in inputs.items()}, generation_config=how)
        for number, row in zip(batch, out.tolist(), strict=True):
            found[number] = [token for token in row if token not in (PAD_ID, END_ID, BEGIN_ID)]
        advance(len(batch))
    model.train(training)
    return found


def generation_config(beam: int, penalty: float, longest: int) -> GenerationConfig:
    """How `generate` is to search: so many translations at once, at most so many subwords each."""
    search = {"length_penalty": penalty, "early_stopping": True} if beam > 1 else {}
    return GenerationConfig(
        num_beams=beam,
        do_sample=False,
        **search,
        max_new_tokens=longest,
        pad_token_id=PAD_ID,
        eos_token_id=END_ID,
        decoder_start_token_id=END_ID,
    )


def _max_new_tokens(row: Sequence[int]) -> int:
    return min(500, 2 * (_LENGTH_STEP * math.ceil(len(row) / _LENGTH_STEP)) + 10)


def _batches(rows: TokenIds, places: int) -> Iterator[list[int]]:
    """Numbers of rows to translate together: those with the same limit, sorted by length."""
    groups: dict[int, list[int]] = {}
    for number, row in enumerate(rows):
        groups.setdefault(_max_new_tokens(row), []).append(number)
    for numbers in groups.values():
        for batch in sorted_batches([len(rows[number]) for number in numbers], tokens=places, most=_BATCH_SIZE):
            yield [numbers[place] for place in batch]
