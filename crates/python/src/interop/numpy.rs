//! NumPy arrays in and out through rust-numpy.

use super::Refused;
use super::owner::ForeignMemory;
use super::registry::{self, Registration};
use bytes::Bytes;
use numpy::npyffi::{NPY_TYPES, NpyTypes, PY_ARRAY_API, flags, get_type_object, npy_intp};
use numpy::{PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use refeed_values::{Buffer, DType, Layout, Provenance, Tensor};
use smallvec::SmallVec;

/// Element types that NumPy knows, by ONNX wire number; the others come from `ml_dtypes`.
const PLAIN: [(DType, &str); 14] = [
    (DType::Float, "float32"),
    (DType::Uint8, "uint8"),
    (DType::Int8, "int8"),
    (DType::Uint16, "uint16"),
    (DType::Int16, "int16"),
    (DType::Int32, "int32"),
    (DType::Int64, "int64"),
    (DType::Bool, "bool"),
    (DType::Float16, "float16"),
    (DType::Double, "float64"),
    (DType::Uint32, "uint32"),
    (DType::Uint64, "uint64"),
    (DType::Complex64, "complex64"),
    (DType::Complex128, "complex128"),
];

/// Element types of the package `ml_dtypes`, one element in each byte or pair of bytes.
const ML_DTYPES: [(DType, &str); 6] = [
    (DType::Bfloat16, "bfloat16"),
    (DType::Float8E4M3FN, "float8_e4m3fn"),
    (DType::Float8E4M3FNUZ, "float8_e4m3fnuz"),
    (DType::Float8E5M2, "float8_e5m2"),
    (DType::Float8E5M2FNUZ, "float8_e5m2fnuz"),
    (DType::Float8E8M0, "float8_e8m0fnu"),
];

/// The element type of an array.
fn dtype_of(descr: &Bound<'_, PyArrayDescr>) -> Result<DType, Refused> {
    const LONG: i32 = NPY_TYPES::NPY_LONG as i32;
    const ULONG: i32 = NPY_TYPES::NPY_ULONG as i32;
    const LONG_IS_64: bool = size_of::<std::ffi::c_long>() == 8;
    let number = descr.num();
    let dtype = match number {
        n if n == NPY_TYPES::NPY_FLOAT as i32 => DType::Float,
        n if n == NPY_TYPES::NPY_DOUBLE as i32 => DType::Double,
        n if n == NPY_TYPES::NPY_HALF as i32 => DType::Float16,
        LONG => {
            if LONG_IS_64 {
                DType::Int64
            } else {
                DType::Int32
            }
        }
        ULONG => {
            if LONG_IS_64 {
                DType::Uint64
            } else {
                DType::Uint32
            }
        }
        n if n == NPY_TYPES::NPY_LONGLONG as i32 => DType::Int64,
        n if n == NPY_TYPES::NPY_ULONGLONG as i32 => DType::Uint64,
        n if n == NPY_TYPES::NPY_INT as i32 => DType::Int32,
        n if n == NPY_TYPES::NPY_UINT as i32 => DType::Uint32,
        n if n == NPY_TYPES::NPY_SHORT as i32 => DType::Int16,
        n if n == NPY_TYPES::NPY_USHORT as i32 => DType::Uint16,
        n if n == NPY_TYPES::NPY_BYTE as i32 => DType::Int8,
        n if n == NPY_TYPES::NPY_UBYTE as i32 => DType::Uint8,
        n if n == NPY_TYPES::NPY_BOOL as i32 => DType::Bool,
        n if n == NPY_TYPES::NPY_CFLOAT as i32 => DType::Complex64,
        n if n == NPY_TYPES::NPY_CDOUBLE as i32 => DType::Complex128,
        n if n == NPY_TYPES::NPY_OBJECT as i32 => {
            return Err(Refused::Kind(
                "expected an array of numbers, got one of Python objects".into(),
            ));
        }
        _ => {
            let name = descr.typeobj().name()?.to_string();
            let known = ML_DTYPES.iter().find(|(_, known)| *known == name);
            let Some((dtype, _)) = known else {
                return Err(Refused::Value(format!(
                    "elements of NumPy type {name} are not supported"
                )));
            };
            *dtype
        }
    };
    if descr.is_native_byteorder() == Some(false) {
        return Err(Refused::Value(
            "elements are not in the byte order of this machine".into(),
        ));
    }
    Ok(dtype)
}

/// Adopts an array's memory.
pub(crate) fn import(array: &Bound<'_, PyUntypedArray>) -> Result<Tensor, Refused> {
    let dtype = dtype_of(&array.dtype())?;
    let shape = array.shape();
    // SAFETY: a live array object; its data pointer is read, nothing behind it.
    let (data, own) = unsafe {
        let fields = &(*array.as_array_ptr()).fields;
        (fields.data.cast_const().cast::<u8>(), fields.base.is_null())
    };
    if !own {
        let size = dtype.size().unwrap_or(1) as isize;
        let whole = array.strides().iter().all(|stride| stride % size == 0);
        let strides: SmallVec<[isize; 6]> =
            array.strides().iter().map(|stride| stride / size).collect();
        if whole
            && let Some(layout) = Layout::strided(shape, &strides)
            && let Some(tensor) = registry::recognise(data.addr(), dtype, &layout)
        {
            return Ok(tensor);
        }
    }
    if !array.is_c_contiguous() {
        return Err(Refused::Kind(format!(
            "expected a C-contiguous array, got strides {:?} (in bytes) for shape {shape:?}",
            array.strides()
        )));
    }
    let bytes = refeed_values::Extent::new(dtype, shape)
        .map_err(|error| Refused::Size(error.to_string()))?
        .bytes();
    // SAFETY: a contiguous array of `bytes` bytes, which its object keeps alive; NumPy refuses to resize an array whose
    // object is referenced from elsewhere.
    let memory = unsafe { ForeignMemory::new(data, bytes, array.as_any().clone().unbind()) };
    adopt(dtype, shape, memory)
}

/// The memory of a read-only array, with the object that keeps it.
pub(crate) fn share(array: &Bound<'_, PyUntypedArray>) -> Result<Bytes, Refused> {
    // SAFETY: a live array object; its header is read, nothing behind its data pointer.
    let (data, flags) = unsafe {
        let fields = &(*array.as_array_ptr()).fields;
        (fields.data.cast_const().cast::<u8>(), fields.flags)
    };
    if flags & flags::NPY_ARRAY_WRITEABLE != 0 {
        return Err(Refused::Value(
            "the array can be written to; make it read-only first, with array.flags.writeable = False".into(),
        ));
    }
    if !array.is_c_contiguous() {
        return Err(Refused::Value(format!(
            "expected a C-contiguous array, got strides {:?} (in bytes) for shape {:?}",
            array.strides(),
            array.shape()
        )));
    }
    let bytes = array.len() * array.dtype().itemsize();
    // SAFETY: as in `import`.
    let memory = unsafe { ForeignMemory::new(data, bytes, array.as_any().clone().unbind()) };
    Ok(Bytes::from_owner(memory))
}

/// A dense tensor over foreign memory.
pub(crate) fn adopt(
    dtype: DType,
    shape: &[usize],
    memory: ForeignMemory,
) -> Result<Tensor, Refused> {
    let tensor = Tensor::dense(
        dtype,
        shape,
        Buffer::from_owner(memory, Provenance::Foreign),
    )?;
    if !tensor.is_aligned() {
        return Err(Refused::Value(format!(
            "memory of {dtype} elements must be aligned to {} bytes",
            dtype.align()
        )));
    }
    Ok(tensor)
}

/// NumPy's description of an element type.
pub(crate) fn descr<'py>(
    py: Python<'py>,
    dtype: DType,
) -> Result<Bound<'py, PyArrayDescr>, Refused> {
    static DESCRS: [PyOnceLock<Py<PyArrayDescr>>; 29] = [const { PyOnceLock::new() }; 29];
    let held = DESCRS[dtype.to_onnx() as usize].get_or_try_init(py, || {
        if let Some((_, name)) = PLAIN.iter().find(|(plain, _)| *plain == dtype) {
            return Ok(PyArrayDescr::new(py, *name)?.unbind());
        }
        let Some((_, name)) = ML_DTYPES.iter().find(|(other, _)| *other == dtype) else {
            return Err(Refused::Value(format!(
                "{dtype} elements have no NumPy type"
            )));
        };
        let scalar = py.import("ml_dtypes")?.getattr(*name)?;
        Ok(PyArrayDescr::new(py, scalar)?.unbind())
    })?;
    Ok(held.bind(py).clone())
}

/// Holds exported memory as the base of an array.
#[pyclass(frozen, module = "refeed._native")]
pub(crate) struct ArrayBase {
    _memory: Registration,
}

/// A read-only array over a tensor's memory, strides included.
pub(crate) fn export<'py>(py: Python<'py>, tensor: &Tensor) -> Result<Bound<'py, PyAny>, Refused> {
    let _memory = Registration::new(tensor.clone());
    let base = Bound::new(py, ArrayBase { _memory })?.into_any();
    let address = tensor.as_ptr().cast_mut();
    // SAFETY: the layout lies inside the tensor's memory (`Tensor::from_parts`), which `base` keeps alive; the array is not
    // writable.
    unsafe { over(py, tensor.dtype(), tensor.layout(), address, base, 0) }
}

/// A writable array over memory that `base` keeps.
///
/// # Safety
/// The elements that `layout` reaches from `address` on are initialised memory that stays where it is while `base` lives,
/// and nobody else reads or writes it meanwhile.
pub(crate) unsafe fn lend<'py>(
    py: Python<'py>,
    dtype: DType,
    layout: &Layout,
    address: *mut u8,
    base: Bound<'py, PyAny>,
) -> Result<Bound<'py, PyAny>, Refused> {
    // SAFETY: the caller's promise.
    unsafe { over(py, dtype, layout, address, base, flags::NPY_ARRAY_WRITEABLE) }
}

/// An array over memory that `base` keeps, with these flags.
///
/// # Safety
/// The elements that `layout` reaches from `address` on are initialised memory that stays where it is while `base` lives;
/// with the flag for writing, nobody else uses it meanwhile.
unsafe fn over<'py>(
    py: Python<'py>,
    dtype: DType,
    layout: &Layout,
    address: *mut u8,
    base: Bound<'py, PyAny>,
    wanted: i32,
) -> Result<Bound<'py, PyAny>, Refused> {
    let descr = descr(py, dtype)?;
    let size = dtype.size().unwrap_or(1) as isize;
    let mut shape: SmallVec<[npy_intp; 6]> =
        layout.shape().iter().map(|&dim| dim as npy_intp).collect();
    let mut strides: SmallVec<[npy_intp; 6]> = layout
        .strides()
        .iter()
        .map(|&stride| stride * size)
        .collect();
    if layout.elements() == 0 {
        // Nothing is reached, so any strides will do; NumPy checks none.
        strides.fill(size);
    }
    // SAFETY: the caller's promise. NewFromDescr takes over `descr`, SetBaseObject takes over `base`, also when they fail.
    unsafe {
        let array = PY_ARRAY_API.PyArray_NewFromDescr(
            py,
            get_type_object(py, NpyTypes::PyArray_Type),
            descr.into_dtype_ptr(),
            shape.len() as i32,
            shape.as_mut_ptr(),
            strides.as_mut_ptr(),
            address.cast(),
            wanted,
            std::ptr::null_mut(),
        );
        let array = Bound::from_owned_ptr_or_err(py, array)?;
        if PY_ARRAY_API.PyArray_SetBaseObject(py, array.as_ptr().cast(), base.into_ptr()) != 0 {
            return Err(Refused::Python(PyErr::fetch(py)));
        }
        PY_ARRAY_API.PyArray_UpdateFlags(
            py,
            array.as_ptr().cast(),
            flags::NPY_ARRAY_C_CONTIGUOUS
                | flags::NPY_ARRAY_F_CONTIGUOUS
                | flags::NPY_ARRAY_ALIGNED,
        );
        Ok(array)
    }
}
