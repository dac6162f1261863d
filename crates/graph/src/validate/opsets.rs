//! Imported operator sets.

use crate::error::ModelError;
use crate::place;
use refeed_proto::OperatorSetIdProto;
use std::collections::BTreeMap;

/// Versions by domain; `ai.onnx` is the domain `""`.
#[derive(Debug, Clone, Default)]
pub(crate) struct Opsets {
    versions: BTreeMap<String, i64>,
}

impl Opsets {
    /// Reads a list of imports: at least one, each domain once, each version at least 1.
    pub(crate) fn new(at: &str, imports: &[OperatorSetIdProto]) -> Result<Opsets, ModelError> {
        if imports.is_empty() {
            return Err(ModelError::NoOpset { at: at.to_string() });
        }
        let mut versions = BTreeMap::new();
        for import in imports {
            let domain = place::domain(import.domain());
            let got = import.version();
            if got < 1 {
                return Err(ModelError::OpsetVersion {
                    at: at.to_string(),
                    domain: place::shown_domain(domain),
                    got,
                });
            }
            if versions.insert(domain.to_string(), got).is_some() {
                return Err(ModelError::DuplicateOpset {
                    at: at.to_string(),
                    domain: place::shown_domain(domain),
                });
            }
        }
        Ok(Opsets { versions })
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

    /// All imported domains, for messages.
    pub(crate) fn shown(&self) -> String {
        let domains: Vec<String> = self
            .versions
            .keys()
            .map(|domain| place::shown_domain(domain))
            .collect();
        domains.join(", ")
    }
}
