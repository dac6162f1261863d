"""The namespace of the `onnx` package: messages with protobuf's interface, and what works on them."""

from refeed.onnx.messages import *  # noqa: F403  # isort: skip

from refeed.onnx import (
    descriptor,
    external_data_helper,
    files,
    helper,
    messages,
    numpy_helper,
    onnx_pb,
    parser,
    printer,
)
from refeed.onnx.external_data_helper import (
    convert_model_to_external_data,
    load_external_data_for_model,
    write_external_data_tensors,
)
from refeed.onnx.files import (
    load,
    load_from_string,
    load_model,
    load_model_from_string,
    load_tensor,
    load_tensor_from_string,
    save,
    save_model,
    save_tensor,
)

# These use the names above.
from refeed.onnx import builder, checker, compose, shape_inference, utils, verify  # isort: skip

ONNX_ML = True
"""The messages are those with traditional machine learning, as in every `onnx` package today."""

__all__ = [
    *messages.__all__,
    "ONNX_ML",
    "verify",
    "utils",
    "shape_inference",
    "compose",
    "checker",
    "builder",
    "convert_model_to_external_data",
    "descriptor",
    "external_data_helper",
    "files",
    "helper",
    "load",
    "load_external_data_for_model",
    "load_from_string",
    "load_model",
    "load_model_from_string",
    "load_tensor",
    "load_tensor_from_string",
    "messages",
    "numpy_helper",
    "onnx_pb",
    "parser",
    "printer",
    "save",
    "save_model",
    "save_tensor",
    "write_external_data_tensors",
]
