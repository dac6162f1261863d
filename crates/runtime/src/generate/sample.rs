//! Drawing a token: temperature, top-k, top-p, min-p.

use super::exponential::exp;
use super::options::GenerationOptions;

/// How many candidates are ranked first when nothing says how many there are.
const FIRST: usize = 64;

/// What restricts a draw.
#[derive(Debug, Clone, Copy)]
pub(super) struct Restrictions {
    temperature: f64,
    top_k: Option<usize>,
    top_p: Option<f64>,
    min_p: Option<f64>,
}

impl Restrictions {
    pub(super) fn of(options: &GenerationOptions) -> Restrictions {
        Restrictions {
            temperature: options.temperature,
            top_k: options.top_k,
            top_p: options.top_p.filter(|p| *p < 1.0),
            min_p: options.min_p.filter(|p| *p > 0.0),
        }
    }
}

/// Memory of draws, used again.
#[derive(Debug, Default)]
pub(super) struct Sampler {
    weights: Vec<f64>,
    ranked: Vec<u32>,
}

/// More probable tokens come first, and of equal ones the lower number.
fn rank(weights: &[f64], a: u32, b: u32) -> std::cmp::Ordering {
    let of = |id: u32| weights[id as usize];
    of(b).total_cmp(&of(a)).then(a.cmp(&b))
}

/// The first place at which the running sum exceeds `u` times the whole.
fn place(weights: impl Iterator<Item = f64> + Clone, u: f64) -> usize {
    let total: f64 = weights.clone().sum();
    let target = u * total;
    let (mut sum, mut last) = (0.0, 0);
    for (at, weight) in weights.enumerate() {
        sum += weight;
        if weight > 0.0 {
            if sum > target {
                return at;
            }
            last = at;
        }
    }
    // The product may round up to the whole sum.
    last
}

impl Sampler {
    /// Draws a token from `softmax(logits / temperature)` under the restrictions; `u` in [0, 1) decides. `most` is the
    /// largest logit, which is finite.
    pub(super) fn draw(&mut self, logits: &[f64], most: f64, how: &Restrictions, u: f64) -> usize {
        self.weights.clear();
        let scaled = logits.iter().map(|x| exp((x - most) / how.temperature));
        self.weights.extend(scaled);
        if how.top_k.is_none() && how.top_p.is_none() && how.min_p.is_none() {
            return place(self.weights.iter().copied(), u);
        }
        self.restrict(how);
        let weights = &self.weights;
        let at = place(self.ranked.iter().map(|id| weights[*id as usize]), u);
        self.ranked.get(at).map_or(0, |id| *id as usize)
    }

    /// Leaves the tokens in `ranked` that a draw may give, most probable first.
    fn restrict(&mut self, how: &Restrictions) {
        let vocabulary = self.weights.len();
        let mut count = how.top_k.map_or(vocabulary, |k| k.min(vocabulary));
        if let Some(p) = how.top_p {
            count = self.nucleus(p, count);
        } else if how.top_k.is_some() {
            self.rank_first(count);
        } else {
            // Only the ratio to the most probable token counts, which needs no order.
            self.ranked.clear();
            self.ranked.extend(0..vocabulary as u32);
        }
        self.ranked.truncate(count);
        if let Some(p) = how.min_p {
            // The most probable token has weight 1.
            let weights = &self.weights;
            self.ranked.retain(|id| weights[*id as usize] >= p);
        }
    }

    /// Ranks the `count` most probable tokens.
    fn rank_first(&mut self, count: usize) {
        let weights = &self.weights;
        let order = |a: &u32, b: &u32| rank(weights, *a, *b);
        self.ranked.clear();
        self.ranked.extend(0..weights.len() as u32);
        if count < self.ranked.len() && count > 0 {
            self.ranked.select_nth_unstable_by(count - 1, order);
            self.ranked.truncate(count);
        }
        self.ranked.sort_unstable_by(order);
    }

    /// Ranks as many of the `count` most probable tokens as together have the share `p` of their weight; returns how many.
    /// A sharp distribution has few of them, so not all are put in order.
    fn nucleus(&mut self, p: f64, count: usize) -> usize {
        let limited = count < self.weights.len();
        if limited {
            self.rank_first(count);
        }
        let whole: f64 = match limited {
            true => self
                .ranked
                .iter()
                .map(|id| self.weights[*id as usize])
                .sum(),
            false => self.weights.iter().sum(),
        };
        let mut tried = if limited { count } else { FIRST.min(count) };
        loop {
            if !limited {
                self.rank_first(tried);
            }
            let mut sum = 0.0;
            for (at, id) in self.ranked.iter().enumerate() {
                sum += self.weights[*id as usize];
                if sum >= p * whole {
                    return at + 1;
                }
            }
            if tried == count {
                return count;
            }
            tried = tried.saturating_mul(8).min(count);
        }
    }
}
