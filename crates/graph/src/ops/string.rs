//! Text: joining, splitting, matching, normalising, counting.

use super::rules::{broadcast, expect_dtype, refused};
use super::{ONE, TWO, op};
use crate::attributes::AttributeError;
use crate::schema::{Attr, InferError, Inference, OpSchema};
use crate::types::Dim;
use refeed_values::DType;

fn concat(cx: &mut Inference<'_>) -> Result<(), InferError> {
    expect_dtype(cx, 0, &[DType::String])?;
    expect_dtype(cx, 1, &[DType::String])?;
    broadcast(cx)
}

fn full_match(cx: &mut Inference<'_>) -> Result<(), InferError> {
    expect_dtype(cx, 0, &[DType::String])?;
    let shape = cx.shape(0).map(<[Dim]>::to_vec);
    cx.set(0, Some(DType::Bool), shape);
    Ok(())
}

/// The parts of each text, filled up to the greatest count, and the counts.
fn split(cx: &mut Inference<'_>) -> Result<(), InferError> {
    expect_dtype(cx, 0, &[DType::String])?;
    let counts = cx.shape(0).map(<[Dim]>::to_vec);
    let parts = cx.shape(0).map(|shape| {
        let mut parts = shape.to_vec();
        parts.push(Dim::Unknown);
        parts
    });
    cx.set(0, Some(DType::String), parts);
    cx.set(1, Some(DType::Int64), counts);
    Ok(())
}

/// A list of words, or one row of them; stop words are dropped.
fn normalizer(cx: &mut Inference<'_>) -> Result<(), InferError> {
    expect_dtype(cx, 0, &[DType::String])?;
    let drops = cx
        .attributes
        .strings("stopwords")?
        .is_some_and(|words| !words.is_empty());
    let kept = |words: &Dim| match words {
        // An empty result is given as one empty word.
        words if !drops && *words != Dim::Known(0) => words.clone(),
        _ => Dim::Unknown,
    };
    let shape = match cx.shape(0) {
        None => None,
        Some([words]) => Some(vec![kept(words)]),
        Some([Dim::Known(1) | Dim::Symbol(_) | Dim::Unknown, words]) => {
            Some(vec![Dim::Known(1), kept(words)])
        }
        Some(other) => {
            let shape: Vec<String> = other.iter().map(Dim::to_string).collect();
            return refused(format!(
                "input 0: expected a shape of [n] or [1, n], got [{}]",
                shape.join(", ")
            ));
        }
    };
    cx.set(0, Some(DType::String), shape);
    Ok(())
}

/// Counts of groups of words, at the places that `ngram_indexes` gives them.
fn tf_idf(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let missing = AttributeError::Missing {
        name: "ngram_indexes",
    };
    let places = cx.attributes.ints("ngram_indexes")?.ok_or(missing)?;
    let last = places.iter().copied().max().unwrap_or(-1);
    let count = last
        .checked_add(1)
        .filter(|_| places.iter().all(|&place| place >= 0))
        .and_then(|count| usize::try_from(count).ok());
    let Some(count) = count else {
        return Err(AttributeError::Value {
            name: "ngram_indexes",
            expected: "numbers of at least 0",
            got: format!("{places:?}"),
        }
        .into());
    };
    let shape = match cx.shape(0) {
        None => None,
        Some([_]) => Some(vec![Dim::Known(count)]),
        Some([batch, _]) => Some(vec![batch.clone(), Dim::Known(count)]),
        Some(other) => {
            let got = other.len();
            return refused(format!("input 0: expected 1 or 2 axes, got {got}"));
        }
    };
    cx.set(0, Some(DType::Float), shape);
    Ok(())
}

pub(super) const SCHEMAS: &[OpSchema] = &[
    op("StringConcat", &[20], TWO, concat),
    op("StringSplit", &[20], ONE, split)
        .outputs(TWO)
        .attributes(&[Attr::string("delimiter"), Attr::int("maxsplit")]),
    op("RegexFullMatch", &[20], ONE, full_match).attributes(&[Attr::string("pattern")]),
    op("StringNormalizer", &[10], ONE, normalizer).attributes(&[
        Attr::string("case_change_action"),
        Attr::int("is_case_sensitive"),
        Attr::string("locale"),
        Attr::strings("stopwords"),
    ]),
    op("TfIdfVectorizer", &[9], ONE, tf_idf).attributes(&[
        Attr::int("max_gram_length").required(),
        Attr::int("max_skip_count").required(),
        Attr::int("min_gram_length").required(),
        Attr::string("mode").required(),
        Attr::ints("ngram_counts").required(),
        Attr::ints("ngram_indexes").required(),
        Attr::ints("pool_int64s"),
        Attr::strings("pool_strings"),
        Attr::floats("weights"),
    ]),
];
