//! DLPack 1.x, in and out. Source: `dlpack.h` of version 1.1 and the array API standard's data interchange.

use super::Refused;
use super::numpy::adopt;
use super::owner::ForeignMemory;
use super::registry::{self, Registration};
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyTuple};
use refeed_values::{DType, Extent, Layout, Tensor};
use smallvec::SmallVec;
use std::ffi::{CStr, c_void};
use std::ptr;

const VERSIONED: &CStr = c"dltensor_versioned";
const VERSIONED_USED: &CStr = c"used_dltensor_versioned";
const LEGACY: &CStr = c"dltensor";
const LEGACY_USED: &CStr = c"used_dltensor";
const READ_ONLY: u64 = 1;
const IS_COPIED: u64 = 2;
const SUBBYTE_PADDED: u64 = 4;
/// kDLCPU.
pub(crate) const CPU: i32 = 1;
/// Page-locked host memory, which a CPU reads as its own.
const CUDA_HOST: i32 = 3;
const ROCM_HOST: i32 = 11;
const MAX_AXES: i32 = 64;

#[repr(C)]
#[derive(Clone, Copy)]
struct Device {
    kind: i32,
    id: i32,
}

#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct DataType {
    code: u8,
    bits: u8,
    lanes: u16,
}

#[repr(C)]
struct DLTensor {
    data: *mut c_void,
    device: Device,
    ndim: i32,
    dtype: DataType,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

#[repr(C)]
struct Legacy {
    tensor: DLTensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Legacy)>,
}

#[repr(C)]
struct Versioned {
    major: u32,
    minor: u32,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Versioned)>,
    flags: u64,
    tensor: DLTensor,
}

#[cfg(target_pointer_width = "64")]
const _: () = assert!(
    size_of::<DLTensor>() == 48 && size_of::<Legacy>() == 64 && size_of::<Versioned>() == 80
);

/// DLPack's code and width of each element type.
const TYPES: [(DType, u8); 27] = [
    (DType::Float, 2),
    (DType::Uint8, 1),
    (DType::Int8, 0),
    (DType::Uint16, 1),
    (DType::Int16, 0),
    (DType::Int32, 0),
    (DType::Int64, 0),
    (DType::Bool, 6),
    (DType::Float16, 2),
    (DType::Double, 2),
    (DType::Uint32, 1),
    (DType::Uint64, 1),
    (DType::Complex64, 5),
    (DType::Complex128, 5),
    (DType::Bfloat16, 4),
    (DType::Float8E4M3FN, 10),
    (DType::Float8E4M3FNUZ, 11),
    (DType::Float8E5M2, 12),
    (DType::Float8E5M2FNUZ, 13),
    (DType::Float8E8M0, 14),
    (DType::Float6E2M3, 15),
    (DType::Float6E3M2, 16),
    (DType::Float4E2M1, 17),
    (DType::Uint4, 1),
    (DType::Int4, 0),
    (DType::Uint2, 1),
    (DType::Int2, 0),
];

fn data_type(dtype: DType) -> Option<DataType> {
    let (_, code) = TYPES.iter().find(|(own, _)| *own == dtype)?;
    Some(DataType {
        code: *code,
        bits: dtype.bits() as u8,
        lanes: 1,
    })
}

// ---------------------------------------------------------------------------------------------------------- in

/// What a consumed capsule pointed to; deleted with the interpreter attached, like any Python object.
#[pyclass(frozen, module = "refeed._native")]
struct Producer {
    managed: Managed,
}

#[derive(Clone, Copy)]
enum Managed {
    Legacy(*mut Legacy),
    Versioned(*mut Versioned),
}

// SAFETY: the pointer is used once, by `Drop`; the standard lets a deleter run on any thread.
unsafe impl Send for Producer {}
// SAFETY: nothing is reached through `&Producer`.
unsafe impl Sync for Producer {}

impl Drop for Producer {
    fn drop(&mut self) {
        // SAFETY: the capsule was renamed, so the deleter is ours to call, and this is the only call.
        unsafe {
            match self.managed {
                Managed::Legacy(managed) => {
                    if let Some(deleter) = (*managed).deleter {
                        deleter(managed);
                    }
                }
                Managed::Versioned(managed) => {
                    if let Some(deleter) = (*managed).deleter {
                        deleter(managed);
                    }
                }
            }
        }
    }
}

/// Adopts the memory of an object with `__dlpack__`.
pub(crate) fn import(value: &Bound<'_, PyAny>) -> Result<Tensor, Refused> {
    let py = value.py();
    if let Ok(method) = value.getattr("__dlpack_device__") {
        let device: (i32, i32) = method.call0()?.extract()?;
        if ![CPU, CUDA_HOST, ROCM_HOST].contains(&device.0) {
            return Err(Refused::Kind(format!(
                "expected memory of the CPU, got DLPack device {device:?}"
            )));
        }
    }
    let keywords = PyDict::new(py);
    keywords.set_item("max_version", (1, 0))?;
    let capsule = match value.call_method("__dlpack__", (), Some(&keywords)) {
        // Producers from before version 1 know no such argument.
        Err(error) if error.is_instance_of::<PyTypeError>(py) => {
            value.call_method0("__dlpack__")?
        }
        other => other?,
    };
    let Ok(capsule) = capsule.cast::<PyCapsule>() else {
        return Err(Refused::Kind("`__dlpack__` returned no capsule".into()));
    };
    let producer = consume(capsule)?;
    // SAFETY: the header lives until the deleter is called, which `producer` does.
    let (header, flags) = unsafe {
        match producer.managed {
            Managed::Legacy(managed) => (&(*managed).tensor, 0),
            Managed::Versioned(managed) => {
                if (*managed).major != 1 {
                    let got = ((*managed).major, (*managed).minor);
                    return Err(Refused::Value(format!(
                        "expected DLPack version 1, got {got:?}"
                    )));
                }
                (&(*managed).tensor, (*managed).flags)
            }
        }
    };
    let read = read(header, flags)?;
    if let Some(layout) = &read.layout
        && let Some(tensor) = registry::recognise(read.data.addr(), read.dtype, layout)
    {
        return Ok(tensor);
    }
    let dense = read.layout.as_ref().is_none_or(Layout::is_contiguous);
    if !dense {
        return Err(Refused::Kind(format!(
            "expected a C-contiguous array, got strides for shape {:?}",
            read.shape
        )));
    }
    let owner = Bound::new(py, producer)?.into_any().unbind();
    // SAFETY: the header promises `bytes` bytes at `data` until its deleter is called; `owner` calls it.
    let memory = unsafe { ForeignMemory::new(read.data, read.bytes, owner) };
    adopt(read.dtype, &read.shape, memory)
}

/// Takes over what a capsule points to, and marks the capsule as used.
fn consume(capsule: &Bound<'_, PyCapsule>) -> Result<Producer, Refused> {
    let raw = capsule.as_ptr();
    // SAFETY: a live capsule. The pointer is asked for under the name that was just found to be its own.
    unsafe {
        for (name, used, versioned) in [
            (VERSIONED, VERSIONED_USED, true),
            (LEGACY, LEGACY_USED, false),
        ] {
            if ffi::PyCapsule_IsValid(raw, name.as_ptr()) == 0 {
                continue;
            }
            let pointer = ffi::PyCapsule_GetPointer(raw, name.as_ptr());
            if pointer.is_null() || ffi::PyCapsule_SetName(raw, used.as_ptr()) != 0 {
                return Err(Refused::Python(PyErr::fetch(capsule.py())));
            }
            let managed = if versioned {
                Managed::Versioned(pointer.cast())
            } else {
                Managed::Legacy(pointer.cast())
            };
            return Ok(Producer { managed });
        }
    }
    Err(Refused::Value(
        "expected a fresh DLPack capsule, got one that was used or has another name".into(),
    ))
}

struct Header {
    dtype: DType,
    shape: SmallVec<[usize; 6]>,
    data: *const u8,
    bytes: usize,
    /// `None` when no strides are given: the memory is dense.
    layout: Option<Layout>,
}

/// Believes a header only as far as it can be checked.
fn read(header: &DLTensor, flags: u64) -> Result<Header, Refused> {
    let value = |text: String| Err(Refused::Value(text));
    if ![CPU, CUDA_HOST, ROCM_HOST].contains(&header.device.kind) {
        return Err(Refused::Kind(format!(
            "expected memory of the CPU, got DLPack device ({}, {})",
            header.device.kind, header.device.id
        )));
    }
    if header.dtype.lanes != 1 {
        return value(format!(
            "expected elements of one lane, got {}",
            header.dtype.lanes
        ));
    }
    let Some((dtype, _)) = TYPES
        .iter()
        .find(|(dtype, _)| data_type(*dtype) == Some(header.dtype))
    else {
        return value(format!(
            "elements of DLPack type {:?} are not supported",
            header.dtype
        ));
    };
    if dtype.is_packed() && flags & SUBBYTE_PADDED != 0 {
        return value(format!(
            "expected packed {dtype} elements, got one in each byte"
        ));
    }
    if !(0..=MAX_AXES).contains(&header.ndim) {
        return value(format!(
            "expected 0 to {MAX_AXES} axes, got {}",
            header.ndim
        ));
    }
    let rank = header.ndim as usize;
    if rank > 0 && header.shape.is_null() {
        return value(format!("{rank} axes without a shape"));
    }
    // SAFETY: `shape`, and `strides` when given, point to `ndim` numbers; for no axes nothing is read.
    let (dims, strides) = unsafe {
        let list = |from: *mut i64| -> &[i64] {
            if rank == 0 {
                &[]
            } else {
                std::slice::from_raw_parts(from, rank)
            }
        };
        (
            list(header.shape),
            (!header.strides.is_null()).then(|| list(header.strides)),
        )
    };
    let (extent, _) = Extent::from_dims(*dtype, dims).map_err(|error| match error {
        refeed_values::ExtentError::Overflow { .. } => Refused::Size(error.to_string()),
        other => Refused::Value(other.to_string()),
    })?;
    // Not negative: the extent was computed.
    let shape: SmallVec<[usize; 6]> = dims.iter().map(|&dim| dim as usize).collect();
    if extent.elements() == 0 {
        return Ok(Header {
            dtype: *dtype,
            shape,
            data: ptr::null(),
            bytes: 0,
            layout: None,
        });
    }
    if header.data.is_null() {
        return value("elements without memory".into());
    }
    let offset = usize::try_from(header.byte_offset).ok().filter(|&offset| {
        header
            .data
            .addr()
            .checked_add(offset)
            .and_then(|end| end.checked_add(extent.bytes()))
            .is_some()
    });
    let Some(offset) = offset else {
        return Err(Refused::Size(format!(
            "byte offset {} leads out of memory",
            header.byte_offset
        )));
    };
    let data = header.data.cast::<u8>().cast_const().wrapping_add(offset);
    let layout = match strides {
        None => None,
        Some(strides) => {
            let strides: SmallVec<[isize; 6]> =
                strides.iter().map(|&stride| stride as isize).collect();
            let Some(layout) = Layout::strided(&shape, &strides) else {
                return value("strides and shape of different length".into());
            };
            Some(layout)
        }
    };
    Ok(Header {
        dtype: *dtype,
        shape,
        data,
        bytes: extent.bytes(),
        layout,
    })
}

// --------------------------------------------------------------------------------------------------------- out

/// Memory behind an exported header.
enum Memory {
    /// Shared with the runtime, read only.
    Shared(#[allow(dead_code)] Registration),
    /// The consumer's own.
    Copied(#[allow(dead_code)] Tensor),
}

/// An exported header with what it points to. The header comes first, so its address is the address of the whole.
#[repr(C)]
struct Export<M> {
    managed: M,
    shape: SmallVec<[i64; 6]>,
    strides: SmallVec<[i64; 6]>,
    memory: Memory,
}

/// # Safety
/// `managed` is the header of a leaked `Box<Export<M>>`, and this is the last use of it.
unsafe extern "C" fn delete<M>(managed: *mut M) {
    // SAFETY: as demanded; `repr(C)` puts the header at the address of the box.
    drop(unsafe { Box::from_raw(managed.cast::<Export<M>>()) });
}

/// # Safety
/// Called by Python with a capsule made by [`capsule`].
unsafe extern "C" fn destroy_versioned(capsule: *mut ffi::PyObject) {
    // SAFETY: a capsule of this name was never consumed, so its header is still ours.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, VERSIONED.as_ptr()) != 0 {
            delete(ffi::PyCapsule_GetPointer(capsule, VERSIONED.as_ptr()).cast::<Versioned>());
        }
    }
}

/// # Safety
/// As [`destroy_versioned`].
unsafe extern "C" fn destroy_legacy(capsule: *mut ffi::PyObject) {
    // SAFETY: as in `destroy_versioned`.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, LEGACY.as_ptr()) != 0 {
            delete(ffi::PyCapsule_GetPointer(capsule, LEGACY.as_ptr()).cast::<Legacy>());
        }
    }
}

fn header(tensor: &Tensor, dtype: DataType) -> DLTensor {
    // The standard wants no address for memory without elements.
    let data = if tensor.elements() == 0 {
        ptr::null_mut()
    } else {
        tensor.as_ptr().cast_mut().cast()
    };
    DLTensor {
        data,
        device: Device { kind: CPU, id: 0 },
        ndim: tensor.rank() as i32,
        dtype,
        shape: ptr::null_mut(),
        strides: ptr::null_mut(),
        byte_offset: 0,
    }
}

/// A capsule over a tensor's memory (read only), or over `copied` memory that is the consumer's own.
///
/// `versioned` must be true unless `copied` is, because only a versioned header can say "read only".
pub(crate) fn export<'py>(
    py: Python<'py>,
    tensor: Tensor,
    versioned: bool,
    copied: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let Some(dtype) = data_type(tensor.dtype()) else {
        return Err(PyBufferError::new_err(format!(
            "{} elements have no DLPack type",
            tensor.dtype()
        )));
    };
    let header = header(&tensor, dtype);
    let shape = tensor.shape().iter().map(|&dim| dim as i64).collect();
    let strides = tensor
        .strides()
        .iter()
        .map(|&stride| stride as i64)
        .collect();
    let memory = if copied {
        Memory::Copied(tensor)
    } else {
        Memory::Shared(Registration::new(tensor))
    };
    if versioned {
        let flags = if copied { IS_COPIED } else { READ_ONLY };
        let deleter: Option<unsafe extern "C" fn(*mut Versioned)> = Some(delete::<Versioned>);
        let managed = Versioned {
            major: 1,
            minor: 1,
            context: ptr::null_mut(),
            deleter,
            flags,
            tensor: header,
        };
        capsule(
            py,
            Export {
                managed,
                shape,
                strides,
                memory,
            },
            VERSIONED,
            destroy_versioned,
        )
    } else {
        let deleter: Option<unsafe extern "C" fn(*mut Legacy)> = Some(delete::<Legacy>);
        let managed = Legacy {
            tensor: header,
            context: ptr::null_mut(),
            deleter,
        };
        capsule(
            py,
            Export {
                managed,
                shape,
                strides,
                memory,
            },
            LEGACY,
            destroy_legacy,
        )
    }
}

trait HasTensor {
    fn tensor(&mut self) -> &mut DLTensor;
}

impl HasTensor for Versioned {
    fn tensor(&mut self) -> &mut DLTensor {
        &mut self.tensor
    }
}

impl HasTensor for Legacy {
    fn tensor(&mut self) -> &mut DLTensor {
        &mut self.tensor
    }
}

fn capsule<'py, M: HasTensor>(
    py: Python<'py>,
    export: Export<M>,
    name: &'static CStr,
    destructor: unsafe extern "C" fn(*mut ffi::PyObject),
) -> PyResult<Bound<'py, PyAny>> {
    let pointer = Box::into_raw(Box::new(export));
    // SAFETY: the box has its final place, so shape and strides, which may lie inside it, have theirs. The name is static,
    // the destructor fits the pointer's type; when no capsule is made the box is ours again.
    unsafe {
        let shape = (*pointer).shape.as_mut_ptr();
        let strides = (*pointer).strides.as_mut_ptr();
        let header = (*pointer).managed.tensor();
        header.shape = shape;
        header.strides = strides;
        let made = ffi::PyCapsule_New(pointer.cast(), name.as_ptr(), Some(destructor));
        if made.is_null() {
            drop(Box::from_raw(pointer));
            return Err(PyErr::fetch(py));
        }
        Ok(Bound::from_owned_ptr(py, made))
    }
}

/// What a consumer's arguments ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// The memory itself, read only.
    Shared,
    /// A copy, versioned or not.
    Copy {
        /// Whether the consumer knows version 1.
        versioned: bool,
        /// Whether it asked for the copy, rather than leaving us no other way.
        asked: bool,
    },
}

/// Reads the arguments of `__dlpack__`.
///
/// # Errors
/// `BufferError` for a stream, another device, or `copy=False` where only a copy can be given.
pub(crate) fn wanted(
    stream: Option<&Bound<'_, PyAny>>,
    max_version: Option<&Bound<'_, PyAny>>,
    dl_device: Option<&Bound<'_, PyAny>>,
    copy: Option<bool>,
) -> PyResult<Wanted> {
    if let Some(stream) = stream {
        return Err(PyBufferError::new_err(format!(
            "expected no stream for memory of the CPU, got {stream}"
        )));
    }
    if let Some(device) = dl_device {
        let (kind, id): (i32, i32) = device.extract()?;
        if (kind, id) != (CPU, 0) {
            return Err(PyBufferError::new_err(format!(
                "expected device (1, 0), got ({kind}, {id})"
            )));
        }
    }
    let versioned = match max_version {
        None => false,
        Some(version) => version.cast::<PyTuple>()?.get_item(0)?.extract::<u64>()? >= 1,
    };
    match (versioned, copy) {
        (_, Some(true)) => Ok(Wanted::Copy {
            versioned,
            asked: true,
        }),
        (true, _) => Ok(Wanted::Shared),
        (false, None) => Ok(Wanted::Copy {
            versioned,
            asked: false,
        }),
        (false, Some(false)) => Err(PyBufferError::new_err(
            "only DLPack 1.0 and later can say \"read only\": without a copy, ask with max_version=(1, 0)",
        )),
    }
}
