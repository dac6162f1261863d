//! Operators on the bits of integers.

use super::rules::{broadcast, same};
use super::{ONE, TWO, op};
use crate::schema::{Attr, OpSchema};

pub(super) const SCHEMAS: &[OpSchema] = &[
    op("BitShift", &[11, 28], TWO, broadcast).attributes(&[Attr::string("direction").required()]),
    op("BitwiseAnd", &[18], TWO, broadcast),
    op("BitwiseOr", &[18], TWO, broadcast),
    op("BitwiseXor", &[18], TWO, broadcast),
    op("BitwiseNot", &[18], ONE, same),
];
