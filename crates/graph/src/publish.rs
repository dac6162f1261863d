//! What happens to a bound output when a call succeeds, and how the graph says so.

use crate::bindings::BindingUses;
use crate::error::{BindingError, UnknownPolicy};
use refeed_proto::StringStringEntryProto;
use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;

/// Prefix of every metadata key that is ours.
pub const KEY_PREFIX: &str = "refeed.";
/// Metadata key of the use policy.
pub const USES_KEY: &str = "refeed.binding_uses";
/// Prefix of the metadata keys of publication policies; the bound input's name follows.
pub const PUBLISH_PREFIX: &str = "refeed.publish:";

/// When a bound output becomes the next value of its input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Publish {
    /// After every successful call.
    #[default]
    Always,
    /// After the first successful call since construction or reset; then the value is kept. For caches that a merged
    /// encoder-decoder computes once and returns empty afterwards.
    Once,
    /// After every successful call whose output is there and has no zero outer extent; otherwise the value is kept.
    IfPresent,
}

impl Publish {
    /// The text in metadata and in Python.
    pub const fn as_str(self) -> &'static str {
        match self {
            Publish::Always => "always",
            Publish::Once => "once",
            Publish::IfPresent => "if_present",
        }
    }
}

impl fmt::Display for Publish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Publish {
    type Err = UnknownPolicy;
    fn from_str(text: &str) -> Result<Publish, UnknownPolicy> {
        match text {
            "always" => Ok(Publish::Always),
            "once" => Ok(Publish::Once),
            "if_present" => Ok(Publish::IfPresent),
            _ => Err(UnknownPolicy {
                expected: "`always`, `once` or `if_present`",
                got: text.to_string(),
            }),
        }
    }
}

/// What the metadata of a root graph says about bindings.
#[derive(Debug, Default)]
pub(crate) struct Policies<'a> {
    pub(crate) uses: BindingUses,
    pub(crate) publish: HashMap<&'a str, Publish>,
}

/// Reads the `refeed.` keys of a root graph and of its model, which may hold them in place of the graph.
pub(crate) fn read<'a>(
    entries: impl Iterator<Item = &'a StringStringEntryProto>,
) -> Result<Policies<'a>, BindingError> {
    let mut policies = Policies::default();
    let mut uses_seen = false;
    for entry in entries {
        let key = entry.key();
        if !key.starts_with(KEY_PREFIX) {
            continue;
        }
        let value = entry.value();
        let unknown = |expected| BindingError::UnknownValue {
            key: key.to_string(),
            expected,
            got: value.to_string(),
        };
        let twice = || BindingError::DuplicateKey {
            key: key.to_string(),
        };
        if key == USES_KEY {
            if value != BindingUses::Any.as_str() {
                return Err(unknown("`any`"));
            }
            if std::mem::replace(&mut uses_seen, true) {
                return Err(twice());
            }
            policies.uses = BindingUses::Any;
        } else if let Some(input) = key.strip_prefix(PUBLISH_PREFIX) {
            let publish = match value {
                "once" => Publish::Once,
                "if_present" => Publish::IfPresent,
                _ => return Err(unknown("`once` or `if_present`")),
            };
            if policies.publish.insert(input, publish).is_some() {
                return Err(twice());
            }
        } else {
            return Err(BindingError::UnknownKey {
                key: key.to_string(),
            });
        }
    }
    Ok(policies)
}

/// Replaces the `refeed.` keys of a list by the given policies, leaving the other keys and their order alone.
pub(crate) fn write<'a>(
    entries: &mut Vec<StringStringEntryProto>,
    uses: BindingUses,
    publish: impl Iterator<Item = (&'a str, Publish)>,
) {
    entries.retain(|entry| !entry.key().starts_with(KEY_PREFIX));
    let mut add = |key: String, value: &str| {
        entries.push(StringStringEntryProto {
            key: Some(key),
            value: Some(value.to_string()),
        });
    };
    if uses == BindingUses::Any {
        add(USES_KEY.to_string(), uses.as_str());
    }
    for (input, publish) in publish {
        if publish != Publish::Always {
            add(format!("{PUBLISH_PREFIX}{input}"), publish.as_str());
        }
    }
}
