//! Bytes that others made: whatever decodes is read or refused, and what is read comes back as it was.

use super::*;
use refeed_proto::paged_cache_block_proto::{KeyPayload, ValuePayload};
use refeed_proto::{Message, PagedCacheBlockProto, PagedCacheProto};
use refeed_values::encoded::Plan;
use refeed_values::{Allocator, paged_cache};

/// A generator of numbers, the same in every run.
struct Lehmer(u64);

impl Lehmer {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(0xDA94_2042_E4DD_58B5).wrapping_add(1);
        (self.0 >> 33) as usize % limit
    }
}

/// A few bytes changed, doubled or left out.
fn mutated(wire: &[u8], random: &mut Lehmer) -> Vec<u8> {
    let mut out = wire.to_vec();
    for _ in 0..=random.below(3) {
        let at = random.below(out.len());
        match random.below(4) {
            0 => drop(out.remove(at)),
            1 => out.insert(at, out[at]),
            2 => out[at] ^= 1 << random.below(8),
            _ => out[at] = random.below(256) as u8,
        }
        if out.is_empty() {
            break;
        }
    }
    out
}

fn seeds() -> Vec<EncodedValueProto> {
    let mut blocked = affine(DType::Uint4, "2 3", &[0x21, 0x43, 0x05]);
    layout_mut(&mut blocked).axis = Some(1);
    layout_mut(&mut blocked).block_size = Some(2);
    layout_mut(&mut blocked).scale = Some(floats("", &[2, 2], &[0.5, 1.0, 2.0, 4.0]));
    blocked.raw_data = raw(&[0x21, 0x43, 0x65]);
    let plan = Plan::affine(DType::Int4, 6, 4).unwrap();
    let plan = plan.with_permutation().with_outliers(1).unwrap();
    let storage = plan.storage_type().unwrap();
    let len = storage.record_bytes().unwrap() as usize;
    let mut payload = vec![0u8; len];
    // The positions of the permutation, then scales of 1.
    (0..6).for_each(|at| payload[1 + 8 * at] = 5 - at as u8);
    let block = 1 + 6 * 8 + 16;
    payload[block..block + 8].copy_from_slice(&1f64.to_le_bytes());
    payload[block + 26..block + 34].copy_from_slice(&1f64.to_le_bytes());
    let mut whole = structured(struct_type_to_proto(&storage).unwrap(), &payload);
    whole.logical_type = Some(tensor_type(FLOAT, "6"));
    vec![
        affine(DType::Int8, "3", &[1, 2, 0xFF]),
        blocked,
        structured(array_of(tensor_type(2, "1"), 3), &[1, 2, 3]),
        whole,
    ]
}

#[test]
fn changed_encoded_values_are_read_or_refused() {
    let mut random = Lehmer(7);
    let none = Catalogues::default();
    let (mut read, mut refused) = (0, 0);
    for seed in seeds() {
        let value = encoded_from_proto(&seed, &none).unwrap();
        if value.logical().is_some() {
            value.decode(&Allocator::default()).unwrap();
        }
        let wire = seed.encode_to_vec();
        for _ in 0..4000 {
            let changed = Bytes::from(mutated(&wire, &mut random));
            let Ok(proto) = EncodedValueProto::decode(changed) else {
                continue;
            };
            match encoded_from_proto(&proto, &none) {
                Err(error) => {
                    assert!(!error.to_string().is_empty());
                    refused += 1;
                }
                Ok(value) => {
                    let again = encoded_to_proto(&value).unwrap();
                    // By bytes, since a NaN is not equal to itself.
                    assert_eq!(again.encode_to_vec(), proto.encode_to_vec());
                    // Decoding may be refused, for a scale of infinity for example.
                    let _outcome = value.decode(&Allocator::with_limit(1 << 20));
                    read += 1;
                }
            }
        }
    }
    assert!(
        read > 400 && refused > 200,
        "{read} read, {refused} refused"
    );
}

#[test]
fn changed_caches_are_read_or_refused() {
    let dense = |dims: &[i64]| floats("", dims, &vec![0.5; dims.iter().product::<i64>() as usize]);
    let block = |start, key, value| PagedCacheBlockProto {
        start: Some(start),
        length: Some(1),
        key_payload: Some(key),
        value_payload: Some(value),
    };
    let seed = PagedCacheProto {
        blocks: vec![
            block(
                0,
                KeyPayload::Key(dense(&[1, 2, 1, 3])),
                ValuePayload::Value(dense(&[1, 2, 1, 2])),
            ),
            block(
                1,
                KeyPayload::EncodedKey(affine(DType::Int4, "1 2 2 3", &[0x11; 6])),
                ValuePayload::EncodedValue(affine(DType::Int8, "1 2 2 2", &[3; 8])),
            ),
        ],
        ..PagedCacheProto::default()
    };
    let wire = seed.encode_to_vec();
    let none = Catalogues::default();
    let mut random = Lehmer(11);
    let (mut read, mut refused) = (0, 0);
    for _ in 0..8000 {
        let changed = Bytes::from(mutated(&wire, &mut random));
        let Ok(proto) = PagedCacheProto::decode(changed) else {
            continue;
        };
        match from_paged_cache(&proto, &none) {
            Err(error) => {
                assert!(!error.to_string().is_empty());
                refused += 1;
            }
            Ok(cache) => {
                // What passes on the way in passes on the way out.
                paged_cache::check(&cache).unwrap();
                let again = to_paged_cache(&cache, "").unwrap();
                assert_eq!(again.blocks.len(), proto.blocks.len());
                read += 1;
            }
        }
    }
    assert!(
        read > 200 && refused > 200,
        "{read} read, {refused} refused"
    );
}
