//! What a session found out about the attention that a graph writes out in single nodes.

use crate::error::NodePath;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// One place where a graph computes `softmax(scale · q·kᵀ + mask) · v` in single nodes.
#[derive(Debug, Clone)]
pub struct AttentionForm {
    /// The product of weights and values, whose output the whole computes.
    pub node: NodePath,
    /// Nodes that the attention kernel stands for, those that only compute shapes included; 0 when the nodes run as they
    /// are written.
    pub nodes: usize,
    /// Why the nodes run as they are written; `None` when the attention kernel runs.
    pub obstacle: Option<Arc<str>>,
    pub(crate) calls: Arc<Calls>,
}

impl AttentionForm {
    /// Calls so far in which the nodes ran as they are written although the attention kernel stands for them, and why the
    /// last of them did.
    pub fn declined(&self) -> Option<(u64, &'static str)> {
        let why = Declined::ALL.get(usize::from(self.calls.last.load(Ordering::Relaxed)))?;
        Some((self.calls.count.load(Ordering::Relaxed), why.text()))
    }
}

impl fmt::Display for AttentionForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.obstacle {
            Some(obstacle) => write!(f, "attention at {}: as written: {obstacle}", self.node),
            None => write!(
                f,
                "attention at {}: one kernel for {} nodes",
                self.node, self.nodes
            ),
        }?;
        match self.declined() {
            Some((1, why)) => write!(f, "; as written in 1 call: {why}"),
            Some((calls, why)) => write!(
                f,
                "; as written in {calls} calls, in the last because {why}"
            ),
            None => Ok(()),
        }
    }
}

/// Why the nodes of a recognised attention run as they are written in one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Declined {
    Values,
    Type,
    Shapes,
    Mask,
    Factor,
    Fill,
    Digits,
    Rounding,
    NotFinite,
    Unseen,
}

impl Declined {
    const ALL: [Declined; 10] = [
        Declined::Values,
        Declined::Type,
        Declined::Shapes,
        Declined::Mask,
        Declined::Factor,
        Declined::Fill,
        Declined::Digits,
        Declined::Rounding,
        Declined::NotFinite,
        Declined::Unseen,
    ];

    fn text(self) -> &'static str {
        match self {
            Declined::Values => "an operand is no dense tensor",
            Declined::Type => "the operands are not of one floating-point type",
            Declined::Shapes => "the shapes of the call are not those of an attention",
            Declined::Mask => "the mask does not fit the scores",
            Declined::Factor => "a factor of the scores is not one number",
            Declined::Fill => {
                "what stands in for masked scores is not low enough to leave nothing of them"
            }
            Declined::Digits => "the mask has digits that the type of the keys does not have",
            Declined::Rounding => {
                "all that a query sees lies behind a mask beside which 16 bits round scores away"
            }
            Declined::NotFinite => "the result is not finite everywhere",
            Declined::Unseen => "a query sees no key",
        }
    }
}

/// Calls in which the nodes ran as written.
#[derive(Debug)]
pub(crate) struct Calls {
    count: AtomicU64,
    last: AtomicU8,
}

impl Default for Calls {
    fn default() -> Calls {
        Calls {
            count: AtomicU64::new(0),
            last: AtomicU8::new(u8::MAX),
        }
    }
}

impl Calls {
    pub(crate) fn note(&self, why: Declined) {
        let place = Declined::ALL.iter().position(|&one| one == why);
        self.count.fetch_add(1, Ordering::Relaxed);
        self.last
            .store(place.map_or(u8::MAX, |at| at as u8), Ordering::Relaxed);
    }
}
