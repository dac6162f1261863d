//! What is known of a part of a sequence: the extents that symbols have in it, and how its pages follow each other.

use refeed_values::paged_cache::PageRun;
use std::sync::Arc;

/// The extents of one symbol in some values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bound {
    pub(super) symbol: usize,
    pub(super) least: usize,
    pub(super) most: usize,
}

impl Bound {
    /// Whether the symbol is this number everywhere.
    pub(super) fn is(&self, extent: usize) -> bool {
        self.least == extent && self.most == extent
    }
}

/// Extents by symbol, in the order of the symbols.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Bounds(Vec<Bound>);

impl Bounds {
    /// Notes one extent.
    pub(super) fn add(&mut self, next: Bound) {
        match self
            .0
            .binary_search_by_key(&next.symbol, |bound| bound.symbol)
        {
            Ok(at) => {
                let known = &mut self.0[at];
                known.least = known.least.min(next.least);
                known.most = known.most.max(next.most);
            }
            Err(at) => self.0.insert(at, next),
        }
    }

    pub(super) fn get(&self, symbol: usize) -> Option<&Bound> {
        let at = self.0.binary_search_by_key(&symbol, |bound| bound.symbol);
        at.ok().map(|at| &self.0[at])
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Bound> {
        self.0.iter()
    }
}

/// What a memo keeps of a part of a sequence that fits its declaration.
#[derive(Debug, Clone, Default)]
pub(super) struct Facts {
    /// Nothing when no dimension in the part is symbolic. Most parts of a sequence share one.
    bounds: Option<Arc<Bounds>>,
    /// The pages, when the sequence is that of a cache.
    pub(super) run: Option<PageRun>,
}

impl Facts {
    pub(super) fn new(bounds: Bounds, run: Option<PageRun>) -> Facts {
        let bounds = (!bounds.0.is_empty()).then(|| Arc::new(bounds));
        Facts { bounds, run }
    }

    /// Both parts.
    pub(super) fn join(&self, back: &Facts, run: Option<PageRun>) -> Facts {
        let bounds = match (&self.bounds, &back.bounds) {
            (Some(a), Some(b)) if a == b => Some(a.clone()),
            (Some(a), Some(b)) => {
                let mut joined = Bounds::clone(a);
                b.iter().for_each(|&bound| joined.add(bound));
                Some(Arc::new(joined))
            }
            (a, b) => a.as_ref().or(b.as_ref()).cloned(),
        };
        Facts { bounds, run }
    }

    pub(super) fn get(&self, symbol: usize) -> Option<&Bound> {
        self.bounds.as_ref()?.get(symbol)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Bound> {
        self.bounds.iter().flat_map(|bounds| bounds.iter())
    }
}
