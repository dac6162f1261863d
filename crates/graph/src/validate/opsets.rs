//! Imported operator sets.

use super::Rules;
use crate::error::ModelError;
use crate::path::Path;
use crate::place;
use refeed_proto::{ModelProto, OperatorSetIdProto};
use std::collections::BTreeMap;

/// Versions by domain; `ai.onnx` is the domain `""`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Opsets {
    versions: BTreeMap<String, i64>,
}

impl Opsets {
    /// The imports of a model. Before IR version 3 there were none, and version 1 of the ONNX operators was meant.
    pub(crate) fn of_model(model: &ModelProto, rules: Rules) -> Result<Opsets, ModelError> {
        let imports = &model.opset_import;
        match model.ir_version {
            Some(..3) if imports.is_empty() => Ok(Opsets::from_versions([(String::new(), 1)])),
            Some(version @ ..3) if rules.is_checker() => {
                let at = Path::MODEL.field("opset_import");
                Err(at.refused(
                    format!("none before IR version 3, as the model's is {version}"),
                    imports.len().to_string(),
                ))
            }
            _ => Opsets::new(&Path::MODEL, imports),
        }
    }

    /// Reads a list of imports: at least one, each domain once, each version at least 1.
    pub(crate) fn new(at: &Path<'_>, imports: &[OperatorSetIdProto]) -> Result<Opsets, ModelError> {
        if imports.is_empty() {
            return Err(ModelError::NoOpset {
                at: at.field("opset_import").to_string(),
            });
        }
        let mut versions = BTreeMap::new();
        for (index, import) in imports.iter().enumerate() {
            let at = at.item("opset_import", index);
            let domain = place::domain(import.domain());
            check_version(import, &at)?;
            if versions
                .insert(domain.to_string(), import.version())
                .is_some()
            {
                return Err(ModelError::DuplicateOpset {
                    at: at.to_string(),
                    domain: place::shown_domain(domain),
                });
            }
        }
        Ok(Opsets { versions })
    }

    /// Given versions, by domain.
    pub(crate) fn from_versions(versions: impl IntoIterator<Item = (String, i64)>) -> Opsets {
        let versions = versions
            .into_iter()
            .map(|(domain, version)| (place::domain(&domain).to_string(), version))
            .collect();
        Opsets { versions }
    }

    /// Adds a domain that is not imported yet.
    pub(crate) fn add(&mut self, domain: &str, version: i64) {
        let domain = place::domain(domain).to_string();
        self.versions.entry(domain).or_insert(version);
    }

    /// The version of a domain.
    pub(crate) fn get(&self, domain: &str) -> Option<i64> {
        self.versions.get(place::domain(domain)).copied()
    }

    /// All imports, by domain.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, i64)> {
        self.versions
            .iter()
            .map(|(domain, &version)| (domain.as_str(), version))
    }

    /// The first imported domains, for messages.
    pub(crate) fn shown(&self) -> String {
        const MOST: usize = 8;
        let mut domains: Vec<String> = self
            .versions
            .keys()
            .take(MOST)
            .map(|domain| place::shown_domain(domain))
            .collect();
        if self.versions.len() > MOST {
            domains.push("...".to_string());
        }
        domains.join(", ")
    }
}

/// Versions count from 1.
fn check_version(import: &OperatorSetIdProto, at: &Path<'_>) -> Result<(), ModelError> {
    let got = import.version();
    if (1..=i64::from(i32::MAX)).contains(&got) {
        return Ok(());
    }
    Err(ModelError::OpsetVersion {
        at: at.to_string(),
        domain: place::shown_domain(import.domain()),
        got,
    })
}
