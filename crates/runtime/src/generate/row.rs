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
    /// Leading columns that initial values of the model stand for: they count, but nobody knows their tokens.
    pub(super) base: usize,
}

impl Row {
    /// Adds a token. Its position is one more than the last one's, whether that counts or not.
    pub(super) fn push(&mut self, token: i64, seen: bool) {
        let next = self
            .positions
            .last()
            .map_or(0, |last| last.saturating_add(1));
        self.tokens.push(token);
        self.mask.push(seen);
        self.positions.push(next);
        self.visible += usize::from(seen);
    }

    /// Adds padding in front of a prompt.
    pub(super) fn pad(&mut self, token: i64, count: usize) {
        for _ in 0..count {
            self.tokens.push(token);
            self.mask.push(false);
            self.positions.push(0);
        }
    }

    /// Adds the tokens of a prompt behind padding: the first one has position 0.
    pub(super) fn begin(&mut self, tokens: &[i64]) {
        for (position, token) in tokens.iter().enumerate() {
            self.tokens.push(*token);
            self.mask.push(true);
            self.positions.push(position as i64);
            self.visible += 1;
        }
    }

    /// Keeps the first `columns` columns.
    pub(super) fn truncate(&mut self, columns: usize) {
        self.tokens.truncate(columns);
        self.mask.truncate(columns);
        self.positions.truncate(columns);
        self.visible = self.mask.iter().filter(|seen| **seen).count();
    }

    /// The same row behind `base` columns that the model has seen before.
    pub(super) fn behind(self, base: usize) -> Row {
        if base == 0 {
            return self;
        }
        let shift = i64::try_from(base).unwrap_or(i64::MAX);
        let columns = self.mask.iter().zip(&self.positions);
        let shifted = columns.map(|(seen, position)| match seen {
            true => position.saturating_add(shift),
            false => 0,
        });
        Row {
            number: self.number,
            positions: (0..shift).chain(shifted).collect(),
            tokens: [vec![0; base], self.tokens].concat(),
            mask: [vec![true; base], self.mask].concat(),
            visible: self.visible + base,
            base,
        }
    }

    /// The known tokens that count, of a row whose padding all lies in front.
    pub(super) fn seen(&self) -> &[i64] {
        &self.tokens[self.tokens.len() - (self.visible - self.base)..]
    }

    /// The known tokens that count, wherever padding lies.
    pub(super) fn visible_tokens(&self) -> Vec<i64> {
        let columns = self.tokens.iter().zip(&self.mask).skip(self.base);
        columns
            .filter(|(_, seen)| **seen)
            .map(|(token, _)| *token)
            .collect()
    }
}
