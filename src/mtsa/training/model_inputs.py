"""Tokenizers and initial embeddings: words with their vectors, or the tokens of a pretrained model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError
from tokenizers import Tokenizer
from torch import Tensor

from mtsa.data import embeddings, tokenization
from mtsa.errors import InputError
from mtsa.models.word_vectors import WordVectors

from .recipe import Recipe
from .split import check_there

if TYPE_CHECKING:
    from transformers import PreTrainedModel

MODEL_FILES = ("config.json", "tokenizer.json", "model.safetensors")  # what a pretrained model is made of


class Inputs(ABC):
    """The tokenizer of a model, and the initial weights of its embeddings."""

    tokenizer: Tokenizer
    special_tokens: dict[str, str]  # by their names in `transformers`, such as "pad_token"
    remarks: list[str]
    about: str  # description for the log, such as "12,345 words"
    config: dict[str, Any]  # keys of the model's configuration
    known: Tensor  # ids of the training words that have a vector in the file

    @abstractmethod
    def fill(self, model: PreTrainedModel) -> None:
        """Load the initial embeddings into a new model."""


def make_inputs(recipe: Recipe, texts: Iterable[str], *, spaced: bool, paired: bool) -> Inputs:
    """The inputs of a recipe, for these training texts.

    Args:
        recipe: the settings.
        texts: of the training data.
        spaced: whether texts are words separated by spaces.
        paired: whether the tokenizer also encodes two texts as one.

    Raises:
        InputError: an invalid vector file or pretrained model.
    """
    return (
        PretrainedInputs(recipe, paired=paired)
        if recipe.pretrained.model
        else WordInputs(recipe, texts, spaced=spaced, paired=paired)
    )


class WordInputs(Inputs):
    """The words of the training texts, with the vectors of a file if there is one."""

    def __init__(self, recipe: Recipe, texts: Iterable[str], *, spaced: bool, paired: bool) -> None:
        least = recipe.tokens.min_freq or (1 if recipe.vectors.file else 2)
        self.words = tokenization.count_words(texts, least=least, spaced=spaced)
        loaded = _load_vectors(recipe, self.words, spaced=spaced)
        self._found, self._frozen = loaded.wanted, loaded.other_rows
        self.tokenizer = tokenization.word_tokenizer([*self.words, *loaded.others], paired=paired, spaced=spaced)
        self.special_tokens = {"pad_token": tokenization.PAD, "unk_token": tokenization.UNKNOWN}
        self.about = f"{len(self.words):,} words"
        self.remarks = [_coverage(self.words, loaded)] if recipe.vectors.file else []
        self.config = {"words": (len(tokenization.SPECIAL) + len(self.words), len(loaded.others)), "width": loaded.width}
        places = [place for place, word in enumerate(self.words, len(tokenization.SPECIAL)) if word in self._found]
        self.known = torch.tensor(places).long()

    def fill(self, model: PreTrainedModel) -> None:
        words = getattr(model, "words", None)
        assert isinstance(words, WordVectors)
        with torch.no_grad():
            for number, word in enumerate(self.words, start=len(tokenization.SPECIAL)):
                if word in self._found:
                    words.tuned[number] = self._found[word]
            words.frozen.copy_(self._frozen)


class PretrainedInputs(Inputs):
    """The tokens and the weights of a pretrained `transformers` model; only safetensors files are loaded."""

    def __init__(self, recipe: Recipe, *, paired: bool) -> None:
        from transformers import AutoConfig, AutoTokenizer

        from mtsa.models.pretrained import is_language_model

        wanted = recipe.pretrained
        self._name = wanted.model
        try:
            config = AutoConfig.from_pretrained(self._name)
            loaded = AutoTokenizer.from_pretrained(self._name)
        except (OSError, ValueError, KeyError) as error:
            raise self._load_error(error) from None
        backend = getattr(loaded, "backend_tokenizer", None)
        if backend is None:
            raise InputError(f"pretrained.model {self._name}: it has no fast tokenizer (tokenizer.json)")
        if config.is_encoder_decoder:
            raise InputError(f"pretrained.model {self._name} is an encoder-decoder model; name an encoder or a decoder")
        if wanted.lm_weight and not is_language_model(config):
            raise InputError(
                f"pretrained.lm_weight is {wanted.lm_weight}, but {self._name} is not a GPT or GPT-2 model, "
                f"the only ones whose language-model loss is supported; set it to 0"
            )
        self._check_length(recipe, config)
        self.tokenizer = tokenization.set_special_tokens(Tokenizer.from_str(backend.to_str()), paired=paired)
        named = {name: str(sign) for name, sign in loaded.special_tokens_map.items() if isinstance(sign, str)}
        self.special_tokens = {
            "pad_token": named.get("eos_token") or named.get("unk_token") or "",
            **named,
        }  # padding is masked
        self.about = f"{self.tokenizer.get_vocab_size():,} tokens of {Path(self._name).name}"
        self.remarks = []
        dropped = ("_name_or_path", "dtype", "torch_dtype")  # all weights are float32 here
        kept = {key: value for key, value in config.to_dict().items() if key not in dropped}
        if not isinstance(getattr(config, "hidden_size", None), int):
            raise InputError(f"pretrained.model {self._name}: its configuration has no hidden_size")
        self.config = {"width": config.hidden_size, "pretrained": kept, "language": wanted.lm_weight}
        self.known = torch.zeros(0, dtype=torch.long)

    def fill(self, model: PreTrainedModel) -> None:
        from transformers import AutoModel

        from mtsa.models.pretrained import PretrainedVectors

        words = getattr(model, "words", None)
        assert isinstance(words, PretrainedVectors)
        below = words.model
        try:
            start, info = AutoModel.from_pretrained(
                self._name, use_safetensors=True, dtype=torch.float32, output_loading_info=True
            )
            missing = [name for name in info["missing_keys"] if name in below.state_dict()]
            if missing or info["mismatched_keys"]:
                raise ValueError(
                    f"its weights do not match its configuration (missing: {', '.join(sorted(missing)[:3]) or 'none'})"
                )
            below.load_state_dict({name: value for name, value in start.state_dict().items() if name in below.state_dict()})
            ids = torch.zeros(1, 2, dtype=torch.long)
            width = below.eval()(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state.shape[-1]
        except (OSError, ValueError, RuntimeError, IndexError, SafetensorError) as error:
            raise self._load_error(error) from None
        below.train()
        if width != model.config.width:
            raise InputError(
                f"pretrained.model {self._name}: its vectors are {width} wide, its hidden_size is {model.config.width}"
            )

    def _check_length(self, recipe: Recipe, config: Any) -> None:
        from mtsa.models.pretrained import max_input_length

        most = max_input_length(config)
        if most is not None and not 0 < recipe.tokens.max_length <= most:
            raise InputError(
                f"tokens.max_length is {recipe.tokens.max_length}, but {self._name} reads at most {most} tokens; "
                f"add --set tokens.max_length={most}"
            )

    def _load_error(self, error: Exception) -> InputError:
        first = str(error).strip().split("\n", 1)[0]
        return InputError(f"pretrained.model {self._name} cannot be loaded from its safetensors and tokenizer.json: {first}")


def _load_vectors(recipe: Recipe, words: list[str], *, spaced: bool) -> embeddings.Vectors:
    wanted = recipe.vectors
    if not wanted.file:
        return embeddings.Vectors(wanted.dim, {}, [], torch.zeros(0, wanted.dim))
    check_there(wanted.file)
    path = Path(wanted.file)
    acceptable = tokenization.is_spaced_word if spaced else tokenization.is_word
    return embeddings.read_vectors(path, words, member=wanted.member, others=wanted.max_unseen, acceptable=acceptable)


def _coverage(words: list[str], loaded: embeddings.Vectors) -> str:
    share = len(loaded.wanted) / max(1, len(words))
    missing = [word for word in words if word not in loaded.wanted][:5]
    shown = f" (most frequent missing words: {', '.join(missing)})" if missing else ""
    return (
        f"vectors: {share:.1%} of {len(words):,} training words are in the file{shown}; "
        f"{len(loaded.others):,} further vectors are kept for new text"
    )
