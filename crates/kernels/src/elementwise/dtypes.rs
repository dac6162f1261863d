//! From an element type known at run time to a function compiled for it.

/// `typed!(set, dtype, f as F)` is `Some(f::<T>)`, a function of type `F`, for the Rust type `T` of `dtype`, or `None` outside the set.
macro_rules! typed {
    (@ $dtype:expr, $f:ident as $out:ty, $($d:ident $t:ty),*) => {
        match $dtype {
            $(refeed_values::DType::$d => Some($f::<$t> as $out),)*
            _ => None,
        }
    };
    (floats, $dtype:expr, $f:ident as $out:ty) => {
        $crate::elementwise::typed!(@ $dtype, $f as $out,
            Float f32, Double f64, Float16 half::f16, Bfloat16 half::bf16)
    };
    (signed, $dtype:expr, $f:ident as $out:ty) => {
        $crate::elementwise::typed!(@ $dtype, $f as $out,
            Float f32, Double f64, Float16 half::f16, Bfloat16 half::bf16,
            Int8 i8, Int16 i16, Int32 i32, Int64 i64)
    };
    (numbers, $dtype:expr, $f:ident as $out:ty) => {
        $crate::elementwise::typed!(@ $dtype, $f as $out,
            Float f32, Double f64, Float16 half::f16, Bfloat16 half::bf16,
            Int8 i8, Int16 i16, Int32 i32, Int64 i64,
            Uint8 u8, Uint16 u16, Uint32 u32, Uint64 u64)
    };
    (all, $dtype:expr, $f:ident as $out:ty) => {
        $crate::elementwise::typed!(@ $dtype, $f as $out,
            Float f32, Double f64, Float16 half::f16, Bfloat16 half::bf16,
            Int8 i8, Int16 i16, Int32 i32, Int64 i64,
            Uint8 u8, Uint16 u16, Uint32 u32, Uint64 u64, Bool u8)
    };
}
pub(crate) use typed;
