//! Types of all values of a model, computed from those of its inputs.

mod dim_expr;
mod values;

pub use dim_expr::DimExpr;
pub(crate) use dim_expr::same_text;
pub use values::{ShapeValue, VALUE_LIMIT};
