//! Tensors: immutable strided handles, and the writable form that becomes one.

use crate::allocation::{AllocError, Allocation, Allocator, Provenance};
use crate::buffer::Buffer;
use crate::layout::{Dims, Layout};
use crate::sync::Arc;
use crate::view::View;
use crate::{DType, Element, Extent, ExtentError};
use bytes::Bytes;
use thiserror::Error;

/// Why memory is no tensor of the wanted kind.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum TensorError {
    /// The dimensions have no extent.
    #[error(transparent)]
    Extent(#[from] ExtentError),
    /// Memory could not be had.
    #[error(transparent)]
    Alloc(#[from] AllocError),
    /// Elements are of another type.
    #[error("expected elements readable as {expected}, got {got}")]
    DType {
        /// What was asked for.
        expected: DType,
        /// What the tensor holds.
        got: DType,
    },
    /// The layout reaches outside the memory.
    #[error("{dtype} layout of shape {shape:?} reaches outside its {len} bytes of memory")]
    OutOfBounds {
        /// Element type.
        dtype: DType,
        /// Shape of the layout.
        shape: Vec<usize>,
        /// Bytes of the allocation.
        len: usize,
    },
    /// The memory is not aligned for its type.
    #[error("memory of a {dtype} tensor is not aligned to {align} bytes")]
    Misaligned {
        /// Element type.
        dtype: DType,
        /// Alignment that typed access needs.
        align: usize,
    },
    /// Packed sub-byte elements must be dense.
    #[error("{dtype} elements share bytes and cannot be strided")]
    PackedStrides {
        /// Element type.
        dtype: DType,
    },
    /// A shape does not have the elements of the data.
    #[error("shape {shape:?} does not have {elements} elements")]
    ElementCount {
        /// The shape given.
        shape: Vec<usize>,
        /// Elements there are.
        elements: usize,
    },
}

/// An immutable tensor: dtype, layout, and a counted handle to memory. Cloning shares the payload.
///
/// ```
/// use refeed_values::Tensor;
/// let t = Tensor::from_slice(&[2, 3], &[1f32, 2., 3., 4., 5., 6.]).unwrap();
/// let turned = t.with_layout(t.layout().permute(&[1, 0]).unwrap(), 0).unwrap();
/// assert_eq!(turned.view::<f32>().unwrap().to_vec(), [1., 4., 2., 5., 3., 6.]);
/// assert_eq!(turned.as_ptr(), t.as_ptr());
/// ```
#[derive(Clone, Debug)]
pub struct Tensor {
    dtype: DType,
    layout: Layout,
    /// Byte offset of element zero.
    offset: usize,
    buffer: Buffer,
}

impl Tensor {
    /// Joins memory and a layout; element zero lies `offset` bytes into the buffer.
    ///
    /// # Errors
    /// When the layout reaches outside the buffer (in an append block: outside the rows that the handle may see), its
    /// extent overflows, the type is packed and strided, or STRING.
    pub fn from_parts(
        dtype: DType,
        layout: Layout,
        offset: usize,
        buffer: Buffer,
    ) -> Result<Tensor, TensorError> {
        let extent = Extent::new(dtype, layout.shape())?;
        let outside = || TensorError::OutOfBounds {
            dtype,
            shape: layout.shape().to_vec(),
            len: buffer.len(),
        };
        if extent.elements() == 0 {
            let offset = offset.min(buffer.len());
            return Ok(Tensor {
                dtype,
                layout,
                offset,
                buffer,
            });
        }
        match dtype.size() {
            None => {
                if !layout.is_contiguous() {
                    return Err(TensorError::PackedStrides { dtype });
                }
                let end = offset.checked_add(extent.bytes()).ok_or_else(outside)?;
                if end > buffer.len() {
                    return Err(outside());
                }
            }
            Some(size) => {
                let (low, high) = layout.reach().ok_or_else(outside)?;
                let at = |elements: isize| -> Option<i128> {
                    (elements as i128)
                        .checked_mul(size as i128)?
                        .checked_add(offset as i128)
                };
                let first = at(low).ok_or_else(outside)?;
                let end = at(high).ok_or_else(outside)? + size as i128;
                if first < 0 || end > buffer.len() as i128 {
                    return Err(outside());
                }
            }
        }
        let seen = match (&buffer.allocation().block, buffer.sight()) {
            (None, _) => true,
            (Some(block), Some(sight)) => {
                let geometry = &block.geometry;
                geometry.admits(sight.end, offset, &layout, dtype.size(), extent.bytes())
            }
            (Some(_), None) => false,
        };
        if !seen {
            return Err(outside());
        }
        Ok(Tensor {
            dtype,
            layout,
            offset,
            buffer,
        })
    }

    /// A dense tensor over the whole of a buffer's first bytes.
    ///
    /// # Errors
    /// As [`Tensor::from_parts`].
    pub fn dense(dtype: DType, shape: &[usize], buffer: Buffer) -> Result<Tensor, TensorError> {
        Tensor::from_parts(dtype, Layout::contiguous(shape), 0, buffer)
    }

    /// Copies a slice into new memory.
    ///
    /// # Errors
    /// When the shape does not have the slice's elements or memory cannot be had.
    pub fn from_slice<T: Element>(shape: &[usize], data: &[T]) -> Result<Tensor, TensorError> {
        let mut out = TensorMut::new(&Allocator::default(), T::DTYPE, shape)?;
        let slots = out.as_mut_slice::<T>()?;
        if slots.len() != data.len() {
            return Err(TensorError::ElementCount {
                shape: shape.to_vec(),
                elements: data.len(),
            });
        }
        slots.copy_from_slice(data);
        Ok(out.freeze())
    }

    /// A tensor without axes.
    ///
    /// # Errors
    /// When memory cannot be had.
    pub fn scalar<T: Element>(value: T) -> Result<Tensor, TensorError> {
        Tensor::from_slice(&[], &[value])
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Shape and strides.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Extents, outermost first.
    pub fn shape(&self) -> &[usize] {
        self.layout.shape()
    }

    /// Strides in elements, outermost first.
    pub fn strides(&self) -> &[isize] {
        self.layout.strides()
    }

    /// Number of axes.
    pub fn rank(&self) -> usize {
        self.layout.rank()
    }

    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.layout.elements()
    }

    /// Bytes that the elements take when dense (packed types rounded up): the logical size, not the capacity.
    pub fn bytes(&self) -> usize {
        (self.elements() * self.dtype.bits()).div_ceil(8)
    }

    /// Whether elements lie in row-major order without gaps.
    pub fn is_contiguous(&self) -> bool {
        self.layout.is_contiguous()
    }

    /// The memory handle.
    pub fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    pub(crate) fn buffer_mut(&mut self) -> &mut Buffer {
        &mut self.buffer
    }

    /// Tells the loom models that the elements are read now.
    #[cfg(loom)]
    pub(crate) fn touch(&self) {
        if let Some(block) = &self.buffer.allocation().block {
            block.shadow.read_tensor(self, &block.geometry);
        }
    }

    /// Gives up the tensor for its memory handle.
    pub fn into_buffer(self) -> Buffer {
        self.buffer
    }

    /// The same tensor to be written over, when it is dense, starts where heap memory starts, and this is the only handle
    /// to that memory; else the tensor again.
    ///
    /// ```
    /// use refeed_values::{Allocator, DType, TensorMut};
    /// let mut made = TensorMut::new(&Allocator::default(), DType::Float, &[2])?;
    /// made.as_mut_slice::<f32>()?.copy_from_slice(&[1.0, 2.0]);
    /// let tensor = made.freeze();
    /// let held = tensor.clone();
    /// let tensor = tensor.try_into_mut().unwrap_err();
    /// drop(held);
    /// assert!(tensor.try_into_mut().is_ok());
    /// # Ok::<(), refeed_values::TensorError>(())
    /// ```
    ///
    /// # Errors
    /// The tensor itself, unchanged, when it may not be written over.
    #[allow(clippy::result_large_err)] // it is the tensor, handed back
    pub fn try_into_mut(mut self) -> Result<TensorMut, Tensor> {
        let bytes = self.bytes();
        let whole = self.is_contiguous() && self.offset == 0;
        let ours = self.buffer.alone().is_some_and(|memory| {
            let heap = memory.provenance() == Provenance::Heap && memory.block.is_none();
            heap && memory.len() >= bytes
        });
        if !whole || !ours {
            return Err(self);
        }
        let shape = Dims::from_slice(self.shape());
        let memory = self.buffer.into_shared();
        Ok(TensorMut::over(memory, self.dtype, &shape, bytes))
    }

    /// Byte offset of element zero inside the buffer.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Where the memory came from.
    pub fn provenance(&self) -> Provenance {
        self.buffer.provenance()
    }

    /// Address of element zero.
    pub fn as_ptr(&self) -> *const u8 {
        self.buffer.allocation().as_ptr().wrapping_add(self.offset)
    }

    /// Whether element zero is aligned for the type.
    pub fn is_aligned(&self) -> bool {
        self.elements() == 0 || (self.as_ptr() as usize).is_multiple_of(self.dtype.align())
    }

    /// Another layout over the same memory, `delta` elements further on.
    ///
    /// # Errors
    /// As [`Tensor::from_parts`]; packed types only accept `delta` 0.
    pub fn with_layout(&self, layout: Layout, delta: isize) -> Result<Tensor, TensorError> {
        let moved = match (delta, self.dtype.size()) {
            (0, _) => Some(self.offset),
            (_, None) => return Err(TensorError::PackedStrides { dtype: self.dtype }),
            (_, Some(size)) => delta
                .checked_mul(size as isize)
                .and_then(|bytes| self.offset.checked_add_signed(bytes)),
        };
        let offset = moved.ok_or_else(|| TensorError::OutOfBounds {
            dtype: self.dtype,
            shape: layout.shape().to_vec(),
            len: self.buffer.len(),
        })?;
        Tensor::from_parts(self.dtype, layout, offset, self.buffer.clone())
    }

    /// The same bytes read as another type of the same width (BOOL and UINT8, for example).
    /// `None` when the widths differ.
    pub fn reinterpret(&self, dtype: DType) -> Option<Tensor> {
        (dtype.bits() == self.dtype.bits()).then(|| Tensor {
            dtype,
            ..self.clone()
        })
    }

    /// Elements as a typed view.
    ///
    /// # Errors
    /// When the tensor holds another type or its memory is not aligned for it.
    pub fn view<T: Element>(&self) -> Result<View<'_, T>, TensorError> {
        if !T::reads(self.dtype) {
            return Err(TensorError::DType {
                expected: T::DTYPE,
                got: self.dtype,
            });
        }
        if !self.is_aligned() {
            let align = self.dtype.align();
            return Err(TensorError::Misaligned {
                dtype: self.dtype,
                align,
            });
        }
        #[cfg(loom)]
        self.touch();
        let raw = self.buffer.allocation().raw();
        // SAFETY: `offset` is at most the allocation's length (checked by `from_parts`).
        let base = unsafe { raw.add(self.offset) }.cast::<T>().as_ptr();
        // SAFETY: `from_parts` checked that every reached element is inside the allocation; it is aligned (above);
        // allocations are initialised, and nobody writes reached elements while a handle exists: heap memory is
        // written only when uniquely held, and in an append block `from_parts` keeps a handle to sealed rows.
        Ok(unsafe { View::from_raw(base, self.layout.clone()) })
    }

    /// The bytes of a dense tensor (packed types included); `None` when it is strided.
    pub fn as_bytes(&self) -> Option<&[u8]> {
        if self.elements() == 0 {
            return Some(&[]);
        }
        if !self.is_contiguous() {
            return None;
        }
        #[cfg(loom)]
        self.touch();
        let raw = self.buffer.allocation().raw();
        // SAFETY: a dense tensor is one run of `bytes()` bytes inside the allocation (checked by `from_parts`),
        // initialised and not written while this handle exists (see `view`).
        Some(unsafe { std::slice::from_raw_parts(raw.add(self.offset).as_ptr(), self.bytes()) })
    }

    /// The bytes of a dense tensor as a counted handle that shares the memory; `None` when it is strided. Memory that
    /// came as such a handle is given as a part of it, so that going back and forth adds no layers.
    ///
    /// ```
    /// use refeed_values::Tensor;
    /// let tensor = Tensor::from_slice(&[2], &[1u16, 2]).unwrap();
    /// let bytes = tensor.to_bytes().unwrap();
    /// assert_eq!(bytes.as_ptr(), tensor.as_ptr());
    /// ```
    pub fn to_bytes(&self) -> Option<Bytes> {
        let len = self.as_bytes()?.len();
        if len == 0 {
            return Some(Bytes::new());
        }
        Some(match self.buffer.allocation().owner::<Bytes>() {
            // A dense tensor lies inside its allocation (checked by `from_parts`).
            Some(bytes) => bytes.slice(self.offset..self.offset + len),
            None => Bytes::from_owner(DenseBytes(self.clone())),
        })
    }

    /// The same elements under the promise that who lent their memory does not write to it while they are kept.
    pub(crate) fn kept(&self) -> Tensor {
        Tensor {
            buffer: self.buffer.kept(),
            ..self.clone()
        }
    }

    /// A dense copy in new memory.
    ///
    /// # Errors
    /// When memory cannot be had.
    pub fn to_dense(&self, allocator: &Allocator) -> Result<Tensor, TensorError> {
        let mut out = TensorMut::new(allocator, self.dtype, self.shape())?;
        self.copy_into(&mut out)?;
        Ok(out.freeze())
    }

    /// Copies the elements, in row-major order, into `out`, which has the same dtype and shape.
    ///
    /// # Errors
    /// When dtype or element count differ.
    pub fn copy_into(&self, out: &mut TensorMut) -> Result<(), TensorError> {
        if out.dtype != self.dtype {
            return Err(TensorError::DType {
                expected: out.dtype,
                got: self.dtype,
            });
        }
        if out.elements() != self.elements() {
            let shape = out.shape().to_vec();
            return Err(TensorError::ElementCount {
                shape,
                elements: self.elements(),
            });
        }
        if let Some(bytes) = self.as_bytes() {
            out.as_mut_bytes().copy_from_slice(bytes);
            return Ok(());
        }
        // Widths decide how elements move; values are not looked at.
        fn moved<T: Element>(
            from: &Tensor,
            dtype: DType,
            out: &mut TensorMut,
        ) -> Result<(), TensorError> {
            let from = Tensor {
                dtype,
                ..from.clone()
            };
            let own = std::mem::replace(&mut out.dtype, dtype);
            let copied = from.view::<T>().and_then(|view| {
                view.copy_to(out.as_mut_slice::<T>()?);
                Ok(())
            });
            out.dtype = own;
            copied
        }
        match self.dtype.bits() {
            8 => moved::<u8>(self, DType::Uint8, out),
            16 => moved::<u16>(self, DType::Uint16, out),
            32 => moved::<u32>(self, DType::Uint32, out),
            64 => moved::<u64>(self, DType::Uint64, out),
            // Complex128 moves as pairs of 64-bit halves.
            _ => {
                let mut shape = Dims::from_slice(self.shape());
                shape.push(2);
                let mut strides: crate::layout::Strides =
                    self.strides().iter().map(|s| s.saturating_mul(2)).collect();
                strides.push(1);
                let halves = Layout::strided(&shape, &strides)
                    .ok_or(TensorError::PackedStrides { dtype: self.dtype })?;
                let from = Tensor {
                    dtype: DType::Uint64,
                    layout: halves,
                    ..self.clone()
                };
                let view = from.view::<u64>()?;
                let bytes = out.as_mut_bytes();
                for (value, slot) in view.iter().zip(bytes.chunks_exact_mut(8)) {
                    slot.copy_from_slice(&value.to_ne_bytes());
                }
                Ok(())
            }
        }
    }
}

/// A dense tensor as the owner of its bytes.
struct DenseBytes(Tensor);

impl AsRef<[u8]> for DenseBytes {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes().unwrap_or_default()
    }
}

/// A dense tensor that is still being written; nobody else has a handle to its memory.
#[derive(Debug)]
pub struct TensorMut {
    dtype: DType,
    shape: Dims,
    bytes: usize,
    /// Unique: made from fresh or recycled memory and never cloned.
    allocation: Arc<Allocation>,
}

impl TensorMut {
    /// New zeroed memory.
    ///
    /// # Errors
    /// When the extent overflows, the type is STRING, or memory cannot be had.
    pub fn new(allocator: &Allocator, dtype: DType, shape: &[usize]) -> Result<Self, TensorError> {
        let bytes = Extent::new(dtype, shape)?.bytes();
        let allocation = Arc::new(allocator.allocate(bytes)?);
        Ok(TensorMut {
            dtype,
            shape: Dims::from_slice(shape),
            bytes,
            allocation,
        })
    }

    /// Over memory that the caller holds alone and that has at least `bytes` bytes.
    pub(crate) fn over(
        allocation: Arc<Allocation>,
        dtype: DType,
        shape: &[usize],
        bytes: usize,
    ) -> Self {
        debug_assert!(allocation.len() >= bytes);
        TensorMut {
            dtype,
            shape: Dims::from_slice(shape),
            bytes,
            allocation,
        }
    }

    /// Element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Extents.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Number of elements.
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// All bytes of the tensor. Fresh memory is zero; recycled memory holds old values.
    pub fn as_mut_bytes(&mut self) -> &mut [u8] {
        let bytes = self.bytes;
        match Arc::get_mut(&mut self.allocation).and_then(Allocation::bytes_mut) {
            Some(all) => &mut all[..bytes],
            // Not reached: the handle is unique and heap made. An empty slice is the harmless answer.
            None => &mut [],
        }
    }

    /// All elements, in row-major order.
    ///
    /// # Errors
    /// When the tensor has another type.
    pub fn as_mut_slice<T: Element>(&mut self) -> Result<&mut [T], TensorError> {
        if !T::reads(self.dtype) {
            return Err(TensorError::DType {
                expected: T::DTYPE,
                got: self.dtype,
            });
        }
        let dtype = self.dtype;
        bytemuck::try_cast_slice_mut(self.as_mut_bytes()).map_err(|_| TensorError::Misaligned {
            dtype,
            align: dtype.align(),
        })
    }

    /// Ends the writing.
    pub fn freeze(self) -> Tensor {
        let layout = Layout::contiguous(&self.shape);
        let buffer = Buffer::from_shared(self.allocation);
        Tensor {
            dtype: self.dtype,
            layout,
            offset: 0,
            buffer,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn layouts_outside_the_memory_are_refused() {
        let t = Tensor::from_slice(&[2, 3], &[0i16; 6]).unwrap();
        for (shape, strides, delta) in [
            (&[7][..], &[1][..], 0),
            (&[6], &[1], 1),
            (&[2], &[-1], 0),
            (&[2, 2], &[5, 1], 0),
        ] {
            let layout = Layout::strided(shape, strides).unwrap();
            assert!(
                t.with_layout(layout, delta).is_err(),
                "{shape:?} {strides:?} {delta}"
            );
        }
        let back = Layout::strided(&[6], &[-1]).unwrap();
        assert!(t.with_layout(back, 5).is_ok());
        let far = Layout::strided(&[2], &[isize::MAX]).unwrap();
        assert!(t.with_layout(far, 0).is_err());
    }

    #[test]
    fn dense_copies_of_every_width() {
        for dtype in DType::ALL.into_iter().filter(|d| d.size().is_some()) {
            let size = dtype.size().unwrap();
            let raw: Vec<u8> = (0..6 * size as u8).collect();
            let mut made = TensorMut::new(&Allocator::default(), dtype, &[2, 3]).unwrap();
            made.as_mut_bytes().copy_from_slice(&raw);
            let t = made.freeze();
            let turned = t
                .with_layout(t.layout().permute(&[1, 0]).unwrap(), 0)
                .unwrap();
            let dense = turned.to_dense(&Allocator::default()).unwrap();
            let got = dense.as_bytes().unwrap();
            for (place, from) in [0, 3, 1, 4, 2, 5].into_iter().enumerate() {
                assert_eq!(
                    got[place * size..][..size],
                    raw[from * size..][..size],
                    "{dtype}"
                );
            }
        }
    }

    #[test]
    fn only_a_whole_and_lone_tensor_is_written_over() {
        let made = || {
            let made = TensorMut::new(&Allocator::default(), DType::Int16, &[2, 3]);
            made.unwrap().freeze()
        };
        let lone = made();
        let address = lone.as_ptr();
        let again = lone.try_into_mut().unwrap();
        assert_eq!((again.dtype(), again.shape()), (DType::Int16, &[2, 3][..]));
        assert_eq!(again.freeze().as_ptr(), address);
        let held = made();
        assert!(held.clone().try_into_mut().is_err());
        let turned = held.with_layout(held.layout().permute(&[1, 0]).unwrap(), 0);
        let row = held.with_layout(Layout::contiguous(&[3]), 3);
        drop(held);
        let (turned, row) = (turned.unwrap(), row.unwrap());
        let turned = turned.try_into_mut().unwrap_err();
        drop(turned);
        assert!(row.try_into_mut().is_err());
        let lent = Buffer::from_owner(vec![0u8; 6], Provenance::Foreign);
        let lent = Tensor::dense(DType::Uint8, &[6], lent).unwrap();
        assert!(lent.try_into_mut().is_err());
    }

    #[test]
    fn misaligned_memory_is_named_not_read() {
        let buffer = Buffer::from_owner(vec![0u8; 9], Provenance::Foreign);
        let odd = usize::from((buffer.allocation().as_ptr() as usize).is_multiple_of(2));
        let t = Tensor::from_parts(DType::Float, Layout::contiguous(&[2]), odd, buffer).unwrap();
        assert!(matches!(
            t.view::<f32>(),
            Err(TensorError::Misaligned { align: 4, .. })
        ));
        assert_eq!(t.as_bytes().unwrap().len(), 8);
    }
}
