//! The naming schemes of known exporters and model families.

use crate::publish::Publish;

/// The name that stands for all schemes.
pub const KNOWN: &str = "known";

/// How one family of models names its states.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Scheme {
    /// Name to ask for it by.
    pub name: &'static str,
    /// Who writes such names.
    pub about: &'static str,
    /// Templates, with the publication of what they find.
    pub templates: &'static [(&'static str, Publish)],
}

const ALWAYS: Publish = Publish::Always;

const SCHEMES: &[Scheme] = &[
    Scheme {
        name: "kv",
        about: "decoders of optimum, torch.onnx, onnxruntime-genai and mobius",
        templates: &[
            ("past_key_values.{i}.key -> present.{i}.key", ALWAYS),
            ("past_key_values.{i}.value -> present.{i}.value", ALWAYS),
        ],
    },
    Scheme {
        name: "encoder_decoder",
        about: "encoder-decoders of optimum; the caches of the encoder's keys and values are published once",
        templates: &[
            (
                "past_key_values.{i}.decoder.key -> present.{i}.decoder.key",
                ALWAYS,
            ),
            (
                "past_key_values.{i}.decoder.value -> present.{i}.decoder.value",
                ALWAYS,
            ),
            (
                "past_key_values.{i}.encoder.key -> present.{i}.encoder.key",
                Publish::Once,
            ),
            (
                "past_key_values.{i}.encoder.value -> present.{i}.encoder.value",
                Publish::Once,
            ),
        ],
    },
    Scheme {
        name: "hybrid",
        about: "convolution windows and recurrent matrices of hybrid decoders",
        templates: &[
            ("past.{i}.conv -> present.{i}.conv", ALWAYS),
            ("past.{i}.recurrent -> present.{i}.recurrent", ALWAYS),
            (
                "past_key_values.{i}.conv_state -> present.{i}.conv_state",
                ALWAYS,
            ),
            (
                "past_key_values.{i}.recurrent_state -> present.{i}.recurrent_state",
                ALWAYS,
            ),
        ],
    },
    Scheme {
        name: "static",
        about: "caches of fixed capacity that are written at an index",
        templates: &[
            ("key_cache.{i} -> updated_key_cache.{i}", ALWAYS),
            ("value_cache.{i} -> updated_value_cache.{i}", ALWAYS),
        ],
    },
    Scheme {
        name: "numbered",
        about: "decoders of the onnxruntime transformers tools",
        templates: &[
            ("past_{i} -> present_{i}", ALWAYS),
            ("past_key_self_{i} -> present_key_self_{i}", ALWAYS),
            ("past_value_self_{i} -> present_value_self_{i}", ALWAYS),
        ],
    },
    Scheme {
        name: "silero",
        about: "voice activity detectors",
        templates: &[("state -> stateN", ALWAYS)],
    },
    Scheme {
        name: "lstm",
        about: "recurrent networks: h and c, with the usual endings",
        templates: &[
            ("h -> hn", ALWAYS),
            ("c -> cn", ALWAYS),
            ("h0 -> hN", ALWAYS),
            ("c0 -> cN", ALWAYS),
            ("hidden -> hidden_out", ALWAYS),
        ],
    },
    Scheme {
        name: "new",
        about: "`x` and `new_x`",
        templates: &[("{x} -> new_{x}", ALWAYS)],
    },
    Scheme {
        name: "in_out",
        about: "`x_in` and `x_out`",
        templates: &[("{x}_in -> {x}_out", ALWAYS)],
    },
];

/// The table of known schemes. None is used unless it is asked for.
pub fn schemes() -> &'static [Scheme] {
    SCHEMES
}
