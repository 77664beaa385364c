"""What a model reads: words with their vectors, or the tokens of a pretrained model; and what it starts from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from tokenizers import Tokenizer
from torch import Tensor
from transformers import PreTrainedModel

from mtsa.data import tokens, vectors
from mtsa.data.source import InputError
from mtsa.models.pretrained import PretrainedVectors, longest_text, predicts_tokens
from mtsa.models.words import WordVectors

from .recipe import Recipe
from .split import check_there

MODEL_FILES = ("config.json", "tokenizer.json", "model.safetensors")  # what a pretrained model is made of


class Inputs(ABC):
    """The lowest layer of a model: how text becomes numbers, and numbers vectors."""

    tokenizer: Tokenizer
    signs: dict[str, str]  # the names of its special tokens, as `transformers` calls them
    remarks: list[str]
    about: str  # for the overview, such as "12,345 words"
    config: dict[str, Any]  # keys of the model's configuration
    known: Tensor  # numbers of the training words that have a vector in the file

    @abstractmethod
    def fill(self, model: PreTrainedModel) -> None:
        """Give a fresh model what it starts from."""


def make_inputs(recipe: Recipe, texts: Iterable[str], tick: Callable[[int], None]) -> Inputs:
    """The inputs of a recipe, for these training texts.

    Raises:
        InputError: a vector file or a pretrained model that is none.
    """
    return PretrainedInputs(recipe) if recipe.pretrained.model else WordInputs(recipe, texts, tick)


class WordInputs(Inputs):
    """The words of the training texts, with the vectors of a file where there is one."""

    def __init__(self, recipe: Recipe, texts: Iterable[str], tick: Callable[[int], None]) -> None:
        least = recipe.tokens.least or (1 if recipe.vectors.file else 2)
        self.words = tokens.count_words(texts, least=least, spaced=recipe.tagged)
        loaded = _vectors(recipe, self.words, tick)
        self._found, self._frozen = loaded.wanted, loaded.other_rows
        self.tokenizer = tokens.word_tokenizer([*self.words, *loaded.others], paired=recipe.paired, spaced=recipe.tagged)
        self.signs = {"pad_token": tokens.PAD, "unk_token": tokens.UNKNOWN}
        self.about = f"{len(self.words):,} words"
        self.remarks = [_coverage(self.words, loaded)] if recipe.vectors.file else []
        self.config = {"words": (len(tokens.SPECIAL) + len(self.words), len(loaded.others)), "width": loaded.width}
        places = [place for place, word in enumerate(self.words, len(tokens.SPECIAL)) if word in self._found]
        self.known = torch.tensor(places).long()

    def fill(self, model: PreTrainedModel) -> None:
        words = getattr(model, "words", None)
        assert isinstance(words, WordVectors)
        with torch.no_grad():
            for number, word in enumerate(self.words, start=len(tokens.SPECIAL)):
                if word in self._found:
                    words.tuned[number] = self._found[word]
            words.frozen.copy_(self._frozen)


class PretrainedInputs(Inputs):
    """The tokens and the weights of a pretrained model of `transformers`; nothing but safetensors is loaded."""

    def __init__(self, recipe: Recipe) -> None:
        from transformers import AutoConfig, AutoTokenizer

        wanted = recipe.pretrained
        self._name = wanted.model
        try:
            config = AutoConfig.from_pretrained(self._name)
            loaded = AutoTokenizer.from_pretrained(self._name)
        except (OSError, ValueError, KeyError) as error:
            raise self._refused(error) from None
        backend = getattr(loaded, "backend_tokenizer", None)
        if backend is None:
            raise InputError(f"pretrained.model {self._name}: its tokeniser is none of the fast kind (tokenizer.json)")
        if config.is_encoder_decoder:
            raise InputError(f"pretrained.model {self._name} is an encoder with a decoder; name a model of one part")
        if wanted.language and not predicts_tokens(config):
            raise InputError(
                f"pretrained.language is {wanted.language}, but {self._name} is no language model of the kinds whose loss is "
                f"known here (GPT, GPT-2); set it to 0"
            )
        self._check_length(recipe, config)
        self.tokenizer = tokens.own_signs(Tokenizer.from_str(backend.to_str()), paired=recipe.paired)
        named = {name: str(sign) for name, sign in loaded.special_tokens_map.items() if isinstance(sign, str)}
        self.signs = {"pad_token": named.get("eos_token") or named.get("unk_token") or "", **named}  # the mask hides it
        self.about = f"{self.tokenizer.get_vocab_size():,} tokens of {Path(self._name).name}"
        self.remarks = []
        own = ("_name_or_path", "dtype", "torch_dtype")  # of the place it came from; here all is computed in float32
        kept = {key: value for key, value in config.to_dict().items() if key not in own}
        if not isinstance(getattr(config, "hidden_size", None), int):
            raise InputError(f"pretrained.model {self._name}: its configuration does not say how wide its vectors are")
        self.config = {"width": config.hidden_size, "pretrained": kept, "language": wanted.language}
        self.known = torch.zeros(0, dtype=torch.long)

    def fill(self, model: PreTrainedModel) -> None:
        from transformers import AutoModel

        words = getattr(model, "words", None)
        assert isinstance(words, PretrainedVectors)
        below = words.model
        try:
            start, told = AutoModel.from_pretrained(
                self._name, use_safetensors=True, dtype=torch.float32, output_loading_info=True
            )
            missing = [name for name in told["missing_keys"] if name in below.state_dict()]
            if missing or told["mismatched_keys"]:
                raise ValueError(
                    f"its weights do not fit its configuration (without {', '.join(sorted(missing)[:3]) or 'any'})"
                )
            below.load_state_dict({name: value for name, value in start.state_dict().items() if name in below.state_dict()})
            ids = torch.zeros(1, 2, dtype=torch.long)
            width = below.eval()(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state.shape[-1]
        except (OSError, ValueError, RuntimeError, IndexError, SafetensorError) as error:
            raise self._refused(error) from None
        below.train()
        if width != model.config.width:
            raise InputError(
                f"pretrained.model {self._name}: its vectors are {width} wide, its hidden_size is {model.config.width}"
            )

    def _check_length(self, recipe: Recipe, config: Any) -> None:
        most = longest_text(config)
        if most is not None and not 0 < recipe.tokens.longest <= most:
            raise InputError(
                f"tokens.longest is {recipe.tokens.longest}, but {self._name} reads at most {most} tokens; "
                f"add --set tokens.longest={most}"
            )

    def _refused(self, error: Exception) -> InputError:
        first = str(error).strip().split("\n", 1)[0]
        return InputError(f"pretrained.model {self._name} cannot be loaded from its safetensors and tokenizer.json: {first}")


def _vectors(recipe: Recipe, words: list[str], tick: Callable[[int], None]) -> vectors.Vectors:
    wanted = recipe.vectors
    if not wanted.file:
        return vectors.Vectors(wanted.width, {}, [], torch.zeros(0, wanted.width))
    check_there(wanted.file)
    path = Path(wanted.file)
    acceptable = tokens.is_spaced_word if recipe.tagged else tokens.is_word
    return vectors.read_vectors(path, words, member=wanted.member, others=wanted.unseen, acceptable=acceptable, tick=tick)


def _coverage(words: list[str], loaded: vectors.Vectors) -> str:
    share = len(loaded.wanted) / max(1, len(words))
    missing = [word for word in words if word not in loaded.wanted][:5]
    shown = f" (the most frequent without: {', '.join(missing)})" if missing else ""
    return (
        f"vectors: {share:.1%} of {len(words):,} training words are in the file{shown}; "
        f"{len(loaded.others):,} further words are kept for new text"
    )
