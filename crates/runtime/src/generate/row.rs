//! One row of a batch, as the model sees it.

use std::borrow::Cow;
use std::collections::TryReserveError;

/// The columns of one row.
#[derive(Debug, Clone, Default)]
pub(super) struct Row {
    /// The number of the row among those that the generator started with.
    pub(super) number: usize,
    /// Which stream of random numbers it draws from: the number that it had before any fork.
    pub(super) stream: usize,
    /// Whether it has ended for good: later calls leave it out.
    pub(super) ended: bool,
    /// Token ids, padding included.
    pub(super) tokens: Vec<i64>,
    /// Whether a token counts.
    pub(super) mask: Vec<bool>,
    pub(super) positions: Vec<i64>,
    /// How many tokens count.
    pub(super) visible: usize,
    /// How many of them stand at the end, without padding between.
    run: usize,
    /// The position behind the last token that counts.
    next: i64,
    /// Leading columns that initial values of the model stand for: they count, but nobody knows their tokens.
    base: usize,
}

impl Row {
    /// An empty row.
    pub(super) fn new(number: usize) -> Row {
        Row {
            number,
            stream: number,
            ..Row::default()
        }
    }

    /// A copy, in memory that may not be there.
    ///
    /// # Errors
    /// When it is not.
    pub(super) fn copy(&self) -> Result<Row, TryReserveError> {
        fn copy<T: Copy>(values: &[T]) -> Result<Vec<T>, TryReserveError> {
            let mut copy = Vec::new();
            copy.try_reserve_exact(values.len())?;
            copy.extend_from_slice(values);
            Ok(copy)
        }
        Ok(Row {
            tokens: copy(&self.tokens)?,
            mask: copy(&self.mask)?,
            positions: copy(&self.positions)?,
            ..*self
        })
    }

    fn column(&mut self, token: i64, position: i64, seen: bool) {
        self.tokens.push(token);
        self.mask.push(seen);
        self.positions.push(position);
        self.visible += usize::from(seen);
        self.run = if seen { self.run + 1 } else { 0 };
        if seen {
            self.next = position.saturating_add(1);
        }
    }

    /// Adds a token. The position of one that counts is one more than that of the last one that does; that of a filler is
    /// one more than that of the column before.
    pub(super) fn push(&mut self, token: i64, seen: bool) {
        let last = self.positions.last().filter(|_| !seen);
        let next = last.map_or(self.next, |last| last.saturating_add(1));
        self.column(token, next, seen);
    }

    /// Adds columns as they are given.
    pub(super) fn extend(&mut self, tokens: &[i64], mask: &[bool], positions: &[i64]) {
        for ((token, seen), position) in tokens.iter().zip(mask).zip(positions) {
            self.column(*token, *position, *seen);
        }
    }

    /// Begins a prompt behind `base` columns that the model has seen before, with padding between.
    pub(super) fn begin(&mut self, base: usize, padding: usize, filler: i64, tokens: &[i64]) {
        self.base = base;
        let known = i64::try_from(base).unwrap_or(i64::MAX);
        (0..known).for_each(|position| self.column(0, position, true));
        (0..padding).for_each(|_| self.column(filler, 0, false));
        for (token, position) in tokens.iter().zip(known..) {
            self.column(*token, position, true);
        }
    }

    /// Keeps the first `columns` columns.
    pub(super) fn truncate(&mut self, columns: usize) {
        self.tokens.truncate(columns);
        self.mask.truncate(columns);
        self.positions.truncate(columns);
        self.visible = self.mask.iter().filter(|seen| **seen).count();
        self.run = self.mask.iter().rev().take_while(|seen| **seen).count();
        let last = self.mask.iter().rposition(|seen| *seen);
        let last = last.and_then(|last| self.positions.get(last));
        self.next = last.map_or(0, |last| last.saturating_add(1));
    }

    /// The row with nothing but the columns that count.
    pub(super) fn without_padding(&self) -> Row {
        let mut row = Row::new(self.number);
        let columns = self.tokens.iter().zip(&self.mask).zip(&self.positions);
        for ((token, seen), position) in columns {
            if *seen {
                row.column(*token, *position, true);
            }
        }
        row
    }

    /// Whether the last column does not count: what a model predicts there is nothing of this row's.
    pub(super) fn ends_in_padding(&self) -> bool {
        self.mask.last() == Some(&false)
    }

    /// Whether columns stand among the tokens, or before them, that do not count.
    pub(super) fn is_padded(&self) -> bool {
        self.visible != self.tokens.len()
    }

    /// The known tokens that count: in place where no padding stands between them.
    pub(super) fn seen(&self) -> Cow<'_, [i64]> {
        let base = self.base.min(self.tokens.len());
        let start = (self.tokens.len() - self.run).max(base);
        let in_place = &self.tokens[start..];
        match in_place.len() == self.visible.saturating_sub(base) {
            true => Cow::Borrowed(in_place),
            false => Cow::Owned(self.visible_tokens()),
        }
    }

    /// The known tokens that count, wherever padding lies.
    pub(super) fn visible_tokens(&self) -> Vec<i64> {
        let columns = self.tokens.iter().zip(&self.mask).skip(self.base);
        let seen = columns.filter(|(_, seen)| **seen);
        seen.map(|(token, _)| *token).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_know_what_counts() {
        let mut row = Row::new(3);
        row.begin(2, 1, 9, &[5, 6]);
        assert_eq!(row.tokens, [0, 0, 9, 5, 6]);
        assert_eq!(row.positions, [0, 1, 0, 2, 3]);
        assert_eq!(row.mask, [true, true, false, true, true]);
        row.push(7, true);
        assert_eq!(
            (row.visible, row.seen()),
            (5, Cow::Borrowed(&[5i64, 6, 7][..]))
        );
        row.push(9, false);
        row.push(8, true);
        assert_eq!(
            (row.visible, row.seen()),
            (6, Cow::Borrowed(&[5i64, 6, 7, 8][..]))
        );
        assert_eq!(row.visible_tokens(), [5, 6, 7, 8]);
        // The filler between them takes no position from the token behind it.
        assert_eq!(row.positions[5..], [4, 5, 5]);
        row.truncate(5);
        assert_eq!(
            (row.visible, row.seen()),
            (4, Cow::Borrowed(&[5i64, 6][..]))
        );
        row.truncate(2);
        assert_eq!((row.visible, row.seen()), (2, Cow::Borrowed(&[][..])));
    }
}
