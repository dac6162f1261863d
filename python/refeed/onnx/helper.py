"""Make messages from Python values, and read them back: the names and arguments of `onnx.helper`.

Examples
--------
>>> from refeed.onnx import TensorProto, helper
>>> x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4])
>>> y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 4])
>>> graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "activation", [x], [y])
>>> helper.make_model(graph).opset_import[0].version
28
"""

from refeed.onnx._helper.attributes import (
    get_attribute_value,
    get_node_attr_value,
    make_attribute,
    make_attribute_ref,
)
from refeed.onnx._helper.containers import make_map, make_optional, make_sequence
from refeed.onnx._helper.dtypes import (
    get_all_tensor_dtypes,
    np_dtype_to_tensor_dtype,
    tensor_dtype_to_field,
    tensor_dtype_to_np_dtype,
    tensor_dtype_to_storage_tensor_dtype,
    tensor_dtype_to_string,
)
from refeed.onnx._helper.graphs import (
    AssignmentBindingType,
    make_function,
    make_graph,
    make_model,
    make_model_gen_version,
    make_node,
    make_operatorsetid,
    make_opsetid,
    make_training_info,
    set_metadata_props,
    set_model_props,
    strip_doc_string,
)
from refeed.onnx._helper.printable import (
    printable_attribute,
    printable_dim,
    printable_graph,
    printable_node,
    printable_tensor_proto,
    printable_type,
    printable_value_info,
)
from refeed.onnx._helper.tensors import make_sparse_tensor, make_tensor
from refeed.onnx._helper.types import (
    make_empty_tensor_value_info,
    make_map_type_proto,
    make_optional_type_proto,
    make_sequence_type_proto,
    make_sparse_tensor_type_proto,
    make_sparse_tensor_value_info,
    make_tensor_sequence_value_info,
    make_tensor_type_proto,
    make_tensor_value_info,
    make_value_info,
)
from refeed.onnx._helper.versions import (
    OP_SET_ID_VERSION_MAP,
    VERSION_TABLE,
    VersionMapType,
    VersionRowType,
    VersionTableType,
    find_min_ir_version_for,
)

__all__ = [
    "OP_SET_ID_VERSION_MAP",
    "VERSION_TABLE",
    "AssignmentBindingType",
    "VersionMapType",
    "VersionRowType",
    "VersionTableType",
    "find_min_ir_version_for",
    "get_all_tensor_dtypes",
    "get_attribute_value",
    "get_node_attr_value",
    "make_attribute",
    "make_attribute_ref",
    "make_empty_tensor_value_info",
    "make_function",
    "make_graph",
    "make_map",
    "make_map_type_proto",
    "make_model",
    "make_model_gen_version",
    "make_node",
    "make_operatorsetid",
    "make_opsetid",
    "make_optional",
    "make_optional_type_proto",
    "make_sequence",
    "make_sequence_type_proto",
    "make_sparse_tensor",
    "make_sparse_tensor_type_proto",
    "make_sparse_tensor_value_info",
    "make_tensor",
    "make_tensor_sequence_value_info",
    "make_tensor_type_proto",
    "make_tensor_value_info",
    "make_training_info",
    "make_value_info",
    "np_dtype_to_tensor_dtype",
    "printable_attribute",
    "printable_dim",
    "printable_graph",
    "printable_node",
    "printable_tensor_proto",
    "printable_type",
    "printable_value_info",
    "set_metadata_props",
    "set_model_props",
    "strip_doc_string",
    "tensor_dtype_to_field",
    "tensor_dtype_to_np_dtype",
    "tensor_dtype_to_storage_tensor_dtype",
    "tensor_dtype_to_string",
]
