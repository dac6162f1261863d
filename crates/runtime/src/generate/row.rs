//! One row of a batch, as the model sees it.

/// The columns of one row.
#[derive(Debug, Clone, Default)]
pub(super) struct Row {
    /// The number of the row among those that the generator started with.
    pub(super) number: usize,
    /// Token ids, padding included.
    pub(super) tokens: Vec<i64>,
    /// Whether a token counts.
    pub(super) mask: Vec<bool>,
    pub(super) positions: Vec<i64>,
    /// How many tokens count.
    pub(super) visible: usize,
    /// How many of them stand at the end, without padding between.
    run: usize,
    /// Leading columns that initial values of the model stand for: they count, but nobody knows their tokens.
    base: usize,
}

impl Row {
    /// An empty row.
    pub(super) fn new(number: usize) -> Row {
        Row {
            number,
            ..Row::default()
        }
    }

    fn column(&mut self, token: i64, position: i64, seen: bool) {
        self.tokens.push(token);
        self.mask.push(seen);
        self.positions.push(position);
        self.visible += usize::from(seen);
        self.run = if seen { self.run + 1 } else { 0 };
    }

    /// Adds a token. Its position is one more than the last one's, whether that counts or not.
    pub(super) fn push(&mut self, token: i64, seen: bool) {
        let last = self.positions.last();
        let next = last.map_or(0, |last| last.saturating_add(1));
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
    }

    /// The known tokens at the end, back to the last padding.
    pub(super) fn seen(&self) -> &[i64] {
        let start = (self.tokens.len() - self.run).max(self.base.min(self.tokens.len()));
        &self.tokens[start..]
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
        assert_eq!((row.visible, row.seen()), (5, &[5, 6, 7][..]));
        row.push(9, false);
        row.push(8, true);
        assert_eq!((row.visible, row.seen()), (6, &[8][..]));
        assert_eq!(row.visible_tokens(), [5, 6, 7, 8]);
        assert_eq!(row.positions.last(), Some(&6));
        row.truncate(5);
        assert_eq!((row.visible, row.seen()), (4, &[5, 6][..]));
        row.truncate(2);
        assert_eq!((row.visible, row.seen()), (2, &[][..]));
    }
}
