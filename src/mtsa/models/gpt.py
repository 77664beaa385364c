"""A causal language model: GPT with multi-mask tensorized self-attention instead of dot-product attention.

`mtsa pretrain --attention mtsa` trains it. Everything but the attention is that of `OpenAIGPTLMHeadModel`: learned positions,
layer normalization after each residual connection, an output layer tied to the token embeddings.

Notation: B batch, N tokens, E width, V vocabulary.
"""

from __future__ import annotations

import itertools
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput, CausalLMOutput

from mtsa.nn.attention import MultiMaskAttention
from mtsa.nn.cache import AttentionCache

_INIT_STD = 0.02  # of GPT


class MtsaGPTConfig(PretrainedConfig):
    """The configuration of the language model.

    Args:
        vocab_size: number of tokens in the vocabulary.
        n_positions: maximum length.
        n_embd: width.
        n_layer: number of layers.
        n_head: number of heads; must divide the width.
        n_inner: hidden width of the feed-forward layers; 0: 4 * n_embd - n_embd / n_head, which gives the model as many
            parameters as GPT, whose attention has no source2token layers.
        masks: causal masks of the heads.
        score_activation: sigma_t, activation of the token2token scores.
        dropout: dropout probability of embeddings, attention and sublayer outputs.
        kwargs: arguments of `PretrainedConfig`.
    """

    model_type = "mtsa_gpt"
    attribute_map: ClassVar[dict[str, str]] = {
        "hidden_size": "n_embd",
        "max_position_embeddings": "n_positions",
        "num_hidden_layers": "n_layer",
        "num_attention_heads": "n_head",
    }

    def __init__(
        self,
        vocab_size: int = 8000,
        n_positions: int = 128,
        n_embd: int = 256,
        n_layer: int = 4,
        n_head: int = 4,
        n_inner: int = 0,
        masks: str = "causal",
        score_activation: str = "logsigmoid",
        dropout: float = 0.1,
        **kwargs: Any,
    ) -> None:
        self.vocab_size, self.n_positions = vocab_size, n_positions
        self.n_embd, self.n_layer, self.n_head = n_embd, n_layer, n_head
        self.n_inner = n_inner or 4 * n_embd - n_embd // n_head
        self.masks, self.score_activation, self.dropout = masks, score_activation, dropout
        super().__init__(**kwargs)


class MtsaGPTBlock(nn.Module):
    """Attention and a feed-forward layer, each with dropout, residual and layer normalization."""

    def __init__(self, config: MtsaGPTConfig) -> None:
        super().__init__()
        width = config.n_embd
        self.attention = MultiMaskAttention(
            width, config.n_head, masks=config.masks, bias=True, score_activation=config.score_activation,
            dropout=(0.0, config.dropout),
        )  # fmt: skip
        self.widen, self.narrow = nn.Linear(width, config.n_inner), nn.Linear(config.n_inner, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, attention_mask: Tensor | None, cache: AttentionCache | None) -> Tensor:
        x = self.norms[0](x + self.dropout(self.attention(x, attention_mask, cache=cache)))
        fed = self.narrow(F.gelu(self.widen(x), approximate="tanh"))
        out: Tensor = self.norms[1](x + self.dropout(fed))
        return out


class _MtsaGPT(PreTrainedModel):
    config_class = MtsaGPTConfig
    base_model_prefix = "transformer"
    main_input_name = "input_ids"

    @torch.no_grad()
    def _init_weights(self, module: nn.Module) -> None:
        """As in GPT; the attention initializes itself."""
        if isinstance(module, MtsaGPTBlock):
            for layer in (module.widen, module.narrow):
                nn.init.normal_(layer.weight, std=_INIT_STD)
                nn.init.zeros_(layer.bias)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=_INIT_STD)


class MtsaGPTModel(_MtsaGPT):
    """The language model without its output layer."""

    def __init__(self, config: MtsaGPTConfig) -> None:
        super().__init__(config)
        self.tokens_embed = nn.Embedding(config.vocab_size, config.n_embd)
        self.positions_embed = nn.Embedding(config.n_positions, config.n_embd)
        self.drop = nn.Dropout(config.dropout)
        self.h = nn.ModuleList(MtsaGPTBlock(config) for _ in range(config.n_layer))
        self.post_init()

    def get_input_embeddings(self) -> nn.Module:
        return self.tokens_embed

    def set_input_embeddings(self, value: nn.Module) -> None:
        assert isinstance(value, nn.Embedding)
        self.tokens_embed = value

    def new_caches(self, capacity: int = 0) -> list[AttentionCache]:
        """Return an empty cache for each layer."""
        blocks: list[Any] = list(self.h)
        return [block.attention.new_cache(capacity) for block in blocks]

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        caches: list[AttentionCache] | None = None,
        **unused: Any,
    ) -> BaseModelOutput:
        """Return the hidden states [B, N, E].

        Args:
            input_ids: token ids [B, N].
            attention_mask: 1 for tokens, 0 for padding [B, N]; padding on the right.
            caches: caches from `new_caches()`; input_ids then continue the sequences in the caches.
            unused: other outputs of a tokenizer, which are ignored.

        Raises:
            ValueError: more positions than the model has.
        """
        N = input_ids.shape[1]
        places = torch.arange(N, device=input_ids.device)[None]  # [1, N]
        longest = N
        if caches is not None and caches[0].lengths:
            places = places + torch.tensor(caches[0].lengths, device=input_ids.device)[:, None]
            longest += max(caches[0].lengths)
        if longest > self.config.n_positions:
            raise ValueError(f"the input has {longest} tokens, but the model supports at most {self.config.n_positions}")
        x = self.drop(self.tokens_embed(input_ids) + self.positions_embed(places))
        for block, cache in zip(self.h, caches or itertools.repeat(None, len(self.h)), strict=True):
            x = block(x, attention_mask, cache)
        return BaseModelOutput(last_hidden_state=x)


class MtsaGPTLMHeadModel(_MtsaGPT):
    """The language model. Its output layer is the matrix of token embeddings."""

    def __init__(self, config: MtsaGPTConfig) -> None:
        super().__init__(config)
        self.transformer = MtsaGPTModel(config)
        self.post_init()

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, labels: Tensor | None = None, **unused: Any
    ) -> CausalLMOutput:
        """Return logits [B, N, V], and the mean next-token loss if labels are given.

        Args:
            input_ids: token ids [B, N].
            attention_mask: 1 for tokens, 0 for padding [B, N]; padding on the right.
            labels: token ids, -100 where the loss is not computed [B, N].
            unused: other outputs of a tokenizer, which are ignored.
        """
        logits = self._logits(self.transformer(input_ids, attention_mask).last_hidden_state)
        loss = None
        if labels is not None:
            loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
        return CausalLMOutput(loss=loss, logits=logits)

    def _logits(self, hidden: Tensor) -> Tensor:
        return F.linear(hidden, self.transformer.tokens_embed.weight)

    @torch.no_grad()
    def generate(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        *,
        max_new_tokens: int = 20,
        do_sample: bool = False,
        temperature: float = 1.0,
        top_k: int = 0,
        eos_token_id: int | None = None,
        pad_token_id: int = 0,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Return prompts with their continuations, padded on the right [B, N + max_new_tokens].

        Keys, values and scores of earlier tokens are cached, so that the time per token is linear in the length.

        Args:
            input_ids: prompts [B, N], at least one token each.
            attention_mask: 1 for tokens, 0 for padding [B, N]; padding on the right.
            max_new_tokens: number of tokens to generate for each prompt.
            do_sample: whether to sample; otherwise the most likely token is taken.
            temperature: divisor of the logits in sampling.
            top_k: sample from the k most likely tokens only; 0: from all.
            eos_token_id: token after which a sequence is padded.
            pad_token_id: token at padded positions.
            generator: random generator for sampling.

        Raises:
            ValueError: an empty prompt, a number out of range, or more positions than the model has.
        """
        lengths = _prompt_lengths(input_ids, attention_mask)
        if max_new_tokens < 1 or top_k < 0 or not temperature > 0:
            raise ValueError(
                f"max_new_tokens ({max_new_tokens}) must be at least 1, top_k ({top_k}) at least 0 and temperature "
                f"({temperature}) positive"
            )
        B, N = input_ids.shape
        if N + max_new_tokens > self.config.n_positions:
            raise ValueError(
                f"prompt length ({N}) plus max_new_tokens ({max_new_tokens}) exceeds the {self.config.n_positions} positions "
                "of the model; use a smaller max_new_tokens or shorter prompts"
            )
        rows, training = torch.arange(B, device=input_ids.device), self.training
        out = torch.full((B, N + max_new_tokens), pad_token_id, dtype=torch.long, device=input_ids.device)
        out[:, :N] = input_ids if attention_mask is None else input_ids.masked_fill(attention_mask == 0, pad_token_id)
        ended = torch.zeros(B, dtype=torch.bool, device=input_ids.device)
        caches = self.transformer.new_caches(N + max_new_tokens)
        self.eval()
        try:
            hidden = self.transformer(input_ids, attention_mask, caches).last_hidden_state[rows, lengths - 1]
            for step in range(max_new_tokens):
                chosen = _choose(self._logits(hidden), do_sample, temperature, top_k, generator)
                out[rows, lengths + step] = chosen.masked_fill(ended, pad_token_id)
                if eos_token_id is not None:
                    ended |= chosen == eos_token_id
                if step + 1 == max_new_tokens or bool(ended.all()):
                    break
                hidden = self.transformer(chosen[:, None], None, caches).last_hidden_state[:, 0]
        finally:
            self.train(training)
        return out


def _prompt_lengths(input_ids: Tensor, attention_mask: Tensor | None) -> Tensor:
    B, N = input_ids.shape
    if attention_mask is None:
        lengths = torch.full((B,), N, device=input_ids.device)
    else:
        lengths = attention_mask.bool().sum(1)
    if B and bool((lengths < 1).any()):
        raise ValueError("every prompt must have at least one token, such as the end-of-sequence token of the tokenizer")
    return lengths


def _choose(logits: Tensor, sample: bool, temperature: float, top_k: int, generator: torch.Generator | None) -> Tensor:
    """The next token of each sequence, [B], from logits [B, V]."""
    if not sample:
        return logits.argmax(-1)
    logits = logits / temperature
    if 0 < top_k < logits.shape[-1]:
        least = logits.topk(top_k, -1).values[:, -1:]
        logits = logits.masked_fill(logits < least, -torch.inf)
    return torch.multinomial(logits.softmax(-1), 1, generator=generator)[:, 0]


AutoConfig.register(MtsaGPTConfig.model_type, MtsaGPTConfig, exist_ok=True)
AutoModel.register(MtsaGPTConfig, MtsaGPTModel, exist_ok=True)
AutoModelForCausalLM.register(MtsaGPTConfig, MtsaGPTLMHeadModel, exist_ok=True)
