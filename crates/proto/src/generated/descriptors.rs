// Written by `cargo xtask codegen` from proto/onnx.proto. Do not edit.

use super::{EnumDescriptor, EnumValue, FieldDescriptor, Kind, MessageDescriptor, OneofDescriptor};

/// `onnx.ModelProto`.
pub static MODEL_PROTO: MessageDescriptor = MessageDescriptor {
    name: "ModelProto",
    full_name: "onnx.ModelProto",
    doc: "A whole model file.",
    ordinal: 0,
    fields: &[
        FieldDescriptor { name: "ir_version", number: 1, slot: 0, place: 0, kind: Kind::Int64, repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "opset_import", number: 8, slot: 1, place: 7, kind: Kind::Message(&OPERATOR_SET_ID_PROTO), repeated: true, packed: false, oneof: None, retired: false, doc: "Operator sets whose names the graph may use, one version a domain." },
        FieldDescriptor { name: "producer_name", number: 2, slot: 2, place: 1, kind: Kind::String, repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "producer_version", number: 3, slot: 3, place: 2, kind: Kind::String, repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "domain", number: 4, slot: 4, place: 3, kind: Kind::String, repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "model_version", number: 5, slot: 5, place: 4, kind: Kind::Int64, repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "doc_string", number: 6, slot: 6, place: 5, kind: Kind::String, repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "graph", number: 7, slot: 7, place: 6, kind: Kind::Message(&GRAPH_PROTO), repeated: false, packed: false, oneof: None, retired: false, doc: "The root graph." },
        FieldDescriptor { name: "metadata_props", number: 14, slot: 8, place: 8, kind: Kind::Message(&STRING_STRING_ENTRY_PROTO), repeated: true, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "training_info", number: 20, slot: 9, place: 9, kind: Kind::Message(&TRAINING_INFO_PROTO), repeated: true, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "functions", number: 25, slot: 10, place: 10, kind: Kind::Message(&FUNCTION_PROTO), repeated: true, packed: false, oneof: None, retired: false, doc: "Operators that the model defines itself." },
        FieldDescriptor { name: "configuration", number: 26, slot: 11, place: 11, kind: Kind::Message(&DEVICE_CONFIGURATION_PROTO), repeated: true, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "struct_types", number: 1000, slot: 12, place: 12, kind: Kind::Message(&STRUCT_TYPE_PROTO), repeated: true, packed: false, oneof: None, retired: false, doc: "Extension. Catalogue of structured types; each entry has its own nonzero `type_id`." },
    ],
    by_number: &[0, 2, 3, 4, 5, 6, 7, 1, 8, 9, 10, 11, 12],
    low: [0, 1, 3, 4, 5, 6, 7, 8, 2, 0, 0, 0, 0, 0, 9, 0, 0, 0, 0, 0, 10, 0, 0, 0, 0, 11, 12, 0, 0, 0, 0, 0],
    oneofs: &[
    ],
    messages: &[],
    enums: &[],
};

/// `onnx.OperatorSetIdProto`.
pub static OPERATOR_SET_ID_PROTO: MessageDescriptor = MessageDescriptor {
    name: "OperatorSetIdProto",
    full_name: "onnx.OperatorSetIdProto",
    doc: "A version of the operators of one domain; the empty domain is ONNX's own.",
    ordinal: 1,
    fields: &[
        FieldDescriptor { name: "domain", number: 1, slot: 0, place: 0, kind: Kind::String, repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "version", number: 2, slot: 1, place: 1, kind: Kind::Int64, repeated: false, packed: false, oneof: None, retired: false, doc: "" },
    ],
    by_number: &[0, 1],
    low: [0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    oneofs: &[
    ],
    messages: &[],
    enums: &[],
};

/// `onnx.GraphProto`.
pub static GRAPH_PROTO: MessageDescriptor = MessageDescriptor {
    name: "GraphProto",
    full_name: "onnx.GraphProto",
    doc: "Nodes in topological order, with the values that enter and leave.",
    ordinal: 2,
    fields: &[
        FieldDescriptor { name: "node", number: 1, slot: 0, place: 0, kind: Kind::Message(&NODE_PROTO), repeated: true, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "name", number: 2, slot: 1, place: 1, kind: Kind::String, repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "initializer", number: 5, slot: 2, place: 2, kind: Kind::Message(&TENSOR_PROTO), repeated: true, packed: false, oneof: None, retired: false, doc: "Named constants. One may also be the default of a graph input." },
        FieldDescriptor { name: "sparse_initializer", number: 15, slot: 3, place: 8, kind: Kind::Message(&SPARSE_TENSOR_PROTO), repeated: true, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "doc_string", number: 10, slot: 4, place: 3, kind: Kind::String, repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "input", number: 11, slot: 5, place: 4, kind: Kind::Message(&VALUE_INFO_PROTO), repeated: true, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "output", number: 12, slot: 6, place: 5, kind: Kind::Message(&VALUE_INFO_PROTO), repeated: true, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "value_info", number: 13, slot: 7, place: 6, kind: Kind::Message(&VALUE_INFO_PROTO), repeated: true, packed: false, oneof: None, retired: false, doc: "Types of values in between, as far as they are known." },
        FieldDescriptor { name: "quantization_annotation", number: 14, slot: 8, place: 7, kind: Kind::Message(&TENSOR_ANNOTATION), repeated: true, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "metadata_props", number: 16, slot: 9, place: 9, kind: Kind::Message(&STRING_STRING_ENTRY_PROTO), repeated: true, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "encoded_initializer", number: 1000, slot: 10, place: 10, kind: Kind::Message(&ENCODED_VALUE_PROTO), repeated: true, packed: false, oneof: None, retired: false, doc: "Extension. Named encoded constants." },
        FieldDescriptor { name: "persistent_bindings", number: 1001, slot: 11, place: 11, kind: Kind::Message(&PERSISTENT_BINDING_PROTO), repeated: true, packed: false, oneof: None, retired: false, doc: "Extension. Which output feeds which input of the next call; root graph only." },
        FieldDescriptor { name: "paged_cache_initializer", number: 1002, slot: 12, place: 12, kind: Kind::Message(&PAGED_CACHE_PROTO), repeated: true, packed: false, oneof: None, retired: false, doc: "Extension. Named paged caches." },
    ],
    by_number: &[0, 1, 2, 4, 5, 6, 7, 8, 3, 9, 10, 11, 12],
    low: [0, 1, 2, 0, 0, 3, 0, 0, 0, 0, 5, 6, 7, 8, 9, 4, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    oneofs: &[
    ],
    messages: &[],
    enums: &[],
};

/// `onnx.NodeProto`.
pub static NODE_PROTO: MessageDescriptor = MessageDescriptor {
    name: "NodeProto",
    full_name: "onnx.NodeProto",
    doc: "One call of an operator. An empty name among inputs or outputs stands for an omitted optional value.",
    ordinal: 3,
    fields: &[
        FieldDescriptor { name: "input", number: 1, slot: 0, place: 0, kind: Kind::String, repeated: true, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "output", number: 2, slot: 1, place: 1, kind: Kind::String, repeated: true, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "name", number: 3, slot: 2, place: 2, kind: Kind::String, repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "op_type", number: 4, slot: 3, place: 3, kind: Kind::String, repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "domain", number: 7, slot: 4, place: 6, kind: Kind::String, repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "overload", number: 8, slot: 5, place: 7, kind: Kind::String, repeated: false, packed: false, oneof: None, retired: false, doc: "Picks one of several functions of the same domain and name." },
        FieldDescriptor { name: "attribute", number: 5, slot: 6, place: 4, kind: Kind::Message(&ATTRIBUTE_PROTO), repeated: true, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "doc_string", number: 6, slot: 7, place: 5, kind: Kind::String, repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "metadata_props", number: 9, slot: 8, place: 8, kind: Kind::Message(&STRING_STRING_ENTRY_PROTO), repeated: true, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "device_configurations", number: 10, slot: 9, place: 9, kind: Kind::Message(&NODE_DEVICE_CONFIGURATION_PROTO), repeated: true, packed: false, oneof: None, retired: false, doc: "" },
    ],
    by_number: &[0, 1, 2, 3, 6, 7, 4, 5, 8, 9],
    low: [0, 1, 2, 3, 4, 7, 8, 5, 6, 9, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    oneofs: &[
    ],
    messages: &[],
    enums: &[],
};

/// `onnx.AttributeProto.AttributeType`.
pub static ATTRIBUTE_PROTO_ATTRIBUTE_TYPE: EnumDescriptor = EnumDescriptor {
    name: "AttributeType",
    full_name: "onnx.AttributeProto.AttributeType",
    doc: "",
    values: &[
        EnumValue { name: "UNDEFINED", number: 0 },
        EnumValue { name: "FLOAT", number: 1 },
        EnumValue { name: "INT", number: 2 },
        EnumValue { name: "STRING", number: 3 },
        EnumValue { name: "TENSOR", number: 4 },
        EnumValue { name: "GRAPH", number: 5 },
        EnumValue { name: "SPARSE_TENSOR", number: 11 },
        EnumValue { name: "TYPE_PROTO", number: 13 },
        EnumValue { name: "FLOATS", number: 6 },
        EnumValue { name: "INTS", number: 7 },
        EnumValue { name: "STRINGS", number: 8 },
        EnumValue { name: "TENSORS", number: 9 },
        EnumValue { name: "GRAPHS", number: 10 },
        EnumValue { name: "SPARSE_TENSORS", number: 12 },
        EnumValue { name: "TYPE_PROTOS", number: 14 },
    ],
};

/// `onnx.AttributeProto`.
pub static ATTRIBUTE_PROTO: MessageDescriptor = MessageDescriptor {
    name: "AttributeProto",
    full_name: "onnx.AttributeProto",
    doc: "A named constant of a node; `type` says which of the payload fields carries it.",
    ordinal: 4,
    fields: &[
        FieldDescriptor { name: "name", number: 1, slot: 0, place: 0, kind: Kind::String, repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "ref_attr_name", number: 21, slot: 1, place: 15, kind: Kind::String, repeated: false, packed: false, oneof: None, retired: false, doc: "Inside a function body: the function's attribute whose value this one takes." },
        FieldDescriptor { name: "doc_string", number: 13, slot: 2, place: 11, kind: Kind::String, repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "type", number: 20, slot: 3, place: 14, kind: Kind::Enum(&ATTRIBUTE_PROTO_ATTRIBUTE_TYPE), repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "f", number: 2, slot: 4, place: 1, kind: Kind::Float, repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "i", number: 3, slot: 5, place: 2, kind: Kind::Int64, repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "s", number: 4, slot: 6, place: 3, kind: Kind::Bytes, repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "t", number: 5, slot: 7, place: 4, kind: Kind::Message(&TENSOR_PROTO), repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "g", number: 6, slot: 8, place: 5, kind: Kind::Message(&GRAPH_PROTO), repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "sparse_tensor", number: 22, slot: 9, place: 16, kind: Kind::Message(&SPARSE_TENSOR_PROTO), repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "tp", number: 14, slot: 10, place: 12, kind: Kind::Message(&TYPE_PROTO), repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "floats", number: 7, slot: 11, place: 6, kind: Kind::Float, repeated: true, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "ints", number: 8, slot: 12, place: 7, kind: Kind::Int64, repeated: true, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "strings", number: 9, slot: 13, place: 8, kind: Kind::Bytes, repeated: true, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "tensors", number: 10, slot: 14, place: 9, kind: Kind::Message(&TENSOR_PROTO), repeated: true, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "graphs", number: 11, slot: 15, place: 10, kind: Kind::Message(&GRAPH_PROTO), repeated: true, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "sparse_tensors", number: 23, slot: 16, place: 17, kind: Kind::Message(&SPARSE_TENSOR_PROTO), repeated: true, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "type_protos", number: 15, slot: 17, place: 13, kind: Kind::Message(&TYPE_PROTO), repeated: true, packed: false, oneof: None, retired: false, doc: "" },
    ],
    by_number: &[0, 4, 5, 6, 7, 8, 11, 12, 13, 14, 15, 2, 10, 17, 3, 1, 9, 16],
    low: [0, 1, 5, 6, 7, 8, 9, 12, 13, 14, 15, 16, 0, 3, 11, 18, 0, 0, 0, 0, 4, 2, 10, 17, 0, 0, 0, 0, 0, 0, 0, 0],
    oneofs: &[
    ],
    messages: &[],
    enums: &[&ATTRIBUTE_PROTO_ATTRIBUTE_TYPE],
};

/// `onnx.FunctionProto`.
pub static FUNCTION_PROTO: MessageDescriptor = MessageDescriptor {
    name: "FunctionProto",
    full_name: "onnx.FunctionProto",
    doc: "An operator written as nodes of other operators.",
    ordinal: 5,
    fields: &[
        FieldDescriptor { name: "name", number: 1, slot: 0, place: 0, kind: Kind::String, repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "input", number: 4, slot: 1, place: 1, kind: Kind::String, repeated: true, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "output", number: 5, slot: 2, place: 2, kind: Kind::String, repeated: true, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "attribute", number: 6, slot: 3, place: 3, kind: Kind::String, repeated: true, packed: false, oneof: None, retired: false, doc: "Attributes without a default." },
        FieldDescriptor { name: "attribute_proto", number: 11, slot: 4, place: 8, kind: Kind::Message(&ATTRIBUTE_PROTO), repeated: true, packed: false, oneof: None, retired: false, doc: "Attributes with a default." },
        FieldDescriptor { name: "node", number: 7, slot: 5, place: 4, kind: Kind::Message(&NODE_PROTO), repeated: true, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "doc_string", number: 8, slot: 6, place: 5, kind: Kind::String, repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "opset_import", number: 9, slot: 7, place: 6, kind: Kind::Message(&OPERATOR_SET_ID_PROTO), repeated: true, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "domain", number: 10, slot: 8, place: 7, kind: Kind::String, repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "overload", number: 13, slot: 9, place: 10, kind: Kind::String, repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "value_info", number: 12, slot: 10, place: 9, kind: Kind::Message(&VALUE_INFO_PROTO), repeated: true, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "metadata_props", number: 14, slot: 11, place: 11, kind: Kind::Message(&STRING_STRING_ENTRY_PROTO), repeated: true, packed: false, oneof: None, retired: false, doc: "" },
    ],
    by_number: &[0, 1, 2, 3, 5, 6, 7, 8, 4, 10, 9, 11],
    low: [0, 1, 0, 0, 2, 3, 4, 6, 7, 8, 9, 5, 11, 10, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    oneofs: &[
    ],
    messages: &[],
    enums: &[],
};

/// `onnx.TrainingInfoProto`.
pub static TRAINING_INFO_PROTO: MessageDescriptor = MessageDescriptor {
    name: "TrainingInfoProto",
    full_name: "onnx.TrainingInfoProto",
    doc: "Graphs that train the model; refeed keeps them and does not run them.",
    ordinal: 6,
    fields: &[
        FieldDescriptor { name: "initialization", number: 1, slot: 0, place: 0, kind: Kind::Message(&GRAPH_PROTO), repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "algorithm", number: 2, slot: 1, place: 1, kind: Kind::Message(&GRAPH_PROTO), repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "initialization_binding", number: 3, slot: 2, place: 2, kind: Kind::Message(&STRING_STRING_ENTRY_PROTO), repeated: true, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "update_binding", number: 4, slot: 3, place: 3, kind: Kind::Message(&STRING_STRING_ENTRY_PROTO), repeated: true, packed: false, oneof: None, retired: false, doc: "" },
    ],
    by_number: &[0, 1, 2, 3],
    low: [0, 1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    oneofs: &[
    ],
    messages: &[],
    enums: &[],
};

/// `onnx.StringStringEntryProto`.
pub static STRING_STRING_ENTRY_PROTO: MessageDescriptor = MessageDescriptor {
    name: "StringStringEntryProto",
    full_name: "onnx.StringStringEntryProto",
    doc: "A key with its value.",
    ordinal: 7,
    fields: &[
        FieldDescriptor { name: "key", number: 1, slot: 0, place: 0, kind: Kind::String, repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "value", number: 2, slot: 1, place: 1, kind: Kind::String, repeated: false, packed: false, oneof: None, retired: false, doc: "" },
    ],
    by_number: &[0, 1],
    low: [0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    oneofs: &[
    ],
    messages: &[],
    enums: &[],
};

/// `onnx.TensorAnnotation`.
pub static TENSOR_ANNOTATION: MessageDescriptor = MessageDescriptor {
    name: "TensorAnnotation",
    full_name: "onnx.TensorAnnotation",
    doc: "Names of the tensors that quantise one tensor.",
    ordinal: 8,
    fields: &[
        FieldDescriptor { name: "tensor_name", number: 1, slot: 0, place: 0, kind: Kind::String, repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "quant_parameter_tensor_names", number: 2, slot: 1, place: 1, kind: Kind::Message(&STRING_STRING_ENTRY_PROTO), repeated: true, packed: false, oneof: None, retired: false, doc: "" },
    ],
    by_number: &[0, 1],
    low: [0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    oneofs: &[
    ],
    messages: &[],
    enums: &[],
};

/// `onnx.DeviceConfigurationProto`.
pub static DEVICE_CONFIGURATION_PROTO: MessageDescriptor = MessageDescriptor {
    name: "DeviceConfigurationProto",
    full_name: "onnx.DeviceConfigurationProto",
    doc: "A named set of devices that nodes may refer to.",
    ordinal: 9,
    fields: &[
        FieldDescriptor { name: "name", number: 1, slot: 0, place: 0, kind: Kind::String, repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "num_devices", number: 2, slot: 1, place: 1, kind: Kind::Int32, repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "device", number: 3, slot: 2, place: 2, kind: Kind::String, repeated: true, packed: false, oneof: None, retired: false, doc: "" },
    ],
    by_number: &[0, 1, 2],
    low: [0, 1, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    oneofs: &[
    ],
    messages: &[],
    enums: &[],
};

/// `onnx.NodeDeviceConfigurationProto`.
pub static NODE_DEVICE_CONFIGURATION_PROTO: MessageDescriptor = MessageDescriptor {
    name: "NodeDeviceConfigurationProto",
    full_name: "onnx.NodeDeviceConfigurationProto",
    doc: "How one node is spread over a device configuration.",
    ordinal: 10,
    fields: &[
        FieldDescriptor { name: "configuration_id", number: 1, slot: 0, place: 0, kind: Kind::String, repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "sharding_spec", number: 2, slot: 1, place: 1, kind: Kind::Message(&SHARDING_SPEC_PROTO), repeated: true, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "pipeline_stage", number: 3, slot: 2, place: 2, kind: Kind::Int32, repeated: false, packed: false, oneof: None, retired: false, doc: "" },
    ],
    by_number: &[0, 1, 2],
    low: [0, 1, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    oneofs: &[
    ],
    messages: &[],
    enums: &[],
};

/// `onnx.ShardingSpecProto`.
pub static SHARDING_SPEC_PROTO: MessageDescriptor = MessageDescriptor {
    name: "ShardingSpecProto",
    full_name: "onnx.ShardingSpecProto",
    doc: "How one input or output of a node is spread over devices.",
    ordinal: 11,
    fields: &[
        FieldDescriptor { name: "tensor_name", number: 1, slot: 0, place: 0, kind: Kind::String, repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "device", number: 2, slot: 1, place: 1, kind: Kind::Int64, repeated: true, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "index_to_device_group_map", number: 3, slot: 2, place: 2, kind: Kind::Message(&INT_INT_LIST_ENTRY_PROTO), repeated: true, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "sharded_dim", number: 4, slot: 3, place: 3, kind: Kind::Message(&SHARDED_DIM_PROTO), repeated: true, packed: false, oneof: None, retired: false, doc: "" },
    ],
    by_number: &[0, 1, 2, 3],
    low: [0, 1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    oneofs: &[
    ],
    messages: &[],
    enums: &[],
};

/// `onnx.ShardedDimProto`.
pub static SHARDED_DIM_PROTO: MessageDescriptor = MessageDescriptor {
    name: "ShardedDimProto",
    full_name: "onnx.ShardedDimProto",
    doc: "One spread axis.",
    ordinal: 12,
    fields: &[
        FieldDescriptor { name: "axis", number: 1, slot: 0, place: 0, kind: Kind::Int64, repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "simple_sharding", number: 2, slot: 1, place: 1, kind: Kind::Message(&SIMPLE_SHARDED_DIM_PROTO), repeated: true, packed: false, oneof: None, retired: false, doc: "" },
    ],
    by_number: &[0, 1],
    low: [0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    oneofs: &[
    ],
    messages: &[],
    enums: &[],
};

/// `onnx.SimpleShardedDimProto`.
pub static SIMPLE_SHARDED_DIM_PROTO: MessageDescriptor = MessageDescriptor {
    name: "SimpleShardedDimProto",
    full_name: "onnx.SimpleShardedDimProto",
    doc: "A part of a spread axis.",
    ordinal: 13,
    fields: &[
        FieldDescriptor { name: "dim_value", number: 1, slot: 0, place: 0, kind: Kind::Int64, repeated: false, packed: false, oneof: Some(0), retired: false, doc: "" },
        FieldDescriptor { name: "dim_param", number: 2, slot: 1, place: 1, kind: Kind::String, repeated: false, packed: false, oneof: Some(0), retired: false, doc: "" },
        FieldDescriptor { name: "num_shards", number: 3, slot: 2, place: 2, kind: Kind::Int64, repeated: false, packed: false, oneof: None, retired: false, doc: "" },
    ],
    by_number: &[0, 1, 2],
    low: [0, 1, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    oneofs: &[
        OneofDescriptor { name: "dim", fields: &[0, 1] },
    ],
    messages: &[],
    enums: &[],
};

/// `onnx.IntIntListEntryProto`.
pub static INT_INT_LIST_ENTRY_PROTO: MessageDescriptor = MessageDescriptor {
    name: "IntIntListEntryProto",
    full_name: "onnx.IntIntListEntryProto",
    doc: "An integer with a list of integers.",
    ordinal: 14,
    fields: &[
        FieldDescriptor { name: "key", number: 1, slot: 0, place: 0, kind: Kind::Int64, repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "value", number: 2, slot: 1, place: 1, kind: Kind::Int64, repeated: true, packed: false, oneof: None, retired: false, doc: "" },
    ],
    by_number: &[0, 1],
    low: [0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    oneofs: &[
    ],
    messages: &[],
    enums: &[],
};

/// `onnx.TensorProto.Segment`.
pub static TENSOR_PROTO_SEGMENT: MessageDescriptor = MessageDescriptor {
    name: "Segment",
    full_name: "onnx.TensorProto.Segment",
    doc: "A part of a tensor that is stored in pieces.",
    ordinal: 15,
    fields: &[
        FieldDescriptor { name: "begin", number: 1, slot: 0, place: 0, kind: Kind::Int64, repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "end", number: 2, slot: 1, place: 1, kind: Kind::Int64, repeated: false, packed: false, oneof: None, retired: false, doc: "" },
    ],
    by_number: &[0, 1],
    low: [0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    oneofs: &[
    ],
    messages: &[],
    enums: &[],
};

/// `onnx.TensorProto.DataType`.
pub static TENSOR_PROTO_DATA_TYPE: EnumDescriptor = EnumDescriptor {
    name: "DataType",
    full_name: "onnx.TensorProto.DataType",
    doc: "",
    values: &[
        EnumValue { name: "UNDEFINED", number: 0 },
        EnumValue { name: "FLOAT", number: 1 },
        EnumValue { name: "UINT8", number: 2 },
        EnumValue { name: "INT8", number: 3 },
        EnumValue { name: "UINT16", number: 4 },
        EnumValue { name: "INT16", number: 5 },
        EnumValue { name: "INT32", number: 6 },
        EnumValue { name: "INT64", number: 7 },
        EnumValue { name: "STRING", number: 8 },
        EnumValue { name: "BOOL", number: 9 },
        EnumValue { name: "FLOAT16", number: 10 },
        EnumValue { name: "DOUBLE", number: 11 },
        EnumValue { name: "UINT32", number: 12 },
        EnumValue { name: "UINT64", number: 13 },
        EnumValue { name: "COMPLEX64", number: 14 },
        EnumValue { name: "COMPLEX128", number: 15 },
        EnumValue { name: "BFLOAT16", number: 16 },
        EnumValue { name: "FLOAT8E4M3FN", number: 17 },
        EnumValue { name: "FLOAT8E4M3FNUZ", number: 18 },
        EnumValue { name: "FLOAT8E5M2", number: 19 },
        EnumValue { name: "FLOAT8E5M2FNUZ", number: 20 },
        EnumValue { name: "UINT4", number: 21 },
        EnumValue { name: "INT4", number: 22 },
        EnumValue { name: "FLOAT4E2M1", number: 23 },
        EnumValue { name: "FLOAT8E8M0", number: 24 },
        EnumValue { name: "UINT2", number: 25 },
        EnumValue { name: "INT2", number: 26 },
        EnumValue { name: "FLOAT6E2M3", number: 27 },
        EnumValue { name: "FLOAT6E3M2", number: 28 },
    ],
};

/// `onnx.TensorProto.DataLocation`.
pub static TENSOR_PROTO_DATA_LOCATION: EnumDescriptor = EnumDescriptor {
    name: "DataLocation",
    full_name: "onnx.TensorProto.DataLocation",
    doc: "",
    values: &[
        EnumValue { name: "DEFAULT", number: 0 },
        EnumValue { name: "EXTERNAL", number: 1 },
    ],
};

/// `onnx.TensorProto`.
pub static TENSOR_PROTO: MessageDescriptor = MessageDescriptor {
    name: "TensorProto",
    full_name: "onnx.TensorProto",
    doc: "A constant tensor. Its elements are in `raw_data`, in the typed field of its element type, or in another file.",
    ordinal: 16,
    fields: &[
        FieldDescriptor { name: "dims", number: 1, slot: 0, place: 0, kind: Kind::Int64, repeated: true, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "data_type", number: 2, slot: 1, place: 1, kind: Kind::Int32, repeated: false, packed: false, oneof: None, retired: false, doc: "A `DataType`; a plain integer on the wire, so that newer numbers survive." },
        FieldDescriptor { name: "segment", number: 3, slot: 2, place: 2, kind: Kind::Message(&TENSOR_PROTO_SEGMENT), repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "float_data", number: 4, slot: 3, place: 3, kind: Kind::Float, repeated: true, packed: true, oneof: None, retired: false, doc: "FLOAT and COMPLEX64 (real and imaginary parts in turn)." },
        FieldDescriptor { name: "int32_data", number: 5, slot: 4, place: 4, kind: Kind::Int32, repeated: true, packed: true, oneof: None, retired: false, doc: "INT32 and every type of 16 bits or less, FLOAT16 and the like by their bits." },
        FieldDescriptor { name: "string_data", number: 6, slot: 5, place: 5, kind: Kind::Bytes, repeated: true, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "int64_data", number: 7, slot: 6, place: 6, kind: Kind::Int64, repeated: true, packed: true, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "name", number: 8, slot: 7, place: 7, kind: Kind::String, repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "doc_string", number: 12, slot: 8, place: 11, kind: Kind::String, repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "raw_data", number: 9, slot: 9, place: 8, kind: Kind::Bytes, repeated: false, packed: false, oneof: None, retired: false, doc: "Little-endian elements, row by row; several to a byte for types under 8 bits." },
        FieldDescriptor { name: "external_data", number: 13, slot: 10, place: 12, kind: Kind::Message(&STRING_STRING_ENTRY_PROTO), repeated: true, packed: false, oneof: None, retired: false, doc: "`location`, `offset`, `length`, `checksum` of elements stored in another file." },
        FieldDescriptor { name: "data_location", number: 14, slot: 11, place: 13, kind: Kind::Enum(&TENSOR_PROTO_DATA_LOCATION), repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "double_data", number: 10, slot: 12, place: 9, kind: Kind::Double, repeated: true, packed: true, oneof: None, retired: false, doc: "DOUBLE and COMPLEX128 (real and imaginary parts in turn)." },
        FieldDescriptor { name: "uint64_data", number: 11, slot: 13, place: 10, kind: Kind::Uint64, repeated: true, packed: true, oneof: None, retired: false, doc: "UINT32 and UINT64." },
        FieldDescriptor { name: "metadata_props", number: 16, slot: 14, place: 14, kind: Kind::Message(&STRING_STRING_ENTRY_PROTO), repeated: true, packed: false, oneof: None, retired: false, doc: "" },
    ],
    by_number: &[0, 1, 2, 3, 4, 5, 6, 7, 9, 12, 13, 8, 10, 11, 14],
    low: [0, 1, 2, 3, 4, 5, 6, 7, 8, 10, 13, 14, 9, 11, 12, 0, 15, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    oneofs: &[
    ],
    messages: &[&TENSOR_PROTO_SEGMENT],
    enums: &[&TENSOR_PROTO_DATA_TYPE, &TENSOR_PROTO_DATA_LOCATION],
};

/// `onnx.SparseTensorProto`.
pub static SPARSE_TENSOR_PROTO: MessageDescriptor = MessageDescriptor {
    name: "SparseTensorProto",
    full_name: "onnx.SparseTensorProto",
    doc: "A tensor given by its nonzero elements and their positions.",
    ordinal: 17,
    fields: &[
        FieldDescriptor { name: "values", number: 1, slot: 0, place: 0, kind: Kind::Message(&TENSOR_PROTO), repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "indices", number: 2, slot: 1, place: 1, kind: Kind::Message(&TENSOR_PROTO), repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "dims", number: 3, slot: 2, place: 2, kind: Kind::Int64, repeated: true, packed: false, oneof: None, retired: false, doc: "" },
    ],
    by_number: &[0, 1, 2],
    low: [0, 1, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    oneofs: &[
    ],
    messages: &[],
    enums: &[],
};

/// `onnx.ValueInfoProto`.
pub static VALUE_INFO_PROTO: MessageDescriptor = MessageDescriptor {
    name: "ValueInfoProto",
    full_name: "onnx.ValueInfoProto",
    doc: "A value's name and type.",
    ordinal: 18,
    fields: &[
        FieldDescriptor { name: "name", number: 1, slot: 0, place: 0, kind: Kind::String, repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "type", number: 2, slot: 1, place: 1, kind: Kind::Message(&TYPE_PROTO), repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "doc_string", number: 3, slot: 2, place: 2, kind: Kind::String, repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "metadata_props", number: 4, slot: 3, place: 3, kind: Kind::Message(&STRING_STRING_ENTRY_PROTO), repeated: true, packed: false, oneof: None, retired: false, doc: "" },
    ],
    by_number: &[0, 1, 2, 3],
    low: [0, 1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    oneofs: &[
    ],
    messages: &[],
    enums: &[],
};

/// `onnx.TensorShapeProto.Dimension`.
pub static TENSOR_SHAPE_PROTO_DIMENSION: MessageDescriptor = MessageDescriptor {
    name: "Dimension",
    full_name: "onnx.TensorShapeProto.Dimension",
    doc: "",
    ordinal: 19,
    fields: &[
        FieldDescriptor { name: "dim_value", number: 1, slot: 0, place: 0, kind: Kind::Int64, repeated: false, packed: false, oneof: Some(0), retired: false, doc: "" },
        FieldDescriptor { name: "dim_param", number: 2, slot: 1, place: 1, kind: Kind::String, repeated: false, packed: false, oneof: Some(0), retired: false, doc: "" },
        FieldDescriptor { name: "denotation", number: 3, slot: 2, place: 2, kind: Kind::String, repeated: false, packed: false, oneof: None, retired: false, doc: "" },
    ],
    by_number: &[0, 1, 2],
    low: [0, 1, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    oneofs: &[
        OneofDescriptor { name: "value", fields: &[0, 1] },
    ],
    messages: &[],
    enums: &[],
};

/// `onnx.TensorShapeProto`.
pub static TENSOR_SHAPE_PROTO: MessageDescriptor = MessageDescriptor {
    name: "TensorShapeProto",
    full_name: "onnx.TensorShapeProto",
    doc: "The dimensions of a tensor, each a number, a symbol or unknown.",
    ordinal: 20,
    fields: &[
        FieldDescriptor { name: "dim", number: 1, slot: 0, place: 0, kind: Kind::Message(&TENSOR_SHAPE_PROTO_DIMENSION), repeated: true, packed: false, oneof: None, retired: false, doc: "" },
    ],
    by_number: &[0],
    low: [0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    oneofs: &[
    ],
    messages: &[&TENSOR_SHAPE_PROTO_DIMENSION],
    enums: &[],
};

/// `onnx.TypeProto.Tensor`.
pub static TYPE_PROTO_TENSOR: MessageDescriptor = MessageDescriptor {
    name: "Tensor",
    full_name: "onnx.TypeProto.Tensor",
    doc: "",
    ordinal: 21,
    fields: &[
        FieldDescriptor { name: "elem_type", number: 1, slot: 0, place: 0, kind: Kind::Int32, repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "shape", number: 2, slot: 1, place: 1, kind: Kind::Message(&TENSOR_SHAPE_PROTO), repeated: false, packed: false, oneof: None, retired: false, doc: "" },
    ],
    by_number: &[0, 1],
    low: [0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    oneofs: &[
    ],
    messages: &[],
    enums: &[],
};

/// `onnx.TypeProto.Sequence`.
pub static TYPE_PROTO_SEQUENCE: MessageDescriptor = MessageDescriptor {
    name: "Sequence",
    full_name: "onnx.TypeProto.Sequence",
    doc: "",
    ordinal: 22,
    fields: &[
        FieldDescriptor { name: "elem_type", number: 1, slot: 0, place: 0, kind: Kind::Message(&TYPE_PROTO), repeated: false, packed: false, oneof: None, retired: false, doc: "" },
    ],
    by_number: &[0],
    low: [0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    oneofs: &[
    ],
    messages: &[],
    enums: &[],
};

/// `onnx.TypeProto.Map`.
pub static TYPE_PROTO_MAP: MessageDescriptor = MessageDescriptor {
    name: "Map",
    full_name: "onnx.TypeProto.Map",
    doc: "",
    ordinal: 23,
    fields: &[
        FieldDescriptor { name: "key_type", number: 1, slot: 0, place: 0, kind: Kind::Int32, repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "value_type", number: 2, slot: 1, place: 1, kind: Kind::Message(&TYPE_PROTO), repeated: false, packed: false, oneof: None, retired: false, doc: "" },
    ],
    by_number: &[0, 1],
    low: [0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    oneofs: &[
    ],
    messages: &[],
    enums: &[],
};

/// `onnx.TypeProto.Optional`.
pub static TYPE_PROTO_OPTIONAL: MessageDescriptor = MessageDescriptor {
    name: "Optional",
    full_name: "onnx.TypeProto.Optional",
    doc: "",
    ordinal: 24,
    fields: &[
        FieldDescriptor { name: "elem_type", number: 1, slot: 0, place: 0, kind: Kind::Message(&TYPE_PROTO), repeated: false, packed: false, oneof: None, retired: false, doc: "" },
    ],
    by_number: &[0],
    low: [0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    oneofs: &[
    ],
    messages: &[],
    enums: &[],
};

/// `onnx.TypeProto.SparseTensor`.
pub static TYPE_PROTO_SPARSE_TENSOR: MessageDescriptor = MessageDescriptor {
    name: "SparseTensor",
    full_name: "onnx.TypeProto.SparseTensor",
    doc: "",
    ordinal: 25,
    fields: &[
        FieldDescriptor { name: "elem_type", number: 1, slot: 0, place: 0, kind: Kind::Int32, repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "shape", number: 2, slot: 1, place: 1, kind: Kind::Message(&TENSOR_SHAPE_PROTO), repeated: false, packed: false, oneof: None, retired: false, doc: "" },
    ],
    by_number: &[0, 1],
    low: [0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    oneofs: &[
    ],
    messages: &[],
    enums: &[],
};

/// `onnx.TypeProto.Opaque`.
pub static TYPE_PROTO_OPAQUE: MessageDescriptor = MessageDescriptor {
    name: "Opaque",
    full_name: "onnx.TypeProto.Opaque",
    doc: "",
    ordinal: 26,
    fields: &[
        FieldDescriptor { name: "domain", number: 1, slot: 0, place: 0, kind: Kind::String, repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "name", number: 2, slot: 1, place: 1, kind: Kind::String, repeated: false, packed: false, oneof: None, retired: false, doc: "" },
    ],
    by_number: &[0, 1],
    low: [0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    oneofs: &[
    ],
    messages: &[],
    enums: &[],
};

/// `onnx.TypeProto`.
pub static TYPE_PROTO: MessageDescriptor = MessageDescriptor {
    name: "TypeProto",
    full_name: "onnx.TypeProto",
    doc: "The type of a value.",
    ordinal: 27,
    fields: &[
        FieldDescriptor { name: "tensor_type", number: 1, slot: 0, place: 0, kind: Kind::Message(&TYPE_PROTO_TENSOR), repeated: false, packed: false, oneof: Some(0), retired: false, doc: "" },
        FieldDescriptor { name: "sequence_type", number: 4, slot: 1, place: 1, kind: Kind::Message(&TYPE_PROTO_SEQUENCE), repeated: false, packed: false, oneof: Some(0), retired: false, doc: "" },
        FieldDescriptor { name: "map_type", number: 5, slot: 2, place: 2, kind: Kind::Message(&TYPE_PROTO_MAP), repeated: false, packed: false, oneof: Some(0), retired: false, doc: "" },
        FieldDescriptor { name: "optional_type", number: 9, slot: 3, place: 6, kind: Kind::Message(&TYPE_PROTO_OPTIONAL), repeated: false, packed: false, oneof: Some(0), retired: false, doc: "" },
        FieldDescriptor { name: "sparse_tensor_type", number: 8, slot: 4, place: 5, kind: Kind::Message(&TYPE_PROTO_SPARSE_TENSOR), repeated: false, packed: false, oneof: Some(0), retired: false, doc: "" },
        FieldDescriptor { name: "opaque_type", number: 7, slot: 5, place: 4, kind: Kind::Message(&TYPE_PROTO_OPAQUE), repeated: false, packed: false, oneof: Some(0), retired: false, doc: "" },
        FieldDescriptor { name: "struct_type", number: 1000, slot: 6, place: 7, kind: Kind::Message(&STRUCT_TYPE_PROTO), repeated: false, packed: false, oneof: Some(0), retired: false, doc: "Extension. A structured type; without a kind it stands for any of them." },
        FieldDescriptor { name: "denotation", number: 6, slot: 7, place: 3, kind: Kind::String, repeated: false, packed: false, oneof: None, retired: false, doc: "" },
    ],
    by_number: &[0, 1, 2, 7, 5, 4, 3, 6],
    low: [0, 1, 0, 0, 2, 3, 8, 6, 5, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    oneofs: &[
        OneofDescriptor { name: "value", fields: &[0, 1, 2, 3, 4, 5, 6] },
    ],
    messages: &[&TYPE_PROTO_TENSOR, &TYPE_PROTO_SEQUENCE, &TYPE_PROTO_MAP, &TYPE_PROTO_OPTIONAL, &TYPE_PROTO_SPARSE_TENSOR, &TYPE_PROTO_OPAQUE],
    enums: &[],
};

/// `onnx.SequenceProto.DataType`.
pub static SEQUENCE_PROTO_DATA_TYPE: EnumDescriptor = EnumDescriptor {
    name: "DataType",
    full_name: "onnx.SequenceProto.DataType",
    doc: "What the list holds.",
    values: &[
        EnumValue { name: "UNDEFINED", number: 0 },
        EnumValue { name: "TENSOR", number: 1 },
        EnumValue { name: "SPARSE_TENSOR", number: 2 },
        EnumValue { name: "SEQUENCE", number: 3 },
        EnumValue { name: "MAP", number: 4 },
        EnumValue { name: "OPTIONAL", number: 5 },
    ],
};

/// `onnx.SequenceProto`.
pub static SEQUENCE_PROTO: MessageDescriptor = MessageDescriptor {
    name: "SequenceProto",
    full_name: "onnx.SequenceProto",
    doc: "A list of values of one kind.",
    ordinal: 28,
    fields: &[
        FieldDescriptor { name: "name", number: 1, slot: 0, place: 0, kind: Kind::String, repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "elem_type", number: 2, slot: 1, place: 1, kind: Kind::Int32, repeated: false, packed: false, oneof: None, retired: false, doc: "A `DataType`." },
        FieldDescriptor { name: "tensor_values", number: 3, slot: 2, place: 2, kind: Kind::Message(&TENSOR_PROTO), repeated: true, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "sparse_tensor_values", number: 4, slot: 3, place: 3, kind: Kind::Message(&SPARSE_TENSOR_PROTO), repeated: true, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "sequence_values", number: 5, slot: 4, place: 4, kind: Kind::Message(&SEQUENCE_PROTO), repeated: true, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "map_values", number: 6, slot: 5, place: 5, kind: Kind::Message(&MAP_PROTO), repeated: true, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "optional_values", number: 7, slot: 6, place: 6, kind: Kind::Message(&OPTIONAL_PROTO), repeated: true, packed: false, oneof: None, retired: false, doc: "" },
    ],
    by_number: &[0, 1, 2, 3, 4, 5, 6],
    low: [0, 1, 2, 3, 4, 5, 6, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    oneofs: &[
    ],
    messages: &[],
    enums: &[&SEQUENCE_PROTO_DATA_TYPE],
};

/// `onnx.MapProto`.
pub static MAP_PROTO: MessageDescriptor = MessageDescriptor {
    name: "MapProto",
    full_name: "onnx.MapProto",
    doc: "Values by key: the keys in one list, the values in another of the same length.",
    ordinal: 29,
    fields: &[
        FieldDescriptor { name: "name", number: 1, slot: 0, place: 0, kind: Kind::String, repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "key_type", number: 2, slot: 1, place: 1, kind: Kind::Int32, repeated: false, packed: false, oneof: None, retired: false, doc: "A `TensorProto.DataType`: an integer type or STRING." },
        FieldDescriptor { name: "keys", number: 3, slot: 2, place: 2, kind: Kind::Int64, repeated: true, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "string_keys", number: 4, slot: 3, place: 3, kind: Kind::Bytes, repeated: true, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "values", number: 5, slot: 4, place: 4, kind: Kind::Message(&SEQUENCE_PROTO), repeated: false, packed: false, oneof: None, retired: false, doc: "" },
    ],
    by_number: &[0, 1, 2, 3, 4],
    low: [0, 1, 2, 3, 4, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    oneofs: &[
    ],
    messages: &[],
    enums: &[],
};

/// `onnx.OptionalProto.DataType`.
pub static OPTIONAL_PROTO_DATA_TYPE: EnumDescriptor = EnumDescriptor {
    name: "DataType",
    full_name: "onnx.OptionalProto.DataType",
    doc: "What the value is.",
    values: &[
        EnumValue { name: "UNDEFINED", number: 0 },
        EnumValue { name: "TENSOR", number: 1 },
        EnumValue { name: "SPARSE_TENSOR", number: 2 },
        EnumValue { name: "SEQUENCE", number: 3 },
        EnumValue { name: "MAP", number: 4 },
        EnumValue { name: "OPTIONAL", number: 5 },
    ],
};

/// `onnx.OptionalProto`.
pub static OPTIONAL_PROTO: MessageDescriptor = MessageDescriptor {
    name: "OptionalProto",
    full_name: "onnx.OptionalProto",
    doc: "A value, or none.",
    ordinal: 30,
    fields: &[
        FieldDescriptor { name: "name", number: 1, slot: 0, place: 0, kind: Kind::String, repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "elem_type", number: 2, slot: 1, place: 1, kind: Kind::Int32, repeated: false, packed: false, oneof: None, retired: false, doc: "A `DataType`." },
        FieldDescriptor { name: "tensor_value", number: 3, slot: 2, place: 2, kind: Kind::Message(&TENSOR_PROTO), repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "sparse_tensor_value", number: 4, slot: 3, place: 3, kind: Kind::Message(&SPARSE_TENSOR_PROTO), repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "sequence_value", number: 5, slot: 4, place: 4, kind: Kind::Message(&SEQUENCE_PROTO), repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "map_value", number: 6, slot: 5, place: 5, kind: Kind::Message(&MAP_PROTO), repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "optional_value", number: 7, slot: 6, place: 6, kind: Kind::Message(&OPTIONAL_PROTO), repeated: false, packed: false, oneof: None, retired: false, doc: "" },
    ],
    by_number: &[0, 1, 2, 3, 4, 5, 6],
    low: [0, 1, 2, 3, 4, 5, 6, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    oneofs: &[
    ],
    messages: &[],
    enums: &[&OPTIONAL_PROTO_DATA_TYPE],
};

/// `onnx.OperatorProto`.
pub static OPERATOR_PROTO: MessageDescriptor = MessageDescriptor {
    name: "OperatorProto",
    full_name: "onnx.OperatorProto",
    doc: "One operator.",
    ordinal: 31,
    fields: &[
        FieldDescriptor { name: "op_type", number: 1, slot: 0, place: 0, kind: Kind::String, repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "since_version", number: 2, slot: 1, place: 1, kind: Kind::Int64, repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "status", number: 3, slot: 2, place: 2, kind: Kind::Enum(&OPERATOR_STATUS), repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "doc_string", number: 10, slot: 3, place: 3, kind: Kind::String, repeated: false, packed: false, oneof: None, retired: false, doc: "" },
    ],
    by_number: &[0, 1, 2, 3],
    low: [0, 1, 2, 3, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    oneofs: &[
    ],
    messages: &[],
    enums: &[],
};

/// `onnx.OperatorSetProto`.
pub static OPERATOR_SET_PROTO: MessageDescriptor = MessageDescriptor {
    name: "OperatorSetProto",
    full_name: "onnx.OperatorSetProto",
    doc: "The operators of one domain at one version.",
    ordinal: 32,
    fields: &[
        FieldDescriptor { name: "magic", number: 1, slot: 0, place: 0, kind: Kind::String, repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "ir_version", number: 2, slot: 1, place: 1, kind: Kind::Int64, repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "ir_version_prerelease", number: 3, slot: 2, place: 2, kind: Kind::String, repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "ir_build_metadata", number: 7, slot: 3, place: 6, kind: Kind::String, repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "domain", number: 4, slot: 4, place: 3, kind: Kind::String, repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "opset_version", number: 5, slot: 5, place: 4, kind: Kind::Int64, repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "doc_string", number: 6, slot: 6, place: 5, kind: Kind::String, repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "operator", number: 8, slot: 7, place: 7, kind: Kind::Message(&OPERATOR_PROTO), repeated: true, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "functions", number: 9, slot: 8, place: 8, kind: Kind::Message(&FUNCTION_PROTO), repeated: true, packed: false, oneof: None, retired: false, doc: "" },
    ],
    by_number: &[0, 1, 2, 4, 5, 6, 3, 7, 8],
    low: [0, 1, 2, 3, 5, 6, 7, 4, 8, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    oneofs: &[
    ],
    messages: &[],
    enums: &[],
};

/// `onnx.PersistentBindingProto`.
pub static PERSISTENT_BINDING_PROTO: MessageDescriptor = MessageDescriptor {
    name: "PersistentBindingProto",
    full_name: "onnx.PersistentBindingProto",
    doc: "After a call, the value of graph output `output_name` becomes graph input `input_name` of the next call.",
    ordinal: 33,
    fields: &[
        FieldDescriptor { name: "input_name", number: 1, slot: 0, place: 0, kind: Kind::String, repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "output_name", number: 2, slot: 1, place: 1, kind: Kind::String, repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "retired_input_field_path", number: 3, slot: 2, place: 2, kind: Kind::Bytes, repeated: false, packed: false, oneof: None, retired: true, doc: "Paths into parts of a value, from an early draft. Declared so that validation sees and refuses them: a binding always moves a whole value." },
        FieldDescriptor { name: "retired_output_field_path", number: 4, slot: 3, place: 3, kind: Kind::Bytes, repeated: false, packed: false, oneof: None, retired: true, doc: "" },
    ],
    by_number: &[0, 1, 2, 3],
    low: [0, 1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    oneofs: &[
    ],
    messages: &[],
    enums: &[],
};

/// `onnx.PagedCacheProto`.
pub static PAGED_CACHE_PROTO: MessageDescriptor = MessageDescriptor {
    name: "PagedCacheProto",
    full_name: "onnx.PagedCacheProto",
    doc: "A cache of keys and values in pages.",
    ordinal: 34,
    fields: &[
        FieldDescriptor { name: "blocks", number: 1, slot: 0, place: 0, kind: Kind::Message(&PAGED_CACHE_BLOCK_PROTO), repeated: true, packed: false, oneof: None, retired: false, doc: "Pages in the order of their positions." },
        FieldDescriptor { name: "name", number: 2, slot: 1, place: 1, kind: Kind::String, repeated: false, packed: false, oneof: None, retired: false, doc: "The initializer's name in its graph, unique among initializers of all kinds." },
        FieldDescriptor { name: "doc_string", number: 3, slot: 2, place: 2, kind: Kind::String, repeated: false, packed: false, oneof: None, retired: false, doc: "What people should know of it." },
    ],
    by_number: &[0, 1, 2],
    low: [0, 1, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    oneofs: &[
    ],
    messages: &[],
    enums: &[],
};

/// `onnx.PagedCacheBlockProto`.
pub static PAGED_CACHE_BLOCK_PROTO: MessageDescriptor = MessageDescriptor {
    name: "PagedCacheBlockProto",
    full_name: "onnx.PagedCacheBlockProto",
    doc: "One page: `length` positions from `start` on. Both numbers must be present.",
    ordinal: 35,
    fields: &[
        FieldDescriptor { name: "start", number: 1, slot: 0, place: 0, kind: Kind::Int64, repeated: false, packed: false, oneof: None, retired: false, doc: "Position of the page's first token." },
        FieldDescriptor { name: "length", number: 2, slot: 1, place: 1, kind: Kind::Int64, repeated: false, packed: false, oneof: None, retired: false, doc: "Number of tokens that are there: at least 1, at most the rows of the payloads." },
        FieldDescriptor { name: "key", number: 3, slot: 2, place: 2, kind: Kind::Message(&TENSOR_PROTO), repeated: false, packed: false, oneof: Some(0), retired: false, doc: "Dense keys, `[batch, heads, rows, width]`." },
        FieldDescriptor { name: "encoded_key", number: 5, slot: 3, place: 4, kind: Kind::Message(&ENCODED_VALUE_PROTO), repeated: false, packed: false, oneof: Some(0), retired: false, doc: "Encoded keys." },
        FieldDescriptor { name: "value", number: 4, slot: 4, place: 3, kind: Kind::Message(&TENSOR_PROTO), repeated: false, packed: false, oneof: Some(1), retired: false, doc: "Dense values, `[batch, heads, rows, width]`." },
        FieldDescriptor { name: "encoded_value", number: 6, slot: 5, place: 5, kind: Kind::Message(&ENCODED_VALUE_PROTO), repeated: false, packed: false, oneof: Some(1), retired: false, doc: "Encoded values." },
    ],
    by_number: &[0, 1, 2, 4, 3, 5],
    low: [0, 1, 2, 3, 5, 4, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    oneofs: &[
        OneofDescriptor { name: "key_payload", fields: &[2, 3] },
        OneofDescriptor { name: "value_payload", fields: &[4, 5] },
    ],
    messages: &[],
    enums: &[],
};

/// `onnx.EncodedValueProto`.
pub static ENCODED_VALUE_PROTO: MessageDescriptor = MessageDescriptor {
    name: "EncodedValueProto",
    full_name: "onnx.EncodedValueProto",
    doc: "Bytes with the layout that decodes them.",
    ordinal: 36,
    fields: &[
        FieldDescriptor { name: "affine", number: 1, slot: 0, place: 0, kind: Kind::Message(&AFFINE_LAYOUT_PROTO), repeated: false, packed: false, oneof: Some(0), retired: false, doc: "" },
        FieldDescriptor { name: "struct_type", number: 2, slot: 1, place: 1, kind: Kind::Message(&STRUCT_TYPE_PROTO), repeated: false, packed: false, oneof: Some(0), retired: false, doc: "" },
        FieldDescriptor { name: "logical_type", number: 3, slot: 2, place: 2, kind: Kind::Message(&TYPE_PROTO), repeated: false, packed: false, oneof: None, retired: false, doc: "Type of the decoded value." },
        FieldDescriptor { name: "raw_data", number: 4, slot: 3, place: 3, kind: Kind::Bytes, repeated: false, packed: false, oneof: None, retired: false, doc: "The encoded bytes. Present and empty means zero records." },
        FieldDescriptor { name: "external_data", number: 5, slot: 4, place: 4, kind: Kind::Message(&STRING_STRING_ENTRY_PROTO), repeated: true, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "data_location", number: 6, slot: 5, place: 5, kind: Kind::Enum(&TENSOR_PROTO_DATA_LOCATION), repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "name", number: 7, slot: 6, place: 6, kind: Kind::String, repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "doc_string", number: 8, slot: 7, place: 7, kind: Kind::String, repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "parameter_ref", number: 10, slot: 8, place: 8, kind: Kind::String, repeated: false, packed: false, oneof: None, retired: false, doc: "Name of a set of quantisation parameters that the model shares." },
    ],
    by_number: &[0, 1, 2, 3, 4, 5, 6, 7, 8],
    low: [0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    oneofs: &[
        OneofDescriptor { name: "layout", fields: &[0, 1] },
    ],
    messages: &[],
    enums: &[],
};

/// `onnx.AffineLayoutProto`.
pub static AFFINE_LAYOUT_PROTO: MessageDescriptor = MessageDescriptor {
    name: "AffineLayoutProto",
    full_name: "onnx.AffineLayoutProto",
    doc: "Integer codes that stand for `(code - zero_point) * scale`.",
    ordinal: 37,
    fields: &[
        FieldDescriptor { name: "storage_type", number: 1, slot: 0, place: 0, kind: Kind::Enum(&TENSOR_PROTO_DATA_TYPE), repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "scale", number: 2, slot: 1, place: 1, kind: Kind::Message(&TENSOR_PROTO), repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "zero_point", number: 3, slot: 2, place: 2, kind: Kind::Message(&TENSOR_PROTO), repeated: false, packed: false, oneof: None, retired: false, doc: "Of the storage type and the shape of `scale`; absent means 0." },
        FieldDescriptor { name: "axis", number: 4, slot: 3, place: 3, kind: Kind::Int64, repeated: false, packed: false, oneof: None, retired: false, doc: "Axis along which the parameters change; absent means one scale for the whole tensor." },
        FieldDescriptor { name: "block_size", number: 5, slot: 4, place: 4, kind: Kind::Uint64, repeated: false, packed: false, oneof: None, retired: false, doc: "Elements along `axis` that share parameters." },
        FieldDescriptor { name: "signed_storage", number: 6, slot: 5, place: 5, kind: Kind::Bool, repeated: false, packed: false, oneof: None, retired: false, doc: "Instead of `storage_type`: signed or unsigned codes whose width follows from the payload size." },
    ],
    by_number: &[0, 1, 2, 3, 4, 5],
    low: [0, 1, 2, 3, 4, 5, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    oneofs: &[
    ],
    messages: &[],
    enums: &[],
};

/// `onnx.StructTypeProto.Array`.
pub static STRUCT_TYPE_PROTO_ARRAY: MessageDescriptor = MessageDescriptor {
    name: "Array",
    full_name: "onnx.StructTypeProto.Array",
    doc: "`dimension` elements of one type.",
    ordinal: 38,
    fields: &[
        FieldDescriptor { name: "element_type", number: 1, slot: 0, place: 0, kind: Kind::Message(&TYPE_PROTO), repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "dimension", number: 2, slot: 1, place: 1, kind: Kind::Uint64, repeated: false, packed: false, oneof: None, retired: false, doc: "" },
    ],
    by_number: &[0, 1],
    low: [0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    oneofs: &[
    ],
    messages: &[],
    enums: &[],
};

/// `onnx.StructTypeProto.Structure.Field`.
pub static STRUCT_TYPE_PROTO_STRUCTURE_FIELD: MessageDescriptor = MessageDescriptor {
    name: "Field",
    full_name: "onnx.StructTypeProto.Structure.Field",
    doc: "",
    ordinal: 39,
    fields: &[
        FieldDescriptor { name: "name", number: 1, slot: 0, place: 0, kind: Kind::String, repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "type", number: 2, slot: 1, place: 1, kind: Kind::Message(&TYPE_PROTO), repeated: false, packed: false, oneof: Some(0), retired: false, doc: "A field that each record stores." },
        FieldDescriptor { name: "constant", number: 4, slot: 2, place: 3, kind: Kind::Message(&TENSOR_PROTO), repeated: false, packed: false, oneof: Some(0), retired: false, doc: "A field with the same value in every record; records do not store it." },
        FieldDescriptor { name: "doc_string", number: 3, slot: 3, place: 2, kind: Kind::String, repeated: false, packed: false, oneof: None, retired: false, doc: "" },
    ],
    by_number: &[0, 1, 3, 2],
    low: [0, 1, 2, 4, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    oneofs: &[
        OneofDescriptor { name: "content", fields: &[1, 2] },
    ],
    messages: &[],
    enums: &[],
};

/// `onnx.StructTypeProto.Structure`.
pub static STRUCT_TYPE_PROTO_STRUCTURE: MessageDescriptor = MessageDescriptor {
    name: "Structure",
    full_name: "onnx.StructTypeProto.Structure",
    doc: "Named fields in order.",
    ordinal: 40,
    fields: &[
        FieldDescriptor { name: "field", number: 1, slot: 0, place: 0, kind: Kind::Message(&STRUCT_TYPE_PROTO_STRUCTURE_FIELD), repeated: true, packed: false, oneof: None, retired: false, doc: "" },
    ],
    by_number: &[0],
    low: [0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    oneofs: &[
    ],
    messages: &[&STRUCT_TYPE_PROTO_STRUCTURE_FIELD],
    enums: &[],
};

/// `onnx.StructTypeProto.BitPacking.Component`.
pub static STRUCT_TYPE_PROTO_BIT_PACKING_COMPONENT: MessageDescriptor = MessageDescriptor {
    name: "Component",
    full_name: "onnx.StructTypeProto.BitPacking.Component",
    doc: "",
    ordinal: 41,
    fields: &[
        FieldDescriptor { name: "name", number: 1, slot: 0, place: 0, kind: Kind::String, repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "bit_width", number: 2, slot: 1, place: 1, kind: Kind::Uint32, repeated: false, packed: false, oneof: None, retired: false, doc: "" },
    ],
    by_number: &[0, 1],
    low: [0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    oneofs: &[
    ],
    messages: &[],
    enums: &[],
};

/// `onnx.StructTypeProto.BitPacking`.
pub static STRUCT_TYPE_PROTO_BIT_PACKING: MessageDescriptor = MessageDescriptor {
    name: "BitPacking",
    full_name: "onnx.StructTypeProto.BitPacking",
    doc: "`dimension` groups of unsigned integers, packed from the least significant bit on.",
    ordinal: 42,
    fields: &[
        FieldDescriptor { name: "component", number: 1, slot: 0, place: 0, kind: Kind::Message(&STRUCT_TYPE_PROTO_BIT_PACKING_COMPONENT), repeated: true, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "dimension", number: 2, slot: 1, place: 1, kind: Kind::Uint64, repeated: false, packed: false, oneof: None, retired: false, doc: "" },
    ],
    by_number: &[0, 1],
    low: [0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    oneofs: &[
    ],
    messages: &[&STRUCT_TYPE_PROTO_BIT_PACKING_COMPONENT],
    enums: &[],
};

/// `onnx.StructTypeProto`.
pub static STRUCT_TYPE_PROTO: MessageDescriptor = MessageDescriptor {
    name: "StructTypeProto",
    full_name: "onnx.StructTypeProto",
    doc: "A type whose values are made of parts, with tight bit packing.",
    ordinal: 43,
    fields: &[
        FieldDescriptor { name: "array", number: 1, slot: 0, place: 0, kind: Kind::Message(&STRUCT_TYPE_PROTO_ARRAY), repeated: false, packed: false, oneof: Some(0), retired: false, doc: "" },
        FieldDescriptor { name: "structure", number: 2, slot: 1, place: 1, kind: Kind::Message(&STRUCT_TYPE_PROTO_STRUCTURE), repeated: false, packed: false, oneof: Some(0), retired: false, doc: "" },
        FieldDescriptor { name: "bit_packing", number: 3, slot: 2, place: 2, kind: Kind::Message(&STRUCT_TYPE_PROTO_BIT_PACKING), repeated: false, packed: false, oneof: Some(0), retired: false, doc: "" },
        FieldDescriptor { name: "type_ref", number: 4, slot: 3, place: 3, kind: Kind::Uint64, repeated: false, packed: false, oneof: Some(0), retired: false, doc: "`type_id` of an entry of the model's catalogue." },
        FieldDescriptor { name: "decoder", number: 5, slot: 4, place: 4, kind: Kind::Message(&FUNCTION_PROTO), repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "encoder", number: 6, slot: 5, place: 5, kind: Kind::Message(&FUNCTION_PROTO), repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "name", number: 7, slot: 6, place: 6, kind: Kind::String, repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "doc_string", number: 8, slot: 7, place: 7, kind: Kind::String, repeated: false, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "metadata_props", number: 9, slot: 8, place: 8, kind: Kind::Message(&STRING_STRING_ENTRY_PROTO), repeated: true, packed: false, oneof: None, retired: false, doc: "" },
        FieldDescriptor { name: "type_id", number: 10, slot: 9, place: 9, kind: Kind::Uint64, repeated: false, packed: false, oneof: None, retired: false, doc: "Nonzero identity, in entries of the catalogue only." },
    ],
    by_number: &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
    low: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    oneofs: &[
        OneofDescriptor { name: "kind", fields: &[0, 1, 2, 3] },
    ],
    messages: &[&STRUCT_TYPE_PROTO_ARRAY, &STRUCT_TYPE_PROTO_STRUCTURE, &STRUCT_TYPE_PROTO_BIT_PACKING],
    enums: &[],
};

/// `onnx.Version`.
pub static VERSION: EnumDescriptor = EnumDescriptor {
    name: "Version",
    full_name: "onnx.Version",
    doc: "Versions of the intermediate representation. The last value is the newest one.",
    values: &[
        EnumValue { name: "_START_VERSION", number: 0 },
        EnumValue { name: "IR_VERSION_2017_10_10", number: 1 },
        EnumValue { name: "IR_VERSION_2017_10_30", number: 2 },
        EnumValue { name: "IR_VERSION_2017_11_3", number: 3 },
        EnumValue { name: "IR_VERSION_2019_1_22", number: 4 },
        EnumValue { name: "IR_VERSION_2019_3_18", number: 5 },
        EnumValue { name: "IR_VERSION_2019_9_19", number: 6 },
        EnumValue { name: "IR_VERSION_2020_5_8", number: 7 },
        EnumValue { name: "IR_VERSION_2021_7_30", number: 8 },
        EnumValue { name: "IR_VERSION_2023_5_5", number: 9 },
        EnumValue { name: "IR_VERSION_2024_3_25", number: 10 },
        EnumValue { name: "IR_VERSION_2025_05_12", number: 11 },
        EnumValue { name: "IR_VERSION_2025_08_26", number: 12 },
        EnumValue { name: "IR_VERSION_2025_11_06", number: 13 },
        EnumValue { name: "IR_VERSION", number: 14 },
    ],
};

/// `onnx.OperatorStatus`.
pub static OPERATOR_STATUS: EnumDescriptor = EnumDescriptor {
    name: "OperatorStatus",
    full_name: "onnx.OperatorStatus",
    doc: "Maturity of an operator definition.",
    values: &[
        EnumValue { name: "EXPERIMENTAL", number: 0 },
        EnumValue { name: "STABLE", number: 1 },
    ],
};

/// The messages that lie in no other, in the schema's order.
pub static MESSAGES: &[&MessageDescriptor] = &[
    &MODEL_PROTO,
    &OPERATOR_SET_ID_PROTO,
    &GRAPH_PROTO,
    &NODE_PROTO,
    &ATTRIBUTE_PROTO,
    &FUNCTION_PROTO,
    &TRAINING_INFO_PROTO,
    &STRING_STRING_ENTRY_PROTO,
    &TENSOR_ANNOTATION,
    &DEVICE_CONFIGURATION_PROTO,
    &NODE_DEVICE_CONFIGURATION_PROTO,
    &SHARDING_SPEC_PROTO,
    &SHARDED_DIM_PROTO,
    &SIMPLE_SHARDED_DIM_PROTO,
    &INT_INT_LIST_ENTRY_PROTO,
    &TENSOR_PROTO,
    &SPARSE_TENSOR_PROTO,
    &VALUE_INFO_PROTO,
    &TENSOR_SHAPE_PROTO,
    &TYPE_PROTO,
    &SEQUENCE_PROTO,
    &MAP_PROTO,
    &OPTIONAL_PROTO,
    &OPERATOR_PROTO,
    &OPERATOR_SET_PROTO,
    &PERSISTENT_BINDING_PROTO,
    &PAGED_CACHE_PROTO,
    &PAGED_CACHE_BLOCK_PROTO,
    &ENCODED_VALUE_PROTO,
    &AFFINE_LAYOUT_PROTO,
    &STRUCT_TYPE_PROTO,
];

/// The enums that lie in no other, in the schema's order.
pub static ENUMS: &[&EnumDescriptor] = &[
    &VERSION,
    &OPERATOR_STATUS,
];
