//! What a caller may say about a generation.

use super::decoder::Decoder;
use super::error::GenerationError;
use crate::state::BatchAxes;
use refeed_graph::Model;

/// Settings of a generation. The first nine fields are those of every runtime; the others refine the choice of tokens, or
/// say how the work is done.
///
/// ```
/// use refeed_runtime::GenerationOptions;
/// let options = GenerationOptions { temperature: 0.7, seed: Some(42), ..GenerationOptions::default() };
/// assert_eq!((options.max_new_tokens, options.input_ids_name.as_str()), (20, "input_ids"));
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct GenerationOptions {
    /// Most tokens that one call adds to a row.
    pub max_new_tokens: usize,
    /// 0: the most probable token. Positive: a draw from `softmax(logits / temperature)`.
    pub temperature: f64,
    /// Makes draws repeatable; without one, each call draws differently.
    pub seed: Option<u64>,
    /// A token that ends its row.
    pub eos_token_id: Option<i64>,
    /// What rows that have ended are filled with; the end token when absent.
    pub pad_token_id: Option<i64>,
    /// The graph input of the token ids.
    pub input_ids_name: String,
    /// The graph output of the logits.
    pub logits_name: String,
    /// The graph input of the mask, when there is one of this name.
    pub attention_mask_name: String,
    /// The graph input of the positions, when there is one of this name.
    pub position_ids_name: String,
    /// Draws are among the `top_k` most probable tokens; equal ones count by their number.
    pub top_k: Option<usize>,
    /// Draws are among the most probable tokens that together have at least this probability, in (0, 1].
    pub top_p: Option<f64>,
    /// Draws are among tokens at least this many times as probable as the most probable one, in [0, 1].
    pub min_p: Option<f64>,
    /// Logits of tokens that stand in the row are divided by this when positive and multiplied when negative; 1: no change.
    pub repetition_penalty: f64,
    /// Subtracted from the logits of tokens that this call has generated in the row.
    pub presence_penalty: f64,
    /// Subtracted from the logits of tokens as many times as this call has generated them in the row.
    pub frequency_penalty: f64,
    /// Added to the logits of single tokens; negative infinity forbids one.
    pub logit_bias: Vec<(i64, f64)>,
    /// Sequences of tokens that are not generated.
    pub bad_words: Vec<Vec<i64>>,
    /// More tokens that end their row.
    pub stop_token_ids: Vec<i64>,
    /// Sequences of generated tokens that end their row.
    pub stop_sequences: Vec<Vec<i64>>,
    /// Tokens that end a row are forbidden before this many were generated; at most [`GenerationOptions::max_new_tokens`].
    pub min_new_tokens: usize,
    /// Most tokens that a row may have, prompt included.
    pub max_length: Option<usize>,
    /// Sequences that are drawn for each prompt, from one evaluation of it; with beams, how many of the best are
    /// returned: fewer where a row has fewer continuations. A call grows at most 65536 sequences, of all prompts together.
    pub num_return_sequences: usize,
    /// Width of a beam search; 1: none.
    pub num_beams: usize,
    /// Finished beams are ranked by their log-probability over their new length to this power.
    pub length_penalty: f64,
    /// Whether each token's log-probability is told: of the model's own distribution, before penalties, filters and
    /// temperature.
    pub log_probabilities: bool,
    /// The prompt is evaluated in pieces of at most this many tokens, which bounds the memory of intermediate values.
    /// Models with bindings only; others always see the whole prefix. None: [`crate::generate`] evaluates it at once, a
    /// [`crate::Generator`] 512 tokens at a time, or as many as `input_ids` is declared for.
    pub prefill_chunk: Option<usize>,
    /// Whether a [`crate::Generator`] lets rows go that have ended, so that they cost nothing from then on.
    pub drop_finished: bool,
    /// The number of the first row in the random stream: parts of a batch then draw what they draw in the whole.
    pub first_row: u64,
    /// Which axis of each retained value is the batch, where the declarations do not tell. Needed for beams, several
    /// sequences a prompt, and rows that are let go.
    pub batch_axes: BatchAxes,
}

impl Default for GenerationOptions {
    fn default() -> Self {
        GenerationOptions {
            max_new_tokens: 20,
            temperature: 0.0,
            seed: None,
            eos_token_id: None,
            pad_token_id: None,
            input_ids_name: "input_ids".to_string(),
            logits_name: "logits".to_string(),
            attention_mask_name: "attention_mask".to_string(),
            position_ids_name: "position_ids".to_string(),
            top_k: None,
            top_p: None,
            min_p: None,
            repetition_penalty: 1.0,
            presence_penalty: 0.0,
            frequency_penalty: 0.0,
            logit_bias: Vec::new(),
            bad_words: Vec::new(),
            stop_token_ids: Vec::new(),
            stop_sequences: Vec::new(),
            min_new_tokens: 0,
            max_length: None,
            num_return_sequences: 1,
            num_beams: 1,
            length_penalty: 1.0,
            log_probabilities: false,
            prefill_chunk: None,
            drop_finished: true,
            first_row: 0,
            batch_axes: BatchAxes::default(),
        }
    }
}

/// Refuses the value of an option unless `right`.
fn need(
    right: bool,
    option: &'static str,
    expected: &'static str,
    got: &dyn std::fmt::Display,
) -> Result<(), GenerationError> {
    match right {
        true => Ok(()),
        false => Err(GenerationError::option(option, expected, got)),
    }
}

/// Most sequences that one call may grow, of all prompts together.
const MOST_SEQUENCES: usize = 1 << 16;

const ID: &str = "a nonnegative token id";

fn sequences(option: &'static str, all: &[Vec<i64>]) -> Result<(), GenerationError> {
    for sequence in all {
        let expected = "sequences of at least one token id";
        need(!sequence.is_empty(), option, expected, &"an empty one")?;
        for id in sequence {
            need(*id >= 0, option, "nonnegative token ids", id)?;
        }
    }
    Ok(())
}

impl GenerationOptions {
    /// Checks what can be told without a model.
    ///
    /// # Errors
    /// The first option with a value that means nothing.
    pub fn check(&self) -> Result<(), GenerationError> {
        let at_least_1 = "at least 1";
        let finite = "a finite number";
        let nonnegative = "a finite number of at least 0";
        let temperature = self.temperature;
        let right = temperature.is_finite() && temperature >= 0.0;
        need(right, "temperature", nonnegative, &temperature)?;
        if let Some(id) = self.eos_token_id {
            need(id >= 0, "eos_token_id", ID, &id)?;
        }
        if let Some(id) = self.pad_token_id {
            need(id >= 0, "pad_token_id", ID, &id)?;
        }
        if let Some(k) = self.top_k {
            need(k >= 1, "top_k", at_least_1, &k)?;
        }
        if let Some(p) = self.top_p {
            need(p > 0.0 && p <= 1.0, "top_p", "a number in (0, 1]", &p)?;
        }
        if let Some(p) = self.min_p {
            let right = (0.0..=1.0).contains(&p);
            need(right, "min_p", "a number in [0, 1]", &p)?;
        }
        let penalty = self.repetition_penalty;
        let right = penalty.is_finite() && penalty > 0.0;
        need(
            right,
            "repetition_penalty",
            "a finite positive number",
            &penalty,
        )?;
        for (option, value) in [
            ("presence_penalty", self.presence_penalty),
            ("frequency_penalty", self.frequency_penalty),
            ("length_penalty", self.length_penalty),
        ] {
            need(value.is_finite(), option, finite, &value)?;
        }
        for (id, bias) in &self.logit_bias {
            need(*id >= 0, "logit_bias", "nonnegative token ids", id)?;
            let right = *bias < f64::INFINITY;
            need(right, "logit_bias", "numbers below infinity", bias)?;
        }
        sequences("bad_words", &self.bad_words)?;
        for id in &self.stop_token_ids {
            need(*id >= 0, "stop_token_ids", "nonnegative token ids", id)?;
        }
        sequences("stop_sequences", &self.stop_sequences)?;
        if let Some(length) = self.max_length {
            need(length >= 1, "max_length", at_least_1, &length)?;
        }
        if let Some(chunk) = self.prefill_chunk {
            need(chunk >= 1, "prefill_chunk", at_least_1, &chunk)?;
        }
        let (fewest, most) = (self.min_new_tokens, self.max_new_tokens);
        let expected = "at most max_new_tokens";
        need(fewest <= most, "min_new_tokens", expected, &fewest)?;
        let (beams, returned) = (self.num_beams, self.num_return_sequences);
        need(beams >= 1, "num_beams", at_least_1, &beams)?;
        let option = "num_return_sequences";
        need(returned >= 1, option, at_least_1, &returned)?;
        if beams > 1 {
            let right = returned <= beams;
            need(right, option, "at most num_beams", &returned)?;
            let expected = "0 with num_beams above 1: beams are searched, not drawn";
            need(temperature == 0.0, "temperature", expected, &temperature)?;
        } else {
            let right = returned == 1 || temperature > 0.0;
            let expected = "1 with temperature 0 and no beams: the sequences would be equal";
            need(right, option, expected, &returned)?;
        }
        self.check_count(1)
    }

    /// Refuses more sequences than any model runs.
    pub(super) fn check_count(&self, rows: usize) -> Result<(), GenerationError> {
        for (option, count) in [
            ("num_beams", self.num_beams),
            ("num_return_sequences", self.num_return_sequences),
        ] {
            let all = count.checked_mul(rows.max(1));
            if count > 1 && all.is_none_or(|all| all > MOST_SEQUENCES) {
                let expected = format!("at most {MOST_SEQUENCES} for all {rows} prompts together");
                return Err(GenerationError::option(option, expected, count));
            }
        }
        Ok(())
    }

    /// Refuses axes of inputs that are not bound.
    pub(super) fn check_axes(&self, model: &Model) -> Result<(), GenerationError> {
        let bound = |name: &str| model.bindings().iter().any(|b| &*b.input == name);
        match self.batch_axes.names().find(|name| !bound(name)) {
            Some(name) => Err(GenerationError::option(
                "batch_axes",
                "names of bound inputs",
                name,
            )),
            None => Ok(()),
        }
    }

    /// Refuses rows that are as long already as they may become.
    pub(super) fn check_length(&self, decoder: &Decoder) -> Result<(), GenerationError> {
        for row in &decoder.rows {
            if let Some(most) = self.max_length.filter(|most| row.visible >= *most) {
                let (held, number) = (row.visible, row.number);
                let expected = format!("more than the {held} tokens of row {number}");
                return Err(GenerationError::option("max_length", expected, most));
            }
        }
        Ok(())
    }

    /// What ended rows are filled with, when anything is said about it.
    pub(super) fn padding(&self) -> Option<i64> {
        let stop = || self.stop_token_ids.first().copied();
        self.pad_token_id.or(self.eos_token_id).or_else(stop)
    }
}
