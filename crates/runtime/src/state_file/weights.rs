//! Which weights a model has: a number that differs, in practice, where the weights do.
//!
//! Names, types, extents and sizes of all initializers count in full, their bytes by samples: hashing whole weights would
//! cost more than a small state's file. Weights that were trained, rounded or quantised otherwise differ everywhere, so
//! three samples of each tensor tell them apart; an edit of one number between the samples is not seen.

use super::checksum::Checksum;
use refeed_graph::{Model, ModelError};
use refeed_proto::TensorProto;

/// Bytes of a sample.
const SAMPLE: usize = 64;

impl Checksum {
    fn number(&mut self, number: usize) {
        self.add(&(number as u64).to_le_bytes());
    }

    fn text(&mut self, text: &str) {
        self.number(text.len());
        self.add(text.as_bytes());
    }

    /// The length, and the bytes at the front, in the middle and at the end.
    fn sample(&mut self, bytes: &[u8]) {
        self.number(bytes.len());
        if bytes.len() <= 3 * SAMPLE {
            self.add(bytes);
            return;
        }
        let middle = bytes.len() / 2;
        for start in [0, middle, bytes.len() - SAMPLE] {
            self.add(&bytes[start..start + SAMPLE]);
        }
    }

    fn tensor(&mut self, model: &Model, tensor: &TensorProto) -> Result<(), ModelError> {
        self.text(tensor.name());
        self.number(tensor.data_type() as usize);
        self.number(tensor.dims.len());
        for dim in &tensor.dims {
            self.add(&dim.to_le_bytes());
        }
        if tensor.string_data.is_empty() {
            let held = model.initializer(tensor)?;
            self.sample(held.as_bytes().unwrap_or_default());
        }
        for text in &tensor.string_data {
            self.sample(text);
        }
        Ok(())
    }
}

/// The number of a model's weights.
///
/// # Errors
/// When a tensor cannot be read.
pub(super) fn identity(model: &Model) -> Result<u64, ModelError> {
    let graph = model.graph();
    let mut sum = Checksum::new();
    sum.number(graph.initializer.len());
    for tensor in &graph.initializer {
        sum.tensor(model, tensor)?;
    }
    sum.number(graph.encoded_initializer.len());
    for value in &graph.encoded_initializer {
        sum.text(value.name());
        sum.sample(value.raw_data());
    }
    sum.number(graph.paged_cache_initializer.len());
    for cache in &graph.paged_cache_initializer {
        sum.text(cache.name());
        sum.number(cache.blocks.len());
    }
    Ok(sum.value())
}

#[cfg(test)]
mod tests {
    use super::*;
    use refeed_graph::LoadOptions;
    use refeed_proto::{Bytes, GraphProto, ModelProto, OperatorSetIdProto};

    fn weight(name: &str, bytes: Vec<u8>) -> TensorProto {
        TensorProto {
            name: Some(name.to_string()),
            data_type: Some(2),
            dims: vec![bytes.len() as i64],
            raw_data: Some(Bytes::from(bytes)),
            ..TensorProto::default()
        }
    }

    fn of(initializer: Vec<TensorProto>) -> u64 {
        let proto = ModelProto {
            ir_version: Some(10),
            opset_import: vec![OperatorSetIdProto {
                version: Some(20),
                ..Default::default()
            }],
            graph: Some(GraphProto {
                name: Some("graph".to_string()),
                initializer,
                ..Default::default()
            }),
            ..Default::default()
        };
        identity(&Model::from_proto(proto, &LoadOptions::default()).unwrap()).unwrap()
    }

    #[test]
    fn other_weights_have_another_number() {
        let plain = |size: usize| weight("w", vec![7; size]);
        let changed = |size: usize, at: usize| {
            let mut bytes = vec![7; size];
            bytes[at] = 8;
            weight("w", bytes)
        };
        let base = of(vec![plain(1000)]);
        assert_eq!(base, of(vec![plain(1000)]));
        let typed = |number: f32| TensorProto {
            name: Some("w".to_string()),
            data_type: Some(1),
            dims: vec![1],
            float_data: vec![number],
            ..TensorProto::default()
        };
        let mut seen = vec![
            base,
            of(Vec::new()),
            of(vec![plain(1001)]),
            of(vec![plain(1000), weight("v", vec![1])]),
            of(vec![weight("v", vec![7; 1000])]),
            of(vec![changed(1000, 0)]),
            of(vec![changed(1000, 510)]),
            of(vec![changed(1000, 999)]),
            // Small ones count in full.
            of(vec![plain(192)]),
            of(vec![changed(192, 100)]),
            of(vec![plain(0)]),
            of(vec![typed(1.0)]),
            of(vec![typed(-1.0)]),
        ];
        // What lies between the samples is not looked at.
        assert_eq!(base, of(vec![changed(1000, 200)]));
        let count = seen.len();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), count);
    }
}
