//! The operators of the official sets, version by version: what the checker holds nodes to.
//!
//! A schema of [`crate::ops`] speaks for all versions of an operator that it covers, because a model of any of them must
//! load. The checker asks for what the one imported version has. Its table is `operators/onnx-1.23.txt`, written from the
//! schemas of the `onnx` package; `tests/python/operator_signatures.py` writes it and says how it reads.

use super::{Checker, Opsets};
use crate::error::{FieldError, ModelError};
use crate::load::shown;
use crate::path::Path;
use crate::place;
use refeed_proto::NodeProto;
use refeed_proto::attribute_proto::AttributeType;
use std::collections::HashMap;
use std::sync::LazyLock;

const TABLE: &str = include_str!("operators/onnx-1.23.txt");

/// Domains that have no operator but those of the table; others may have operators that nobody here knows.
const CLOSED: [&str; 3] = ["", "ai.onnx.ml", "ai.onnx.training"];

/// Operators that early versions had for trial. They have no schema, and pass.
const EXPERIMENTAL: [&str; 11] = [
    "ATen",
    "Affine",
    "ConstantFill",
    "Crop",
    "DynamicSlice",
    "GRUUnit",
    "GivenTensorFill",
    "ImageScaler",
    "ParametricSoftplus",
    "Scale",
    "ScaledTanh",
];

/// Inputs or outputs of one version of an operator.
#[derive(Debug, Clone, Copy)]
struct Parameters {
    least: usize,
    most: usize,
    /// One letter a parameter: S, O or V.
    options: &'static [u8],
}

/// One version of an operator.
#[derive(Debug, Clone, Copy)]
pub(super) struct Signature {
    pub(super) since: i64,
    deprecated: bool,
    inputs: Parameters,
    outputs: Parameters,
    /// Entries `name:TYPE`, with `!` after those that must be there.
    attributes: &'static str,
}

type Table = HashMap<(&'static str, &'static str), Vec<Signature>>;

static SIGNATURES: LazyLock<Table> = LazyLock::new(|| {
    let mut table = Table::new();
    for line in TABLE.lines() {
        if let Some((key, signature)) = read_line(line) {
            table.entry(key).or_default().push(signature);
        }
    }
    table
});

fn read_line(line: &'static str) -> Option<((&'static str, &'static str), Signature)> {
    let mut fields = line.splitn(7, ' ');
    let domain = place::domain(fields.next()?);
    let op_type = fields.next()?;
    let since = fields.next()?.parse().ok()?;
    let deprecated = fields.next()? == "D";
    let signature = Signature {
        since,
        deprecated,
        inputs: read_parameters(fields.next()?)?,
        outputs: read_parameters(fields.next()?)?,
        attributes: fields.next().unwrap_or_default(),
    };
    Some(((domain, op_type), signature))
}

fn read_parameters(text: &'static str) -> Option<Parameters> {
    let (range, options) = text.split_once(':')?;
    let (least, most) = range.split_once('-')?;
    Some(Parameters {
        least: least.parse().ok()?,
        most: match most {
            "*" => usize::MAX,
            most => most.parse().ok()?,
        },
        options: options.as_bytes(),
    })
}

impl Signature {
    /// Whether an input must be there and named.
    pub(super) fn requires_input(&self, index: usize) -> bool {
        self.inputs.options.get(index) == Some(&b'S')
    }

    /// Attributes with their types, and whether they must be there.
    fn attributes(&self) -> impl Iterator<Item = (&'static str, &'static str, bool)> {
        self.attributes
            .split_ascii_whitespace()
            .filter_map(|entry| {
                let (name, kind) = entry.rsplit_once(':')?;
                match kind.strip_suffix('!') {
                    Some(kind) => Some((name, kind, true)),
                    None => Some((name, kind, false)),
                }
            })
    }
}

/// The signature of an operator in a version of its set.
pub(super) fn signature(domain: &str, op_type: &str, version: i64) -> Option<Signature> {
    let versions = SIGNATURES.get(&(place::domain(domain), op_type))?;
    let mut newest_first = versions.iter().rev();
    newest_first.find(|held| held.since <= version).copied()
}

/// Checks a node that calls no function of the model.
pub(super) fn check(
    node: &NodeProto,
    at: &Path<'_>,
    opsets: &Opsets,
    options: Checker,
) -> Result<(), ModelError> {
    let domain = place::domain(node.domain());
    let Some(version) = opsets.get(domain) else {
        return Ok(());
    };
    if domain.is_empty() && EXPERIMENTAL.contains(&node.op_type()) {
        return Ok(());
    }
    let Some(signature) = signature(domain, node.op_type(), version) else {
        return check_is_known(node, version, at, options);
    };
    check_deprecated(node, &signature, version, at)?;
    check_parameters("input", "inputs", &node.input, signature.inputs, at)?;
    check_parameters("output", "outputs", &node.output, signature.outputs, at)?;
    check_attributes(node, &signature, version, at)?;
    check_required(node, &signature, version, at)?;
    Ok(())
}

fn operator(node: &NodeProto, version: i64) -> String {
    let domain = place::shown_domain(node.domain());
    format!("{domain}::{} of version {version}", shown(node.op_type()))
}

/// Operators of the official sets are in them; the caller may ask the same of all others.
fn check_is_known(
    node: &NodeProto,
    version: i64,
    at: &Path<'_>,
    options: Checker,
) -> Result<(), ModelError> {
    let domain = place::domain(node.domain());
    let foreign = crate::ops::schema(domain, node.op_type()).is_some() && !CLOSED.contains(&domain);
    if foreign || !(options.custom_domains || CLOSED.contains(&domain)) {
        return Ok(());
    }
    let domain = place::shown_domain(domain);
    Err(at.field("op_type").refused(
        format!("an operator of {domain} of version {version}"),
        format!("`{}`", shown(node.op_type())),
    ))
}

/// The operator is not given up in the imported version.
fn check_deprecated(
    node: &NodeProto,
    signature: &Signature,
    version: i64,
    at: &Path<'_>,
) -> Result<(), FieldError> {
    if !signature.deprecated {
        return Ok(());
    }
    Err(at.field("op_type").fault(
        "an operator that is not deprecated",
        format!(
            "{}, deprecated since {}",
            operator(node, version),
            signature.since
        ),
    ))
}

/// As many inputs or outputs as the version has, and none left out that must be there.
fn check_parameters(
    field: &'static str,
    role: &'static str,
    names: &[String],
    parameters: Parameters,
    at: &Path<'_>,
) -> Result<(), ModelError> {
    let got = names.len();
    if got < parameters.least || got > parameters.most {
        let expected = match (parameters.least, parameters.most) {
            (least, most) if least == most => least.to_string(),
            (least, usize::MAX) => format!("at least {least}"),
            (least, most) => format!("{least} to {most}"),
        };
        return Err(ModelError::Arity {
            at: at.to_string(),
            role,
            expected,
            got,
        });
    }
    for (index, (name, option)) in names.iter().zip(parameters.options).enumerate() {
        if name.is_empty() && *option == b'S' {
            return Err(at.item(field, index).refused("a name", "an empty one"));
        }
    }
    Ok(())
}

/// Every attribute is one of the version's, and of its type. Names that start with two underscores are nobody's.
fn check_attributes(
    node: &NodeProto,
    signature: &Signature,
    version: i64,
    at: &Path<'_>,
) -> Result<(), FieldError> {
    for attribute in &node.attribute {
        let name = attribute.name();
        let at = at.key("attribute", name);
        match signature.attributes().find(|(held, _, _)| *held == name) {
            Some((_, expected, _)) => {
                let kind = AttributeType::try_from(attribute.r#type.unwrap_or(0));
                let got = kind.map_or("an unknown type", |kind| kind.as_str_name());
                if got != expected {
                    return Err(at.field("type").fault(expected, got));
                }
            }
            None if name.starts_with("__") => {}
            None => {
                let names: Vec<&str> = signature.attributes().map(|(name, _, _)| name).collect();
                let expected = match names.as_slice() {
                    [] => format!("no attribute, as {} has none", operator(node, version)),
                    names => format!(
                        "an attribute of {}: {}",
                        operator(node, version),
                        names.join(", ")
                    ),
                };
                return Err(at.fault(expected, format!("`{}`", shown(name))));
            }
        }
    }
    Ok(())
}

/// Attributes that must be there are.
fn check_required(
    node: &NodeProto,
    signature: &Signature,
    version: i64,
    at: &Path<'_>,
) -> Result<(), FieldError> {
    for (name, kind, required) in signature.attributes() {
        if required && node.attribute_named(name).is_none() {
            return Err(at.key("attribute", name).fault(
                format!("{kind}, which {} asks for", operator(node, version)),
                "none",
            ));
        }
    }
    Ok(())
}

/// A function that imports another version of a set than the model means the same operator by the node.
pub(super) fn check_same_version(
    node: &NodeProto,
    function: i64,
    model: i64,
    at: &Path<'_>,
) -> Result<(), FieldError> {
    let of = |version| signature(node.domain(), node.op_type(), version).map(|held| held.since);
    let (ours, theirs) = (of(function), of(model));
    if function == model || ours == theirs {
        return Ok(());
    }
    let text = |since: Option<i64>, set: i64, whose: &str| match since {
        Some(since) => format!("version {since}, as in {whose} operator set {set}"),
        None => format!("none, as in {whose} operator set {set}"),
    };
    Err(at.field("op_type").fault(
        text(theirs, model, "the model's"),
        text(ours, function, "the function's"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_read() {
        let read: usize = SIGNATURES.values().map(Vec::len).sum();
        assert_eq!(read, TABLE.lines().count());
        for ((domain, op_type), versions) in SIGNATURES.iter() {
            assert!(
                versions.is_sorted_by_key(|held| held.since),
                "{domain} {op_type}"
            );
            for held in versions {
                let entries = held.attributes.split_ascii_whitespace().count();
                assert_eq!(held.attributes().count(), entries, "{op_type}");
                for (_, kind, _) in held.attributes() {
                    assert!(
                        AttributeType::from_str_name(kind).is_some(),
                        "{op_type} {kind}"
                    );
                }
            }
        }
    }

    #[test]
    fn the_newest_version_that_is_not_newer_than_the_import_counts() {
        let since = |version| signature("", "Softmax", version).map(|held| held.since);
        assert_eq!(since(1), Some(1));
        assert_eq!(since(10), Some(1));
        assert_eq!(since(11), Some(11));
        assert_eq!(since(12), Some(11));
        assert_eq!(since(13), Some(13));
        assert_eq!(since(99), Some(13));
        assert!(signature("", "LayerNormalization", 16).is_none());
        assert!(signature("ai.onnx", "Add", 14).is_some());
        assert!(signature("mine", "Add", 14).is_none());
    }
}
