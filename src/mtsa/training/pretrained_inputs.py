"""The tokens and the weights of a pretrained `transformers` model. Only safetensors files are loaded."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError
from tokenizers import Tokenizer

from mtsa.data import tokenization
from mtsa.errors import InputError
from mtsa.models.pretrained_source import check_hub_model, locate_pretrained
from mtsa.models.transformers_logging import silence_transformers

from .model_inputs import Inputs
from .recipe import Recipe

if TYPE_CHECKING:
    from transformers import PretrainedConfig, PreTrainedModel

_UNLIMITED = 2**31


@dataclass(frozen=True)
class PretrainedFacts:
    """Facts about a pretrained model that determine default settings."""

    max_length: int  # tokens that the model can read
    joins_pairs: bool  # whether its tokenizer puts a special token between two texts


@dataclass(frozen=True)
class _Files:
    """The configuration and the tokenizer of a pretrained model."""

    config: PretrainedConfig
    tokenizer: str  # as JSON
    special_tokens: dict[str, str]


def pretrained_facts(name: str) -> PretrainedFacts:
    """Return facts about a pretrained model.

    Raises:
        InputError: the model cannot be loaded.
    """
    from mtsa.models.pretrained import max_input_length

    files = _load_files(name)
    joins = tokenization.joins_pairs(Tokenizer.from_str(files.tokenizer))
    return PretrainedFacts(max_input_length(files.config) or _UNLIMITED, joins)


class PretrainedInputs(Inputs):
    """The tokens and the weights of a pretrained model.

    Args:
        recipe: the settings.
        paired: whether inputs are pairs of texts.
        spaced: whether inputs are given as words.

    Raises:
        InputError: the model cannot be loaded, or does not support the settings.
    """

    def __init__(self, recipe: Recipe, *, paired: bool, spaced: bool = False) -> None:
        from mtsa.models.pretrained import is_language_model

        wanted = recipe.pretrained
        self._name = wanted.model
        files = _load_files(self._name)
        config = files.config
        if wanted.lm_weight and not is_language_model(config):
            raise InputError(
                f"pretrained.lm_weight ({wanted.lm_weight}) requires a GPT or GPT-2 model, "
                f"but {self._name} is not one; set it "
                "to 0"
            )
        self._check_length(recipe, config, spaced=spaced)
        joint = paired and recipe.model.pair_encoding == "joint"
        self.tokenizer = tokenization.set_special_tokens(Tokenizer.from_str(files.tokenizer), paired=paired and not joint)
        if spaced:
            self.tokenizer = tokenization.separate_words(self.tokenizer)
        if joint and not tokenization.joins_pairs(self.tokenizer):
            raise InputError(
                f'pretrained.model {self._name} has no special token between two texts; set model.pair_encoding="separate"'
            )
        named = files.special_tokens
        self.special_tokens = {
            "pad_token": named.get("eos_token") or named.get("unk_token") or "",
            **named,
        }  # padding is masked
        self.about = f"{self.tokenizer.get_vocab_size():,} tokens of {Path(self._name).name}"
        self.remarks = []
        dropped = ("_name_or_path", "dtype", "torch_dtype")  # all weights are float32 here
        kept = {key: value for key, value in config.to_dict().items() if key not in dropped}
        if not isinstance(getattr(config, "hidden_size", None), int):
            raise InputError(f"pretrained.model {self._name}: the configuration has no hidden_size")
        self.config = {"width": config.hidden_size, "pretrained": kept}
        if wanted.window:
            special = self.tokenizer.encode("a").special_tokens_mask
            self.config["window"] = [wanted.window, special.index(0), special[::-1].index(0)]
        self.known = torch.zeros(0, dtype=torch.long)

    def fill(self, model: PreTrainedModel) -> None:
        from transformers import AutoModel

        from mtsa.models.pretrained import PretrainedVectors

        words = getattr(model, "words", None)
        assert isinstance(words, PretrainedVectors)
        below = words.model
        source = locate_pretrained(self._name)
        try:
            start, info = AutoModel.from_pretrained(
                source, use_safetensors=True, dtype=torch.float32, output_loading_info=True
            )
            missing = [name for name in info["missing_keys"] if name in below.state_dict()]
            if missing or info["mismatched_keys"]:
                raise ValueError(
                    f"the weights do not match the configuration (missing: {', '.join(sorted(missing)[:3]) or 'none'})"
                )
            below.load_state_dict({name: value for name, value in start.state_dict().items() if name in below.state_dict()})
            ids = torch.zeros(1, 2, dtype=torch.long)
            width = below.eval()(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state.shape[-1]
        except (OSError, ValueError, RuntimeError, IndexError, SafetensorError) as error:
            raise _load_error(self._name, error) from None
        below.train()
        if width != model.config.width:
            raise InputError(
                f"pretrained.model {self._name}: the output has dimension {width}, but hidden_size is {model.config.width}; "
                "this architecture is not supported"
            )

    def _check_length(self, recipe: Recipe, config: Any, *, spaced: bool) -> None:
        from mtsa.models.pretrained import max_input_length

        most, window = max_input_length(config), recipe.pretrained.window
        if window and most is not None and window > most:
            raise InputError(
                f"pretrained.window is {window}, but {self._name} supports at most {most} tokens; "
                f"add --set pretrained.window={most}"
            )
        if not window and most is not None and not 0 < recipe.tokens.max_length <= most:
            hint = "" if spaced else f", or read longer texts in windows: --set pretrained.window={most}"
            raise InputError(
                f"tokens.max_length is {recipe.tokens.max_length}, but {self._name} supports at most {most} tokens; "
                f"add --set tokens.max_length={most}{hint}"
            )


@functools.lru_cache(maxsize=4)
def _load_files(name: str) -> _Files:
    """The configuration and the tokenizer of a pretrained model.

    Raises:
        InputError: they cannot be loaded, there is no fast tokenizer, or it is an encoder-decoder model.
    """
    from transformers import AutoConfig, AutoTokenizer

    silence_transformers()
    source = locate_pretrained(name)
    if Path(source).is_file():
        raise InputError(f"pretrained.model {name} is a file; specify the folder of a model")
    if not Path(source).is_dir():
        check_hub_model(name)
    elif not (Path(source) / "config.json").is_file():
        raise InputError(f"pretrained.model {name} is not a transformers model: the folder contains no config.json")
    try:
        config = AutoConfig.from_pretrained(source)
        loaded = AutoTokenizer.from_pretrained(source)
    except (OSError, ValueError, KeyError, TypeError, ImportError) as error:
        raise _load_error(name, error) from None
    backend = getattr(loaded, "backend_tokenizer", None)
    if backend is None or backend.get_vocab().keys() <= set(loaded.all_special_tokens):  # without files, only special tokens
        raise InputError(f"pretrained.model {name}: no fast tokenizer (tokenizer.json) found")
    if config.is_encoder_decoder:
        raise InputError(f"pretrained.model {name} is an encoder-decoder model; use an encoder or a decoder")
    named = {key: str(sign) for key, sign in loaded.special_tokens_map.items() if isinstance(sign, str)}
    return _Files(config, backend.to_str(), named)


def _load_error(name: str, error: Exception) -> InputError:
    first = str(error).strip().split("\n", 1)[0]
    return InputError(f"pretrained.model {name} cannot be loaded (safetensors and tokenizer.json are required): {first}")
