//! Going back to fewer tokens, and generators that go their own ways.

use super::{Generator, Mark};
use crate::generate::decoder::Decoder;
use crate::generate::error::GenerationError;
use crate::generate::row::Row;
use std::sync::Arc;

impl Generator {
    /// Goes back to where turn `turn` began: as it was before that [`Generator::append`].
    ///
    /// Values that grow are cut; the others go back to what was kept when the turn began. Nothing is copied now: the next
    /// append of a value that somebody else still sees copies it once.
    ///
    /// # Errors
    /// When there is no such turn, or the state is busy.
    pub fn rewind(&mut self, turn: usize) -> Result<(), GenerationError> {
        self.settle()?;
        let Some(mark) = self.marks.get(turn).cloned() else {
            let reason = format!("expected one of {} turns, got {turn}", self.marks.len());
            return Err(GenerationError::turn("rewind", reason));
        };
        if turn == 0 {
            self.reset();
            return Ok(());
        }
        let decoder = self.decoder_of("rewind")?;
        match mark.seen {
            Some(moment) => decoder.return_to(mark.columns, &moment)?,
            None => self.cut(mark.columns)?,
        }
        self.marks.truncate(turn);
        Ok(())
    }

    /// Keeps the first `length` tokens of the one row that there is.
    ///
    /// Values that cannot be cut go back to the last moment that was kept, and what lies between is evaluated again by the
    /// next call.
    ///
    /// # Errors
    /// When there are more rows than one or fewer tokens, or the state is busy.
    pub fn truncate(&mut self, length: usize) -> Result<(), GenerationError> {
        const WHAT: &str = "truncate";
        let held = self.length();
        if length > held {
            let reason = format!("expected at most the {held} tokens that there are, got {length}");
            return Err(GenerationError::turn(WHAT, reason));
        }
        let count = self.decoder.as_ref().map_or(1, Decoder::count);
        if count != 1 && (1..held).contains(&length) {
            let reason = format!("expected one row, got {count}");
            return Err(GenerationError::turn(WHAT, reason));
        }
        self.settle()?;
        if length == self.length() {
            return Ok(());
        }
        if length == 0 {
            self.reset();
            return Ok(());
        }
        let decoder = self.decoder_of(WHAT)?;
        let columns = length + decoder.base();
        self.cut(columns)?;
        self.marks.retain(|mark| mark.columns < columns);
        Ok(())
    }

    /// Keeps `columns` columns. At least the last one is evaluated again, for its logits.
    fn cut(&mut self, columns: usize) -> Result<(), GenerationError> {
        let marks = &self.marks;
        let decoder = self.decoder.as_mut();
        let Some(decoder) = decoder else {
            return Ok(());
        };
        let keep = columns.saturating_sub(1).min(decoder.fed());
        if keep > decoder.base() && decoder.cut_state(keep)? {
            decoder.keep_columns(columns, keep);
            return Ok(());
        }
        let moments = marks.iter().rev().filter_map(|mark| mark.seen.as_ref());
        let mut moments = moments.into_iter();
        if let Some(moment) = moments.find(|moment| moment.fed <= keep) {
            return decoder.return_to(columns, moment);
        }
        if decoder.fed() > decoder.base() {
            let (engine, base) = self.engine(1)?;
            if let Some(decoder) = &mut self.decoder {
                decoder.replace_engine(engine);
                decoder.keep_columns(columns, base);
            }
        } else {
            decoder.keep_columns(columns, decoder.fed());
        }
        Ok(())
    }

    /// Forgets all tokens.
    pub fn reset(&mut self) {
        self.current = None;
        self.decoder = None;
        self.marks.clear();
    }

    /// A second generator that goes its own way from here. Handles are shared, nothing is copied now; the first one of the
    /// two to add a token does so in place, the other one copies its values once (paged caches share their pages).
    ///
    /// # Errors
    /// When the state is busy.
    pub fn fork(&mut self) -> Result<Generator, GenerationError> {
        self.settle()?;
        Ok(Generator {
            session: Arc::clone(&self.session),
            settings: self.settings.clone(),
            roles: self.roles.clone(),
            fixed: self.fixed.clone(),
            later: self.later.clone(),
            batch: self.batch.clone(),
            decoder: self.decoder.as_ref().map(Decoder::fork).transpose()?,
            marks: self.marks.clone(),
            current: None,
        })
    }

    /// A second generator with one row of this one, which is row 0 there and draws the random numbers that it drew here. The row's part of the state is copied; a row that has ended and was let
    /// go is evaluated again by the next call.
    ///
    /// # Errors
    /// When there is no such row, rows of the state cannot be chosen, or the state is busy.
    pub fn fork_row(&mut self, row: usize) -> Result<Generator, GenerationError> {
        const WHAT: &str = "fork";
        let none = |count: usize| {
            GenerationError::turn(WHAT, format!("expected one of {count} rows, got {row}"))
        };
        if let Some(decoder) = &self.decoder
            && !decoder.all_rows().any(|held| held.number == row)
        {
            return Err(none(decoder.count()));
        }
        let mut forked = self.fork()?;
        let decoder = forked.decoder.as_mut().ok_or_else(|| none(0))?;
        let (count, base) = (decoder.count(), decoder.base());
        let held = decoder.rows.iter().position(|held| held.number == row);
        // Where the row was filled, or the model would take its padding for tokens, it is evaluated without.
        let plain = |at: &usize| {
            let rows = decoder.rows.get(*at..=*at).unwrap_or_default();
            !rows.iter().any(Row::ends_in_padding) && decoder.roles.check_padding(rows).is_ok()
        };
        let held = held.filter(plain);
        match held {
            Some(_) if count == 1 => return Ok(forked),
            Some(at) => {
                decoder.reorder(&[at], WHAT)?;
                decoder.forget_gone();
            }
            None => {
                let gone = decoder.all_rows().find(|held| held.number == row);
                let gone = gone.ok_or_else(|| none(count))?;
                let (tokens, stream) = (gone.visible_tokens(), gone.stream);
                let mut fresh = forked.fresh(&[(0, &tokens)])?;
                fresh.rows.iter_mut().for_each(|row| row.stream = stream);
                forked.decoder = Some(fresh);
            }
        }
        for row in forked
            .decoder
            .iter_mut()
            .flat_map(|decoder| &mut decoder.rows)
        {
            row.number = 0;
            row.ended = false;
        }
        forked.marks = vec![Mark {
            columns: base,
            seen: None,
        }];
        Ok(forked)
    }
}
