//! Codes are not multiplied as bytes on this architecture.

use super::few::Run;
use super::paged::QueryPrecision;
use super::rows::By;
use crate::Isa;
use refeed_values::DType;

/// Rows of a tile.
pub(super) const KEYS: usize = 16;

/// There are none.
pub(super) enum DigitQueries {}

impl DigitQueries {
    pub(super) fn of(
        _: Isa,
        _: &[f32],
        _: usize,
        _: [usize; 3],
        _: usize,
        _: QueryPrecision,
    ) -> Option<Self> {
        None
    }

    pub(super) fn sums(&self, _: usize) -> &[f32] {
        match *self {}
    }

    pub(super) fn scores(
        &self,
        _: usize,
        _: DType,
        _: (&[Run<'_, u8>], usize),
        _: &mut [f32],
    ) -> bool {
        match *self {}
    }
}

/// There are none.
#[derive(Clone, Copy)]
pub(super) enum ByteRows {}

impl ByteRows {
    pub(super) fn of(_: Isa, _: DType, _: QueryPrecision) -> Option<ByteRows> {
        None
    }

    pub(super) fn add(
        self,
        _: (&[Run<'_, u8>], usize),
        _: (&[f32], usize),
        _: By<'_>,
        _: (&mut [f32], usize),
    ) -> bool {
        match self {}
    }
}
