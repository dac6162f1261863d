"""What `genai_config.json` and `generation_config.json` say: names, token ids, limits, how tokens are chosen."""

import dataclasses
import json
import os
from typing import Any

from refeed._native import GenerationOptions
from refeed.errors import ValueTypeError
from refeed.text.settings_file import Fields, folder_of, read_settings

__all__ = ["ModelSettings"]

# Fields of `genai_config.json` that name the past and the present of a cache, and a policy of publication.
CACHES = (
    ("past_key_names", "present_key_names"),
    ("past_value_names", "present_value_names"),
    ("past_names", "present_names"),
)
MOST_LAYERS = 10_000


@dataclasses.dataclass(frozen=True)
class ModelSettings:
    """Settings of a model, from the files of its folder.

    Attributes
    ----------
    eos_token_ids : tuple of int
        Tokens that end a sequence, the first one first.
    pad_token_id, bos_token_id, decoder_start_token_id : int or None
        Single tokens.
    context_length : int or None
        The most tokens that the model can see at once.
    names : dict of str to str
        Names of inputs and outputs, by what they are: `input_ids`, `attention_mask`, `position_ids`, `logits`.
    pairs : tuple of (str, str)
        Which input is fed by which output, as `genai_config.json` names them.
    max_length, max_new_tokens : int or None
        The most tokens of a sequence with its prompt, and without.
    do_sample : bool or None
        Whether tokens are drawn. Where it is not true, `temperature` does not count.
    temperature, top_p, min_p, repetition_penalty : float or None
        How tokens are chosen.
    top_k : int or None
        The same; 0 in a file is no limit.
    stop_strings : tuple of str
        Texts that end a sequence.
    bad_words : tuple of tuple of int
        Tokens, one after another, that are not generated.
    sources : tuple of str
        The files that were read.
    origins : dict of str to str
        Which file said a field.
    unused : tuple of str
        What files say about a generation and refeed does not do.
    """

    eos_token_ids: tuple[int, ...] = ()
    pad_token_id: int | None = None
    bos_token_id: int | None = None
    decoder_start_token_id: int | None = None
    context_length: int | None = None
    names: dict[str, str] = dataclasses.field(default_factory=dict)
    pairs: tuple[tuple[str, str], ...] = ()
    max_length: int | None = None
    max_new_tokens: int | None = None
    do_sample: bool | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    stop_strings: tuple[str, ...] = ()
    bad_words: tuple[tuple[int, ...], ...] = ()
    sources: tuple[str, ...] = ()
    origins: dict[str, str] = dataclasses.field(default_factory=dict)
    unused: tuple[str, ...] = ()

    @staticmethod
    def beside(model: str | os.PathLike[str]) -> "ModelSettings":
        """Read the settings of a model's folder; what no file says is left at its default.

        Where both files say something, `genai_config.json` counts: it is about this file, the other about its origin.

        Parameters
        ----------
        model : path-like
            The model's file, or its folder.

        Raises
        ------
        ValueTypeError
            When a file is not what it should be; the message names the file and the field.
        OSError
            When a file cannot be read.
        """
        folder = folder_of(model)
        made: dict[str, Any] = {}
        sources: list[str] = []
        origins: dict[str, str] = {}
        unused: list[str] = []
        for name, read in (("generation_config.json", _of_generation), ("genai_config.json", _of_genai)):
            fields = read_settings(folder / name)
            if fields is not None:
                sources.append(name)
                said = {key: value for key, value in read(fields).items() if value not in (None, (), {})}
                made |= said
                origins |= dict.fromkeys(said, name)
                search = fields.part("search") if name == "genai_config.json" else fields
                unused += [f"{field} of {name}" for field in _unused(search)]
        if made.get("temperature") is not None and not made.get("do_sample"):
            unused.append(f"temperature of {origins['temperature']} (do_sample is not true)")
        return ModelSettings(**made, sources=tuple(sources), origins=origins, unused=tuple(unused))

    def options(self, **fields: Any) -> GenerationOptions:
        """Return options of a generation: what the settings say, and over it `fields`.

        Parameters
        ----------
        **fields
            Options by name. `max_new_tokens` takes the place of the files' `max_length` too, and `eos_token_id` that of
            all their end tokens.

        Raises
        ------
        ValueTypeError
            When an option has a value that means nothing.
        """
        said = self.option_fields()
        if "max_new_tokens" in fields and self.max_length is not None:
            said.pop("max_length")
            if self.context_length is not None:
                said["max_length"] = self.context_length
        if "eos_token_id" in fields:
            said.pop("stop_token_ids", None)
        return GenerationOptions(**{**said, **fields})

    def notes(self, *replaced: str) -> list[str]:
        """Return lines for people: what each file says about a generation, without the `replaced` options."""
        names = {"eos_token_ids": "eos_token_id"}
        gone = set(replaced)
        if "max_new_tokens" in gone:
            gone.add("max_length")
        lines = []
        for source in self.sources:
            said = []
            for field in TOLD:
                name = names.get(field, field)
                if self.origins.get(field) == source and name not in gone:
                    said.append(f"{name} {_shown(getattr(self, field))}")
            if said:
                lines.append(f"from {source}: {', '.join(said)}")
        if self.unused:
            lines.append(f"not used: {', '.join(self.unused)}")
        return lines

    def option_fields(self) -> dict[str, Any]:
        """Return the fields of `GenerationOptions` that the settings say; `stop_strings` are none of them."""
        fields: dict[str, Any] = {f"{name}_name": value for name, value in self.names.items()}
        if self.eos_token_ids:
            fields["eos_token_id"] = self.eos_token_ids[0]
            fields["stop_token_ids"] = list(self.eos_token_ids[1:])
        if self.pad_token_id is not None:
            fields["pad_token_id"] = self.pad_token_id
        for name in ("max_new_tokens", "top_k", "top_p", "min_p", "repetition_penalty"):
            if getattr(self, name) is not None:
                fields[name] = getattr(self, name)
        if self.do_sample is not None:
            sampled = 1.0 if self.temperature is None else self.temperature
            fields["temperature"] = sampled if self.do_sample else 0.0
        if self.bad_words:
            fields["bad_words"] = [list(words) for words in self.bad_words]
        # A number of new tokens takes the place of a length, but not of what the model can see.
        given = None if self.max_new_tokens is not None else self.max_length
        lengths = [length for length in (given, self.context_length) if length is not None]
        if lengths:
            fields["max_length"] = min(lengths)
        return fields


# What `notes` tells, in this order.
TOLD = (
    "eos_token_ids",
    "pad_token_id",
    "context_length",
    "max_length",
    "max_new_tokens",
    "do_sample",
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "repetition_penalty",
    "stop_strings",
    "bad_words",
)

# What files say about a generation and refeed does not do on its own, with the value at which it says nothing.
NOT_READ: dict[str, Any] = {
    "num_beams": 1,
    "num_return_sequences": 1,
    "min_length": 0,
    "min_new_tokens": 0,
    "no_repeat_ngram_size": 0,
    "encoder_no_repeat_ngram_size": 0,
    "typical_p": 1.0,
    "epsilon_cutoff": 0.0,
    "eta_cutoff": 0.0,
    "penalty_alpha": 0.0,
    "diversity_penalty": 0.0,
    "encoder_repetition_penalty": 1.0,
    "begin_suppress_tokens": [],
    "forced_bos_token_id": None,
    "forced_eos_token_id": None,
    "forced_decoder_ids": [],
    "exponential_decay_length_penalty": None,
    "sequence_bias": None,
    "guidance_scale": 1.0,
}


def _unused(fields: Fields) -> list[str]:
    """Return the names of fields that ask for what refeed does not do."""
    return [name for name, nothing in NOT_READ.items() if name in fields and not fields.holds(name, nothing)]


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return " ".join(json.dumps(one, ensure_ascii=False) for one in value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def _of_search(fields: Fields) -> dict[str, Any]:
    """Read what both files say about the choice of tokens, in the same words."""
    words = [fields.ids(one, "bad_words_ids") for one in fields.listed("bad_words_ids")]
    words += [(token,) for token in fields.counts("suppress_tokens")]
    top_p = fields.number("top_p", 0.0, 1.0)
    if top_p == 0.0:
        raise fields.wrong("top_p", "a number above 0")
    penalty = fields.number("repetition_penalty", 0.0)
    if penalty == 0.0:
        raise fields.wrong("repetition_penalty", "a number above 0")
    return {
        "max_length": fields.count("max_length") or None,
        "max_new_tokens": fields.count("max_new_tokens"),
        "do_sample": fields.flag("do_sample"),
        "temperature": fields.number("temperature", 0.0),
        "top_k": fields.count("top_k") or None,
        "top_p": top_p,
        "min_p": fields.number("min_p", 0.0, 1.0),
        "repetition_penalty": penalty,
        "stop_strings": fields.texts("stop_strings"),
        "bad_words": tuple(words),
    }


def _of_generation(fields: Fields) -> dict[str, Any]:
    return {
        **_of_search(fields),
        "eos_token_ids": fields.counts("eos_token_id"),
        "pad_token_id": fields.count("pad_token_id"),
        "bos_token_id": fields.count("bos_token_id"),
        "decoder_start_token_id": fields.count("decoder_start_token_id"),
    }


def _of_genai(fields: Fields) -> dict[str, Any]:
    model = fields.part("model")
    decoder = model.part("decoder")
    inputs, outputs = decoder.part("inputs"), decoder.part("outputs")
    names = {name: inputs.text(name) for name in ("input_ids", "attention_mask", "position_ids")}
    names["logits"] = outputs.text("logits")
    return {
        **_of_search(fields.part("search")),
        "eos_token_ids": model.counts("eos_token_id"),
        "pad_token_id": model.count("pad_token_id"),
        "bos_token_id": model.count("bos_token_id"),
        "decoder_start_token_id": model.count("decoder_start_token_id"),
        "context_length": model.count("context_length"),
        "names": {name: given for name, given in names.items() if given is not None},
        "pairs": _pairs(decoder, inputs, outputs),
    }


def _pairs(decoder: Fields, inputs: Fields, outputs: Fields) -> tuple[tuple[str, str], ...]:
    """Spell the names of the caches out: `%d` stands for the number of a layer."""
    pairs = []
    for past_field, present_field in CACHES:
        past, present = inputs.text(past_field), outputs.text(present_field)
        if past is None and present is None:
            continue
        if past is None:
            raise inputs.wrong(past_field, f"a name, as there is {present_field}")
        if present is None:
            raise outputs.wrong(present_field, f"a name, as there is {past_field}")
        layers = decoder.count("num_hidden_layers")
        if layers is None or not 1 <= layers <= MOST_LAYERS:
            raise decoder.wrong("num_hidden_layers", f"a number from 1 to {MOST_LAYERS}")
        for field, fields, name in ((past_field, inputs, past), (present_field, outputs, present)):
            if name.count("%d") != 1:
                raise fields.wrong(field, "a name with one %d")
        pairs += [(past.replace("%d", str(i)), present.replace("%d", str(i))) for i in range(layers)]
    if len({past for past, _ in pairs}) != len(pairs):
        raise ValueTypeError("genai_config.json: past names: expected one for each cache, two caches have one name")
    return tuple(pairs)
