//! Memory of refeed: element types, strided tensors and views, append-only blocks and their leases.
//!
//! A leaf crate: it knows no Python, no protobuf and no graph. The rules in one page:
//!
//! * An [`Allocation`] is raw bytes with their provenance. A [`Buffer`] is a counted, immutable handle to one.
//!   A [`Tensor`] is a dtype, a strided layout and a buffer; cloning one shares the payload.
//! * Nothing is written through a handle. New memory is written through a [`TensorMut`], which is unique until it is
//!   frozen, or through an append reservation (`append`), which owns rows that no handle can see.
//! * Kernels read through [`View`]s, which make references per dense run only.
//! * Foreign memory (NumPy, DLPack, mapped files) is adopted without a copy and never written.
//! * Sizes are computed by [`Extent`] alone, with checked arithmetic.

#![warn(missing_docs)]

mod allocation;
pub mod append;
mod arena;
mod buffer;
pub mod completion;
mod dtype;
pub mod encoded;
mod extent;
pub mod layout;
pub mod life_cycle;
pub mod mapped;
pub mod paged_cache;
mod pool;
mod runtime_value;
pub mod sequence;
mod slabs;
mod string_tensor;
mod struct_value;
mod sync;
mod tensor;
#[cfg(feature = "testing")]
pub mod testing;
mod view;

pub use allocation::{ALIGNMENT, AllocError, Allocation, Allocator, Provenance};
pub use append::{AppendError, AppendPolicy, AppendReuse, PersistentTensor};
pub use arena::RawBufferAllocator;
pub use buffer::Buffer;
pub use dtype::{DType, Element};
pub use encoded::EncodedValue;
pub use extent::{Extent, ExtentError, MAX_RANK};
pub use layout::{Dims, Layout, Strides};
pub use pool::Pool;
pub use runtime_value::{MAX_DEPTH, RuntimeValue, ValueError};
pub use sequence::{RuntimeSequence, SequenceMemo};
pub use slabs::Slabs;
pub use string_tensor::StringTensor;
pub use struct_value::StructValue;
pub use tensor::{Tensor, TensorError, TensorMut};
pub use view::{Lane, Lanes, View};
