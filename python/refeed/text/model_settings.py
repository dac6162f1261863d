"""What `genai_config.json` and `generation_config.json` say about a model: names, token ids, limits."""

import dataclasses
import os
from typing import Any

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
    sources : tuple of str
        The files that were read.
    """

    eos_token_ids: tuple[int, ...] = ()
    pad_token_id: int | None = None
    bos_token_id: int | None = None
    decoder_start_token_id: int | None = None
    context_length: int | None = None
    names: dict[str, str] = dataclasses.field(default_factory=dict)
    pairs: tuple[tuple[str, str], ...] = ()
    sources: tuple[str, ...] = ()

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
        sources = []
        for name, read in (("generation_config.json", _of_generation), ("genai_config.json", _of_genai)):
            fields = read_settings(folder / name)
            if fields is not None:
                sources.append(name)
                made |= {key: value for key, value in read(fields).items() if value not in (None, (), {})}
        return ModelSettings(**made, sources=tuple(sources))

    def option_fields(self) -> dict[str, Any]:
        """Return the fields of `GenerationOptions` that the settings say: names, the token that ends, padding."""
        fields: dict[str, Any] = {f"{name}_name": value for name, value in self.names.items()}
        if self.eos_token_ids:
            fields["eos_token_id"] = self.eos_token_ids[0]
            fields["stop_token_ids"] = list(self.eos_token_ids[1:])
        if self.pad_token_id is not None:
            fields["pad_token_id"] = self.pad_token_id
        if self.context_length is not None:
            fields["max_length"] = self.context_length
        return fields


def _of_generation(fields: Fields) -> dict[str, Any]:
    return {
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
