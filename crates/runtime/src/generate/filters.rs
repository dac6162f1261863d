//! What changes logits before a token is chosen: bias, penalties, forbidden tokens.

use super::options::GenerationOptions;
use std::collections::HashMap;

/// How often tokens stand in a row.
#[derive(Debug, Clone, Default)]
pub(super) struct History {
    /// By token: how often this call has generated it; 0 for tokens of the prompt.
    generated: HashMap<i64, u32>,
}

/// The changes that options ask for. Their order: bias, repetition, presence and frequency, ends that come too early, bad
/// words.
#[derive(Debug, Clone)]
pub(super) struct Filters {
    bias: Vec<(i64, f64)>,
    repetition: f64,
    presence: f64,
    frequency: f64,
    bad_words: Vec<Vec<i64>>,
    ends: Vec<i64>,
    min_new_tokens: usize,
}

/// The logit of a token, when the vocabulary has the token.
fn logit(logits: &mut [f64], token: i64) -> Option<&mut f64> {
    logits.get_mut(usize::try_from(token).ok()?)
}

fn forbid(logits: &mut [f64], token: i64) {
    if let Some(logit) = logit(logits, token) {
        *logit = f64::NEG_INFINITY;
    }
}

impl Filters {
    pub(super) fn of(options: &GenerationOptions) -> Filters {
        let ends = options.eos_token_id.iter().chain(&options.stop_token_ids);
        Filters {
            bias: options.logit_bias.clone(),
            repetition: options.repetition_penalty,
            presence: options.presence_penalty,
            frequency: options.frequency_penalty,
            bad_words: options.bad_words.clone(),
            ends: ends.copied().collect(),
            min_new_tokens: options.min_new_tokens,
        }
    }

    /// Whether earlier tokens matter.
    fn looks_back(&self) -> bool {
        self.repetition != 1.0 || self.presence != 0.0 || self.frequency != 0.0
    }

    /// Whether nothing changes at a step that comes after `generated` tokens.
    pub(super) fn change_nothing(&self, generated: usize) -> bool {
        self.bias.is_empty()
            && !self.looks_back()
            && self.bad_words.is_empty()
            && (generated >= self.min_new_tokens || self.ends.is_empty())
    }

    /// The history of a row before a call.
    pub(super) fn history(&self, prompt: &[i64]) -> History {
        let mut history = History::default();
        if self.repetition != 1.0 {
            let none = prompt.iter().map(|token| (*token, 0));
            history.generated.extend(none);
        }
        history
    }

    /// Counts a generated token.
    pub(super) fn note(&self, history: &mut History, token: i64) {
        if self.looks_back() {
            let count = history.generated.entry(token).or_insert(0);
            *count = count.saturating_add(1);
        }
    }

    /// Changes the logits of a row with the visible tokens `row`, of which the call has generated the last `generated`.
    pub(super) fn apply(
        &self,
        logits: &mut [f64],
        row: &[i64],
        generated: usize,
        history: &History,
    ) {
        for (token, bias) in &self.bias {
            if let Some(logit) = logit(logits, *token) {
                *logit += bias;
            }
        }
        if self.looks_back() {
            for (token, count) in &history.generated {
                let Some(logit) = logit(logits, *token) else {
                    continue;
                };
                if self.repetition != 1.0 {
                    *logit = match *logit > 0.0 {
                        true => *logit / self.repetition,
                        false => *logit * self.repetition,
                    };
                }
                if *count > 0 {
                    *logit -= self.presence + self.frequency * f64::from(*count);
                }
            }
        }
        if generated < self.min_new_tokens {
            self.ends.iter().for_each(|token| forbid(logits, *token));
        }
        for word in &self.bad_words {
            if let Some((last, before)) = word.split_last()
                && row.ends_with(before)
            {
                forbid(logits, *last);
            }
        }
    }
}
