//! The native module of refeed. Thin: each class wraps one Rust type, each method converts, calls, converts back.
//!
//! `run` is the one place that lets the interpreter go, `error` the one that makes exceptions, `interop` the only one
//! with unsafe code.

#![warn(missing_docs)]

mod bind;
mod error;
mod interop;
mod model;
mod onnx;
mod onnx_builder;
mod onnx_check;
mod onnx_shapes;
mod run;
mod runtime;
#[cfg(feature = "testing")]
mod testing;

#[pyo3::pymodule]
mod _native {
    #[pymodule_export]
    use crate::bind::{PyBindReport, PyBoundPair, bind, known_schemes};
    #[pymodule_export]
    use crate::interop::reservation::PyAppendReservation;
    #[pymodule_export]
    use crate::model::{PyBinding, PyModel, PyOperatorUse, PyValueInfo, load};
    #[pymodule_export]
    use crate::onnx_builder::PyGraphBuilder;
    #[pymodule_export]
    use crate::runtime::allocators::{
        PyExecutionArena, PyIoArena, PyRawBufferAllocator, PySimpleRawBufferAllocator,
    };
    #[pymodule_export]
    use crate::runtime::completion::PyTaskCompletion;
    #[pymodule_export]
    use crate::runtime::context::{PyKernelContext, PyOpsetId, PyRuntimeContext, default_opset};
    #[pymodule_export]
    use crate::runtime::context_options::PyRuntimeContextOptions;
    #[pymodule_export]
    use crate::runtime::conversion::{
        tensor_from_numpy, tensor_from_proto, tensor_to_numpy, tensor_to_proto,
    };
    #[pymodule_export]
    use crate::runtime::custom_kernel::{
        clear_custom_kernels, register_custom_kernel, unregister_custom_kernel,
    };
    #[pymodule_export]
    use crate::runtime::events::PyRuntimeEvent;
    #[pymodule_export]
    use crate::runtime::explain::{PyAttentionForm, PyBindingReport, PyExplanation};
    #[pymodule_export]
    use crate::runtime::generation::{PyGenerationOptions, empty_caches, generate};
    #[pymodule_export]
    use crate::runtime::generator::{PyGeneratedToken, PyGeneration, PyGenerator, PyTokenStream};
    #[pymodule_export]
    use crate::runtime::kernel_invocation::PyKernelInvocation;
    #[pymodule_export]
    use crate::runtime::options::PyRuntimeSessionOptions;
    #[pymodule_export]
    use crate::runtime::paged_attention::{
        PyPageFormat, PyPagedAttention, PyPagedStatistics, register_paged_attention,
    };
    #[pymodule_export]
    use crate::runtime::quantization::{
        PySharedQuantizedValue, add_quantization_parameters, check_paged_cache, dequantize_tensor,
        make_affine_quantization_type, make_shared_quantization_type, materialize_quantized_value,
        quantize_tensor_shared,
    };
    #[pymodule_export]
    use crate::runtime::session::PyRuntimeSession;
    #[pymodule_export]
    use crate::runtime::state::PyPersistentValueState;
    #[pymodule_export]
    use crate::runtime::state::checkpoint::PyCheckpoint;
    #[pymodule_export]
    use crate::runtime::strings::PyStringTensor;
    #[pymodule_export]
    use crate::runtime::tensor::PyTensor;
    #[pymodule_export]
    #[allow(non_upper_case_globals)]
    const __version__: &str = env!("CARGO_PKG_VERSION");

    // The macro does not see `cfg` on the function itself, so the feature decides inside.
    #[pymodule_init]
    fn init(module: &pyo3::Bound<'_, pyo3::types::PyModule>) -> pyo3::PyResult<()> {
        use pyo3::types::PyAnyMethods;
        module.setattr("_onnx", crate::onnx::module(module.py())?)?;
        #[cfg(feature = "testing")]
        {
            let testing = pyo3::wrap_pymodule!(crate::testing::testing)(module.py());
            module.setattr("_testing", testing)?;
        }
        Ok(())
    }
}
