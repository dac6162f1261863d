//! Numbers of refeed: SIMD, matrix products, attention, rotary embedding, norms, softmax, over strided views.
//!
//! # How a kernel is built
//! Algorithms are written once, generic over the small vector trait [`simd::Simd`]. An instruction set is a zero-sized
//! token that only detection makes, so that holding one proves that the CPU has it; `arch` implements the trait for
//! each. [`Isa`] names one at run time, and dispatch happens once a row, tile or task, never once a vector.
//!
//! # Inlining
//! Everything below a dispatch is `#[inline(always)]`: a function that stays a call is compiled for the baseline CPU,
//! passes vectors through memory and is an order of magnitude slower, and no test fails.
//!
//! # Threads
//! Work is cut into tasks by the problem alone, never by the number of threads, and every sum has a fixed order: the
//! same inputs give the same bits for any number of threads on one instruction set.
//!
//! # What is not read
//! Kernels read through [`refeed_values::View`]s and load no element that cannot matter: a key that no query may see
//! is never touched (see [`attention`]).

#![warn(missing_docs)]

mod arch;
pub mod attention;
pub mod cast;
mod compute;
pub mod constant;
pub mod conv;
pub mod elementwise;
mod error;
pub mod gather;
pub mod gemm;
mod isa;
pub mod linear_attention;
pub mod logic;
pub mod matmul;
pub mod movement;
pub mod norm;
pub mod pool;
pub mod quantize;
pub mod recurrent;
pub mod reduce;
pub mod reference;
pub mod rotary;
mod scratch;
pub mod simd;
pub mod softmax;
mod storage;
pub mod vecmath;

pub use compute::Compute;
pub use error::KernelError;
pub use isa::{ISA_VARIABLE, Isa, IsaError};
pub use pool::ThreadPool;
pub use storage::{Accumulator, Real};
