//! Beam search: the most probable sequences, as far as a few at a time can tell.

use super::control::{Control, FinishReason};
use super::decoder::Decoder;
use super::error::GenerationError;
use super::filters::{Filters, History};
use super::logits::{LogitRow, Useless, largest};
use super::options::GenerationOptions;
use super::turn::{GeneratedSequence, check_vocabulary, ending, feed, log_sum};

/// A sequence that is still growing.
#[derive(Debug, Clone)]
struct Beam {
    /// Its row of the decoder.
    slot: usize,
    /// The sum of the log-probabilities.
    sum: f64,
    tokens: Vec<i64>,
    log_probabilities: Vec<f64>,
    history: History,
}

/// A next token of a beam.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    beam: usize,
    token: usize,
    log_probability: f64,
    sum: f64,
}

/// The search for one row of the prompts.
#[derive(Debug)]
struct Search {
    row: usize,
    beams: Vec<Beam>,
    /// The best sequences that have ended, best first; at most as many as there are beams.
    ended: Vec<GeneratedSequence>,
}

/// Finds the `num_beams` best continuations of each row, and returns the first `num_return_sequences` of them, best first,
/// row by row. The decoder's rows stay as they are; their prompt is evaluated.
///
/// A row ends when as many sequences have ended as there are beams and the best growing one, at its present length, ranks
/// below all of them.
///
/// # Errors
/// When the options do not fit, rows of the retained values cannot be chosen, or the model cannot be run.
pub(super) fn search(
    decoder: &mut Decoder,
    options: &GenerationOptions,
    control: &mut Control<'_>,
) -> Result<Vec<GeneratedSequence>, GenerationError> {
    decoder.need_rows("num_beams")?;
    options.check_length(decoder)?;
    options.check_count(decoder.rows.len())?;
    decoder.roles.check_padding(&decoder.rows)?;
    let filters = Filters::of(options);
    let rows = decoder.rows.iter().enumerate();
    let searches = rows.map(|(slot, row)| Search {
        row: row.number,
        beams: vec![Beam {
            slot,
            sum: 0.0,
            tokens: Vec::new(),
            log_probabilities: Vec::new(),
            history: filters.history(&row.visible_tokens()),
        }],
        ended: Vec::new(),
    });
    let mut searches: Vec<Search> = searches.collect();
    let mut stopped = match options.max_new_tokens {
        0 => Some(FinishReason::Length),
        _ => feed(decoder, options, control, &|_| true)?,
    };
    if stopped.is_none() {
        check_vocabulary(decoder, options)?;
        let mut apart = decoder.fork()?;
        stopped = steps(&mut searches, &mut apart, &filters, options, control)?;
    }
    for search in &mut searches {
        for beam in std::mem::take(&mut search.beams) {
            search.end(beam, stopped.unwrap_or(FinishReason::Length), options);
        }
    }
    let wanted = options.num_return_sequences;
    searches.sort_by_key(|search| search.row);
    let best = searches
        .into_iter()
        .flat_map(|search| search.ended.into_iter().take(wanted));
    Ok(best.collect())
}

/// Steps until every row has ended; the reason when that was stopped.
fn steps(
    searches: &mut [Search],
    decoder: &mut Decoder,
    filters: &Filters,
    options: &GenerationOptions,
    control: &mut Control<'_>,
) -> Result<Option<FinishReason>, GenerationError> {
    let mut wide = Vec::new();
    loop {
        for search in searches
            .iter_mut()
            .filter(|search| !search.beams.is_empty())
        {
            let candidates = search.candidates(decoder, filters, options, &mut wide)?;
            search.choose(&candidates, decoder, filters, options);
        }
        let growing = || searches.iter().flat_map(|search| &search.beams);
        let parents: Vec<usize> = growing().map(|beam| beam.slot).collect();
        if parents.is_empty() {
            return Ok(None);
        }
        decoder.reorder(&parents, "num_beams")?;
        let beams = searches.iter_mut().flat_map(|search| &mut search.beams);
        for (slot, (beam, row)) in beams.zip(&mut decoder.rows).enumerate() {
            beam.slot = slot;
            if let Some(token) = beam.tokens.last() {
                row.push(*token, true);
            }
        }
        decoder.grown();
        if let Some(reason) = control.look() {
            return Ok(Some(reason));
        }
        if let Some(reason) = feed(decoder, options, control, &|_| true)? {
            return Ok(Some(reason));
        }
    }
}

impl Search {
    /// The best next tokens of all beams, best first: enough of them even when every token that ends is among them.
    fn candidates(
        &self,
        decoder: &Decoder,
        filters: &Filters,
        options: &GenerationOptions,
        wide: &mut Vec<f64>,
    ) -> Result<Vec<Candidate>, GenerationError> {
        let ends = options.stop_token_ids.len() + options.stop_sequences.len();
        let count = options
            .num_beams
            .saturating_mul(2 + ends)
            .min(decoder.vocabulary());
        let mut candidates = Vec::new();
        for (index, beam) in self.beams.iter().enumerate() {
            let Some(row) = decoder.logits(beam.slot) else {
                return Err(GenerationError::turn("generate", "there are no logits"));
            };
            let seen = decoder.rows[beam.slot].seen();
            if candidates.try_reserve(count).is_err() {
                let expected = "few enough that memory holds their next tokens";
                return Err(GenerationError::option(
                    "num_beams",
                    expected,
                    options.num_beams,
                ));
            }
            let ranked = ranked(row, &seen, beam, filters, count, wide);
            let ranked = ranked.map_err(|reason| GenerationError::Row {
                name: decoder.roles.logits_name.clone(),
                row: beam.slot,
                reason: reason.to_string(),
            })?;
            candidates.extend(
                ranked
                    .into_iter()
                    .map(|(token, log_probability)| Candidate {
                        beam: index,
                        token,
                        log_probability,
                        sum: beam.sum + log_probability,
                    }),
            );
        }
        candidates.sort_by(|a, b| b.sum.total_cmp(&a.sum));
        Ok(candidates)
    }

    /// Takes the best candidates: those that end are put aside, the others are the beams of the next step.
    fn choose(
        &mut self,
        candidates: &[Candidate],
        decoder: &Decoder,
        filters: &Filters,
        options: &GenerationOptions,
    ) {
        let before = std::mem::take(&mut self.beams);
        for (rank, candidate) in candidates.iter().enumerate() {
            if self.beams.len() == options.num_beams {
                break;
            }
            let mut beam = before[candidate.beam].clone();
            let token = candidate.token as i64;
            beam.sum = candidate.sum;
            beam.tokens.push(token);
            if options.log_probabilities {
                beam.log_probabilities.push(candidate.log_probability);
            }
            filters.note(&mut beam.history, token);
            let visible = decoder.rows[beam.slot].visible + 1;
            match ending(options, &beam.tokens, token, visible) {
                // One that reaches its length counts as the others of its rank.
                Some(FinishReason::Length) => self.end(beam, FinishReason::Length, options),
                Some(reason) if rank < options.num_beams => self.end(beam, reason, options),
                Some(_) => {}
                None => self.beams.push(beam),
            }
            let full = self.ended.len() >= options.num_beams;
            if full && self.beams.is_empty() && rank + 1 >= options.num_beams.saturating_mul(2) {
                break;
            }
        }
        let best = self.beams.first();
        let best = best.map(|beam| score(beam.sum, beam.tokens.len(), options));
        let worst = self.ended.last().and_then(|sequence| sequence.score);
        let full = self.ended.len() == options.num_beams;
        if let (true, Some(best), Some(worst)) = (full, best, worst)
            && best <= worst
        {
            self.beams.clear();
        }
    }

    /// Puts a sequence among those that have ended, and forgets the worst one when there are too many.
    fn end(&mut self, beam: Beam, finish: FinishReason, options: &GenerationOptions) {
        let score = score(beam.sum, beam.tokens.len(), options);
        let better = |held: &GeneratedSequence| held.score.is_some_and(|held| held >= score);
        let at = self.ended.partition_point(better);
        let sequence = GeneratedSequence {
            row: self.row,
            tokens: beam.tokens,
            log_probabilities: beam.log_probabilities,
            score: Some(score),
            finish,
        };
        self.ended.insert(at, sequence);
        self.ended.truncate(options.num_beams);
    }
}

/// What sequences are ranked by.
fn score(sum: f64, length: usize, options: &GenerationOptions) -> f64 {
    sum / (length.max(1) as f64).powf(options.length_penalty)
}

/// The `count` most probable tokens of a row and their log-probabilities under the filters; of equal ones the lower number
/// first. Forbidden tokens are left out.
fn ranked(
    row: LogitRow<'_>,
    seen: &[i64],
    beam: &Beam,
    filters: &Filters,
    count: usize,
    wide: &mut Vec<f64>,
) -> Result<Vec<(usize, f64)>, Useless> {
    row.widen(wide)?;
    filters.apply(wide, seen, beam.tokens.len(), &beam.history);
    let whole = log_sum(wide, largest(wide)?);
    let order = |a: &usize, b: &usize| wide[*b].total_cmp(&wide[*a]).then(a.cmp(b));
    let mut tokens: Vec<usize> = (0..wide.len()).collect();
    if count < tokens.len() && count > 0 {
        tokens.select_nth_unstable_by(count - 1, order);
        tokens.truncate(count);
    }
    tokens.sort_unstable_by(order);
    let found = tokens.into_iter().map(|token| (token, wide[token] - whole));
    Ok(found.filter(|(_, log)| *log > f64::NEG_INFINITY).collect())
}
