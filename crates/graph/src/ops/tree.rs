//! Ensembles of decision trees.

use super::ml::{DOMAIN, classes, classifier, rows};
use super::rules::extent;
use super::{ONE, TWO, op};
use crate::schema::{Attr, InferError, Inference, OpSchema};
use crate::types::Dim;
use refeed_values::DType;

/// `n_targets` numbers for each row, of the input's type.
fn ensemble(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let targets = extent(Some(cx.attributes.int_or("n_targets", 1)?), "n_targets")?;
    let rows = rows(cx)?;
    cx.set(0, cx.dtype(0), Some(vec![rows, targets]));
    Ok(())
}

/// `n_targets` floats for each row.
fn regressor(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let targets = match cx.attributes.int("n_targets")? {
        Some(count) => extent(Some(count), "n_targets")?,
        None => Dim::Unknown,
    };
    let rows = rows(cx)?;
    cx.set(0, Some(DType::Float), Some(vec![rows, targets]));
    Ok(())
}

/// The class of each row, and a score for each class.
fn tree_classifier(cx: &mut Inference<'_>) -> Result<(), InferError> {
    let names = classes(cx.attributes, "classlabels_int64s", "classlabels_strings")?;
    let scores = match names {
        Some((_, count)) => Dim::Known(count),
        None => Dim::Unknown,
    };
    classifier(cx, "classlabels_int64s", scores)
}

pub(super) const SCHEMAS: &[OpSchema] = &[
    op("TreeEnsemble", &[5], ONE, ensemble)
        .of(DOMAIN)
        .attributes(&[
            Attr::int("aggregate_function"),
            Attr::ints("leaf_targetids").required(),
            Attr::tensor("leaf_weights").required(),
            Attr::tensor("membership_values"),
            Attr::int("n_targets"),
            Attr::ints("nodes_falseleafs").required(),
            Attr::ints("nodes_falsenodeids").required(),
            Attr::ints("nodes_featureids").required(),
            Attr::tensor("nodes_hitrates"),
            Attr::ints("nodes_missing_value_tracks_true"),
            Attr::tensor("nodes_modes").required(),
            Attr::tensor("nodes_splits").required(),
            Attr::ints("nodes_trueleafs").required(),
            Attr::ints("nodes_truenodeids").required(),
            Attr::int("post_transform"),
            Attr::ints("tree_roots").required(),
        ]),
    op("TreeEnsembleRegressor", &[1, 3, 5], ONE, regressor)
        .of(DOMAIN)
        .attributes(&[
            Attr::string("aggregate_function"),
            Attr::floats("base_values"),
            Attr::tensor("base_values_as_tensor"),
            Attr::int("n_targets"),
            Attr::ints("nodes_falsenodeids"),
            Attr::ints("nodes_featureids"),
            Attr::floats("nodes_hitrates"),
            Attr::tensor("nodes_hitrates_as_tensor"),
            Attr::ints("nodes_missing_value_tracks_true"),
            Attr::strings("nodes_modes"),
            Attr::ints("nodes_nodeids"),
            Attr::ints("nodes_treeids"),
            Attr::ints("nodes_truenodeids"),
            Attr::floats("nodes_values"),
            Attr::tensor("nodes_values_as_tensor"),
            Attr::string("post_transform"),
            Attr::ints("target_ids"),
            Attr::ints("target_nodeids"),
            Attr::ints("target_treeids"),
            Attr::floats("target_weights"),
            Attr::tensor("target_weights_as_tensor"),
        ]),
    op("TreeEnsembleClassifier", &[1, 3, 5], ONE, tree_classifier)
        .of(DOMAIN)
        .outputs(TWO)
        .attributes(&[
            Attr::floats("base_values"),
            Attr::tensor("base_values_as_tensor"),
            Attr::ints("class_ids"),
            Attr::ints("class_nodeids"),
            Attr::ints("class_treeids"),
            Attr::floats("class_weights"),
            Attr::tensor("class_weights_as_tensor"),
            Attr::ints("classlabels_int64s"),
            Attr::strings("classlabels_strings"),
            Attr::ints("nodes_falsenodeids"),
            Attr::ints("nodes_featureids"),
            Attr::floats("nodes_hitrates"),
            Attr::tensor("nodes_hitrates_as_tensor"),
            Attr::ints("nodes_missing_value_tracks_true"),
            Attr::strings("nodes_modes"),
            Attr::ints("nodes_nodeids"),
            Attr::ints("nodes_treeids"),
            Attr::ints("nodes_truenodeids"),
            Attr::floats("nodes_values"),
            Attr::tensor("nodes_values_as_tensor"),
            Attr::string("post_transform"),
        ]),
];
