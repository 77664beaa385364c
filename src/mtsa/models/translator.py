"""The translator: a pre-norm Transformer with sinusoidal positions, ReLU and shared embeddings (M2M100's architecture).

Its encoder has multi-head attention or tensorized attention; nothing else differs.

Notation: B batch, N tokens.
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

_BATCH_TOKENS, _BATCH_SIZE = 2048, 128  # padded tokens and sentences of a batch
IGNORED = -100
_LENGTH_STEP = 16  # subwords; lengths are rounded up to a multiple of this


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
    """Return the configuration of a translator.

    Args:
        tokens: size of the vocabulary, which both languages share.
        layers: layers of the encoder, and of the decoder.
        width: width of every layer.
        heads: heads of every attention layer.
        hidden: width of the feed-forward layers.
        dropout: dropout probability on residuals and inputs, and inside the feed-forward layers.
        attention_dropout: dropout probability on attention weights.
        swap: options of tensorized attention in the encoder (`PatchOptions`); None for multi-head attention.
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
    patched: Any = patched_config_class("m2m_100")
    config: M2M100Config = patched(mtsa=swap, **options)
    return config


def build_translator(config: M2M100Config) -> M2M100ForConditionalGeneration:
    """Build a translator with random weights: Glorot matrices, zero biases, embeddings with deviation 1 / sqrt(width)."""
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


def translator_class(*, tensorized: bool) -> type[M2M100ForConditionalGeneration]:
    """Return the class that loads a saved translator."""
    return patched_model_class(M2M100ForConditionalGeneration) if tensorized else M2M100ForConditionalGeneration


def smoothed_loss(logits: Tensor, labels: Tensor, smoothing: float) -> Tensor:
    """Return the label-smoothed cross-entropy over real tokens; the mass is distributed evenly over the other tokens."""
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
def translate(
    model: M2M100ForConditionalGeneration, rows: TokenIds, *, num_beams: int, length_penalty: float
) -> list[list[int]]:
    """Translate sentences given as token ids; the translations are in the order of the inputs.

    A translation has at most 2 n + 10 subwords, where n is the length of the sentence rounded up to a multiple of 16. Only
    sentences with the same limit share a batch, so that no translation depends on the others.

    Args:
        model: the translator.
        rows: token ids of each sentence.
        num_beams: number of beams; 1 for greedy search.
        length_penalty: exponent of the length by which the score of a translation is divided.
    """
    training = model.training
    model.eval()
    translations: list[list[int]] = [[] for _ in rows]
    for batch in _batches(rows, _BATCH_TOKENS // max(1, num_beams // 2)):
        inputs = make_batch([rows[number] for number in batch])
        config = generation_config(num_beams, length_penalty, _max_new_tokens(rows[batch[0]]))
        generate: Any = getattr(model, "generate")  # noqa: B009  # its type annotations cover language models only
        out: Tensor = generate(**{name: value.to(model.device) for name, value in inputs.items()}, generation_config=config)
        for number, row in zip(batch, out.tolist(), strict=True):
            translations[number] = [token for token in row if token not in (PAD_ID, END_ID, BEGIN_ID)]
        advance(len(batch))
    model.train(training)
    return translations


def generation_config(num_beams: int, length_penalty: float, max_new_tokens: int) -> GenerationConfig:
    """Return the settings of `generate`."""
    search = {"length_penalty": length_penalty, "early_stopping": True} if num_beams > 1 else {}
    return GenerationConfig(
        num_beams=num_beams,
        do_sample=False,
        **search,
        max_new_tokens=max_new_tokens,
        pad_token_id=PAD_ID,
        eos_token_id=END_ID,
        decoder_start_token_id=END_ID,
    )


def _max_new_tokens(row: Sequence[int]) -> int:
    return min(500, 2 * (_LENGTH_STEP * math.ceil(len(row) / _LENGTH_STEP)) + 10)


def _batches(rows: TokenIds, tokens: int) -> Iterator[list[int]]:
    """Batches as lists of indices: sentences with the same limit, sorted by length."""
    groups: dict[int, list[int]] = {}
    for number, row in enumerate(rows):
        groups.setdefault(_max_new_tokens(row), []).append(number)
    for numbers in groups.values():
        for batch in sorted_batches([len(rows[number]) for number in numbers], tokens=tokens, most=_BATCH_SIZE):
            yield [numbers[index] for index in batch]
