//! Classical machine learning: features, labels and linear models. Trees and maps stand in files of their own.

use super::rules::{extent, merge, ranked_from, refused};
use super::{MANY, ONE, TWO, op};
use crate::attributes::{AttributeError, Attributes};
use crate::schema::{Attr, InferError, Inference, OpSchema};
use crate::types::Dim;
use refeed_values::DType;

pub(super) const DOMAIN: &str = "ai.onnx.ml";

/// Rows of a batch: a shape of one axis is one row.
pub(super) fn rows(cx: &Inference<'_>) -> Result<Dim, InferError> {
    Ok(match ranked_from(cx, 0, 1)? {
        Some([_]) => Dim::Known(1),
        Some(shape) => shape[0].clone(),
        None => Dim::Unknown,
    })
}

/// A float for each element.
fn floats(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let shape = cx.shape(0).map(<[Dim]>::to_vec);
    cx.set(0, Some(DType::Float), shape);
    Ok(())
}

fn same(cx: &mut Inference<'_>) -> Result<(), InferError> {
    cx.same_as_input();
    Ok(())
}

/// Elements of the last axis, at the places that input 1 lists.
fn array_feature_extractor(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let count = cx.shape(1).map_or(Dim::Unknown, Dim::product);
    let shape = ranked_from(cx, 0, 1)?.map(|x| {
        let mut out = x.to_vec();
        // One row alone becomes a batch of one.
        if out.len() == 1 {
            out.insert(0, Dim::Known(1));
        }
        out.pop();
        out.push(count);
        out
    });
    cx.set(0, cx.dtype(0), shape);
    Ok(())
}

/// Numbers for texts, or texts for numbers.
fn swapped(cx: &Inference<'_>) -> Option<DType> {
    match cx.dtype(0) {
        Some(DType::String) => Some(DType::Int64),
        Some(DType::Int64) => Some(DType::String),
        _ => None,
    }
}

fn category_mapper(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let shape = cx.shape(0).map(<[Dim]>::to_vec);
    cx.set(0, swapped(cx), shape);
    Ok(())
}

/// The type of what a label becomes.
fn label_encoder(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let attributes = cx.attributes;
    let dtype = if cx.opset < 2 {
        swapped(cx)
    } else if let Some(tensor) = attributes.tensor("values_tensor")? {
        tensor.data_type.and_then(DType::from_onnx)
    } else if attributes.strings("values_strings")?.is_some() {
        Some(DType::String)
    } else if attributes.ints("values_int64s")?.is_some() {
        Some(DType::Int64)
    } else if attributes.floats("values_floats")?.is_some() {
        Some(DType::Float)
    } else {
        return Err(AttributeError::Missing {
            name: "values_tensor",
        }
        .into());
    };
    let shape = cx.shape(0).map(<[Dim]>::to_vec);
    cx.set(0, dtype, shape);
    Ok(())
}

/// The number of categories or classes in one of two lists, and the type of their names.
pub(super) fn classes(
    attributes: &Attributes<'_>,
    ints: &'static str,
    strings: &'static str,
) -> Result<Option<(DType, usize)>, InferError> {
    let numbers = attributes.ints(ints)?.unwrap_or_default().len();
    let texts = attributes.strings(strings)?.unwrap_or_default().len();
    match (numbers, texts) {
        (0, 0) => Ok(None),
        (n, 0) => Ok(Some((DType::Int64, n))),
        (0, n) => Ok(Some((DType::String, n))),
        _ => Err(AttributeError::Value {
            name: ints,
            expected: "one list of names, of numbers or of texts",
            got: "both".to_string(),
        }
        .into()),
    }
}

/// A further axis of ones and zeros.
fn one_hot_encoder(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let Some((_, count)) = classes(cx.attributes, "cats_int64s", "cats_strings")? else {
        return Err(AttributeError::Missing {
            name: "cats_int64s",
        }
        .into());
    };
    let shape = cx.shape(0).map(|x| {
        let mut out = x.to_vec();
        out.push(Dim::Known(count));
        out
    });
    cx.set(0, Some(DType::Float), shape);
    Ok(())
}

/// Inputs side by side.
fn feature_vectorizer(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let widths = cx.attributes.ints("inputdimensions")?;
    if let Some(widths) = widths
        && widths.len() != cx.input_count()
    {
        let (got, want) = (widths.len(), cx.input_count());
        return refused(format!(
            "inputdimensions: expected {want} numbers, got {got}"
        ));
    }
    let (mut batch, mut total) = (Dim::Unknown, Dim::Known(0));
    for index in 0..cx.input_count() {
        let mut width = extent(widths.map(|widths| widths[index]), "inputdimensions")?;
        match cx.shape(index) {
            None => {}
            Some([own]) => {
                batch = merge(&batch, &Dim::Known(1), "the batch size")?;
                width = merge(&width, own, "the width of an input")?;
            }
            Some([own_batch, own]) => {
                batch = merge(&batch, own_batch, "the batch size")?;
                width = merge(&width, own, "the width of an input")?;
            }
            Some(other) => {
                let got = other.len();
                return refused(format!("input {index}: expected 1 or 2 axes, got {got}"));
            }
        }
        total = total.plus(&width);
    }
    cx.set(0, Some(DType::Float), Some(vec![batch, total]));
    Ok(())
}

/// The class of each row, and a score for each class.
pub(super) fn classifier(
    cx: &mut Inference<'_>,
    ints: &'static str,
    scores: Dim,
) -> Result<(), InferError> {
    let names = classes(cx.attributes, ints, "classlabels_strings")?;
    let rows = rows(cx)?;
    // Without names the classes are numbered.
    let label = names.map_or(DType::Int64, |(dtype, _)| dtype);
    cx.set(0, Some(label), Some(vec![rows.clone()]));
    cx.set(1, Some(DType::Float), Some(vec![rows, scores]));
    Ok(())
}

/// A score for each intercept; one of them for two classes tells how likely the second is.
fn linear_classifier(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let names = classes(cx.attributes, "classlabels_ints", "classlabels_strings")?;
    let intercepts = cx.attributes.floats("intercepts")?.unwrap_or_default();
    let scores = match (names, intercepts.len()) {
        (_, 0) => Dim::Unknown,
        (Some((_, 2)), 1) => Dim::Known(2),
        (_, count) => Dim::Known(count),
    };
    classifier(cx, "classlabels_ints", scores)
}

/// How many scores there are depends on the kind of the machine.
fn svm_classifier(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let count = classes(cx.attributes, "classlabels_ints", "classlabels_strings")?;
    let probable = cx
        .attributes
        .floats("prob_a")?
        .is_some_and(|a| !a.is_empty());
    let scores = match count {
        Some((_, count)) if probable => Dim::Known(count),
        _ => Dim::Unknown,
    };
    classifier(cx, "classlabels_ints", scores)
}

/// `targets` numbers for each row.
fn linear_regressor(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let targets = extent(Some(cx.attributes.int_or("targets", 1)?), "targets")?;
    let rows = rows(cx)?;
    cx.set(0, Some(DType::Float), Some(vec![rows, targets]));
    Ok(())
}

fn svm_regressor(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let rows = rows(cx)?;
    cx.set(0, Some(DType::Float), Some(vec![rows, Dim::Known(1)]));
    Ok(())
}

pub(super) const SCHEMAS: &[OpSchema] = &[
    op("ArrayFeatureExtractor", &[1], TWO, array_feature_extractor).of(DOMAIN),
    op("Binarizer", &[1], ONE, same)
        .of(DOMAIN)
        .attributes(&[Attr::float("threshold")]),
    op("Imputer", &[1], ONE, same).of(DOMAIN).attributes(&[
        Attr::floats("imputed_value_floats"),
        Attr::ints("imputed_value_int64s"),
        Attr::float("replaced_value_float"),
        Attr::int("replaced_value_int64"),
    ]),
    op("Normalizer", &[1], ONE, floats)
        .of(DOMAIN)
        .attributes(&[Attr::string("norm")]),
    op("Scaler", &[1], ONE, floats)
        .of(DOMAIN)
        .attributes(&[Attr::floats("offset"), Attr::floats("scale")]),
    op("CategoryMapper", &[1], ONE, category_mapper)
        .of(DOMAIN)
        .attributes(&[
            Attr::ints("cats_int64s"),
            Attr::strings("cats_strings"),
            Attr::int("default_int64"),
            Attr::string("default_string"),
        ]),
    op("LabelEncoder", &[1, 2, 4], ONE, label_encoder)
        .of(DOMAIN)
        .attributes(&[
            Attr::strings("classes_strings"),
            Attr::float("default_float"),
            Attr::int("default_int64"),
            Attr::string("default_string"),
            Attr::tensor("default_tensor"),
            Attr::floats("keys_floats"),
            Attr::ints("keys_int64s"),
            Attr::strings("keys_strings"),
            Attr::tensor("keys_tensor"),
            Attr::floats("values_floats"),
            Attr::ints("values_int64s"),
            Attr::strings("values_strings"),
            Attr::tensor("values_tensor"),
        ]),
    op("OneHotEncoder", &[1], ONE, one_hot_encoder)
        .of(DOMAIN)
        .attributes(&[
            Attr::ints("cats_int64s"),
            Attr::strings("cats_strings"),
            Attr::int("zeros"),
        ]),
    op("FeatureVectorizer", &[1], MANY, feature_vectorizer)
        .of(DOMAIN)
        .attributes(&[Attr::ints("inputdimensions")]),
    op("LinearClassifier", &[1], ONE, linear_classifier)
        .of(DOMAIN)
        .outputs(TWO)
        .attributes(&[
            Attr::ints("classlabels_ints"),
            Attr::strings("classlabels_strings"),
            Attr::floats("coefficients").required(),
            Attr::floats("intercepts"),
            Attr::int("multi_class"),
            Attr::string("post_transform"),
        ]),
    op("LinearRegressor", &[1], ONE, linear_regressor)
        .of(DOMAIN)
        .attributes(&[
            Attr::floats("coefficients"),
            Attr::floats("intercepts"),
            Attr::string("post_transform"),
            Attr::int("targets"),
        ]),
    op("SVMClassifier", &[1], ONE, svm_classifier)
        .of(DOMAIN)
        .outputs(TWO)
        .attributes(&[
            Attr::ints("classlabels_ints"),
            Attr::strings("classlabels_strings"),
            Attr::floats("coefficients"),
            Attr::floats("kernel_params"),
            Attr::string("kernel_type"),
            Attr::string("post_transform"),
            Attr::floats("prob_a"),
            Attr::floats("prob_b"),
            Attr::floats("rho"),
            Attr::floats("support_vectors"),
            Attr::ints("vectors_per_class"),
        ]),
    op("SVMRegressor", &[1], ONE, svm_regressor)
        .of(DOMAIN)
        .attributes(&[
            Attr::floats("coefficients"),
            Attr::floats("kernel_params"),
            Attr::string("kernel_type"),
            Attr::int("n_supports"),
            Attr::int("one_class"),
            Attr::string("post_transform"),
            Attr::floats("rho"),
            Attr::floats("support_vectors"),
        ]),
];
