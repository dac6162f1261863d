// Written by `cargo xtask codegen` from proto/onnx.proto. Do not edit.

use crate::convert::{Convert, Fault, Room, field, get, message, put, single};
use crate::message::{FrozenMessage, MessageDescriptor, Value, descriptors};

impl Convert for crate::ModelProto {
    const DESCRIPTOR: &'static MessageDescriptor = &descriptors::MODEL_PROTO;

    fn read(message: &FrozenMessage) -> Result<Self, Fault> {
        Ok(crate::ModelProto {
            ir_version: get(message, 0)?,
            opset_import: get(message, 1)?,
            producer_name: get(message, 2)?,
            producer_version: get(message, 3)?,
            domain: get(message, 4)?,
            model_version: get(message, 5)?,
            doc_string: get(message, 6)?,
            graph: get(message, 7)?,
            metadata_props: get(message, 8)?,
            training_info: get(message, 9)?,
            functions: get(message, 10)?,
            configuration: get(message, 11)?,
            struct_types: get(message, 12)?,
        })
    }

    fn write(&self, room: Room) -> Result<FrozenMessage, Fault> {
        let room = room.below(Self::DESCRIPTOR)?;
        let values: [Value; 13] = [
            put(&self.ir_version, room)?,
            put(&self.opset_import, room)?,
            put(&self.producer_name, room)?,
            put(&self.producer_version, room)?,
            put(&self.domain, room)?,
            put(&self.model_version, room)?,
            put(&self.doc_string, room)?,
            put(&self.graph, room)?,
            put(&self.metadata_props, room)?,
            put(&self.training_info, room)?,
            put(&self.functions, room)?,
            put(&self.configuration, room)?,
            put(&self.struct_types, room)?,
        ];
        message(Self::DESCRIPTOR, values)
    }
}
field!(crate::ModelProto);

impl Convert for crate::OperatorSetIdProto {
    const DESCRIPTOR: &'static MessageDescriptor = &descriptors::OPERATOR_SET_ID_PROTO;

    fn read(message: &FrozenMessage) -> Result<Self, Fault> {
        Ok(crate::OperatorSetIdProto {
            domain: get(message, 0)?,
            version: get(message, 1)?,
        })
    }

    fn write(&self, room: Room) -> Result<FrozenMessage, Fault> {
        let room = room.below(Self::DESCRIPTOR)?;
        let values: [Value; 2] = [
            put(&self.domain, room)?,
            put(&self.version, room)?,
        ];
        message(Self::DESCRIPTOR, values)
    }
}
field!(crate::OperatorSetIdProto);

impl Convert for crate::GraphProto {
    const DESCRIPTOR: &'static MessageDescriptor = &descriptors::GRAPH_PROTO;

    fn read(message: &FrozenMessage) -> Result<Self, Fault> {
        Ok(crate::GraphProto {
            node: get(message, 0)?,
            name: get(message, 1)?,
            initializer: get(message, 2)?,
            sparse_initializer: get(message, 3)?,
            doc_string: get(message, 4)?,
            input: get(message, 5)?,
            output: get(message, 6)?,
            value_info: get(message, 7)?,
            quantization_annotation: get(message, 8)?,
            metadata_props: get(message, 9)?,
            encoded_initializer: get(message, 10)?,
            persistent_bindings: get(message, 11)?,
            paged_cache_initializer: get(message, 12)?,
        })
    }

    fn write(&self, room: Room) -> Result<FrozenMessage, Fault> {
        let room = room.below(Self::DESCRIPTOR)?;
        let values: [Value; 13] = [
            put(&self.node, room)?,
            put(&self.name, room)?,
            put(&self.initializer, room)?,
            put(&self.sparse_initializer, room)?,
            put(&self.doc_string, room)?,
            put(&self.input, room)?,
            put(&self.output, room)?,
            put(&self.value_info, room)?,
            put(&self.quantization_annotation, room)?,
            put(&self.metadata_props, room)?,
            put(&self.encoded_initializer, room)?,
            put(&self.persistent_bindings, room)?,
            put(&self.paged_cache_initializer, room)?,
        ];
        message(Self::DESCRIPTOR, values)
    }
}
field!(crate::GraphProto);

impl Convert for crate::NodeProto {
    const DESCRIPTOR: &'static MessageDescriptor = &descriptors::NODE_PROTO;

    fn read(message: &FrozenMessage) -> Result<Self, Fault> {
        Ok(crate::NodeProto {
            input: get(message, 0)?,
            output: get(message, 1)?,
            name: get(message, 2)?,
            op_type: get(message, 3)?,
            domain: get(message, 4)?,
            overload: get(message, 5)?,
            attribute: get(message, 6)?,
            doc_string: get(message, 7)?,
            metadata_props: get(message, 8)?,
            device_configurations: get(message, 9)?,
        })
    }

    fn write(&self, room: Room) -> Result<FrozenMessage, Fault> {
        let room = room.below(Self::DESCRIPTOR)?;
        let values: [Value; 10] = [
            put(&self.input, room)?,
            put(&self.output, room)?,
            put(&self.name, room)?,
            put(&self.op_type, room)?,
            put(&self.domain, room)?,
            put(&self.overload, room)?,
            put(&self.attribute, room)?,
            put(&self.doc_string, room)?,
            put(&self.metadata_props, room)?,
            put(&self.device_configurations, room)?,
        ];
        message(Self::DESCRIPTOR, values)
    }
}
field!(crate::NodeProto);

impl Convert for crate::AttributeProto {
    const DESCRIPTOR: &'static MessageDescriptor = &descriptors::ATTRIBUTE_PROTO;

    fn read(message: &FrozenMessage) -> Result<Self, Fault> {
        Ok(crate::AttributeProto {
            name: get(message, 0)?,
            ref_attr_name: get(message, 1)?,
            doc_string: get(message, 2)?,
            r#type: get(message, 3)?,
            f: get(message, 4)?,
            i: get(message, 5)?,
            s: get(message, 6)?,
            t: get(message, 7)?,
            g: get(message, 8)?,
            sparse_tensor: get(message, 9)?,
            tp: get(message, 10)?,
            floats: get(message, 11)?,
            ints: get(message, 12)?,
            strings: get(message, 13)?,
            tensors: get(message, 14)?,
            graphs: get(message, 15)?,
            sparse_tensors: get(message, 16)?,
            type_protos: get(message, 17)?,
        })
    }

    fn write(&self, room: Room) -> Result<FrozenMessage, Fault> {
        let room = room.below(Self::DESCRIPTOR)?;
        let values: [Value; 18] = [
            put(&self.name, room)?,
            put(&self.ref_attr_name, room)?,
            put(&self.doc_string, room)?,
            put(&self.r#type, room)?,
            put(&self.f, room)?,
            put(&self.i, room)?,
            put(&self.s, room)?,
            put(&self.t, room)?,
            put(&self.g, room)?,
            put(&self.sparse_tensor, room)?,
            put(&self.tp, room)?,
            put(&self.floats, room)?,
            put(&self.ints, room)?,
            put(&self.strings, room)?,
            put(&self.tensors, room)?,
            put(&self.graphs, room)?,
            put(&self.sparse_tensors, room)?,
            put(&self.type_protos, room)?,
        ];
        message(Self::DESCRIPTOR, values)
    }
}
field!(crate::AttributeProto);

impl Convert for crate::FunctionProto {
    const DESCRIPTOR: &'static MessageDescriptor = &descriptors::FUNCTION_PROTO;

    fn read(message: &FrozenMessage) -> Result<Self, Fault> {
        Ok(crate::FunctionProto {
            name: get(message, 0)?,
            input: get(message, 1)?,
            output: get(message, 2)?,
            attribute: get(message, 3)?,
            attribute_proto: get(message, 4)?,
            node: get(message, 5)?,
            doc_string: get(message, 6)?,
            opset_import: get(message, 7)?,
            domain: get(message, 8)?,
            overload: get(message, 9)?,
            value_info: get(message, 10)?,
            metadata_props: get(message, 11)?,
        })
    }

    fn write(&self, room: Room) -> Result<FrozenMessage, Fault> {
        let room = room.below(Self::DESCRIPTOR)?;
        let values: [Value; 12] = [
            put(&self.name, room)?,
            put(&self.input, room)?,
            put(&self.output, room)?,
            put(&self.attribute, room)?,
            put(&self.attribute_proto, room)?,
            put(&self.node, room)?,
            put(&self.doc_string, room)?,
            put(&self.opset_import, room)?,
            put(&self.domain, room)?,
            put(&self.overload, room)?,
            put(&self.value_info, room)?,
            put(&self.metadata_props, room)?,
        ];
        message(Self::DESCRIPTOR, values)
    }
}
field!(crate::FunctionProto);

impl Convert for crate::TrainingInfoProto {
    const DESCRIPTOR: &'static MessageDescriptor = &descriptors::TRAINING_INFO_PROTO;

    fn read(message: &FrozenMessage) -> Result<Self, Fault> {
        Ok(crate::TrainingInfoProto {
            initialization: get(message, 0)?,
            algorithm: get(message, 1)?,
            initialization_binding: get(message, 2)?,
            update_binding: get(message, 3)?,
        })
    }

    fn write(&self, room: Room) -> Result<FrozenMessage, Fault> {
        let room = room.below(Self::DESCRIPTOR)?;
        let values: [Value; 4] = [
            put(&self.initialization, room)?,
            put(&self.algorithm, room)?,
            put(&self.initialization_binding, room)?,
            put(&self.update_binding, room)?,
        ];
        message(Self::DESCRIPTOR, values)
    }
}
field!(crate::TrainingInfoProto);

impl Convert for crate::StringStringEntryProto {
    const DESCRIPTOR: &'static MessageDescriptor = &descriptors::STRING_STRING_ENTRY_PROTO;

    fn read(message: &FrozenMessage) -> Result<Self, Fault> {
        Ok(crate::StringStringEntryProto {
            key: get(message, 0)?,
            value: get(message, 1)?,
        })
    }

    fn write(&self, room: Room) -> Result<FrozenMessage, Fault> {
        let room = room.below(Self::DESCRIPTOR)?;
        let values: [Value; 2] = [
            put(&self.key, room)?,
            put(&self.value, room)?,
        ];
        message(Self::DESCRIPTOR, values)
    }
}
field!(crate::StringStringEntryProto);

impl Convert for crate::TensorAnnotation {
    const DESCRIPTOR: &'static MessageDescriptor = &descriptors::TENSOR_ANNOTATION;

    fn read(message: &FrozenMessage) -> Result<Self, Fault> {
        Ok(crate::TensorAnnotation {
            tensor_name: get(message, 0)?,
            quant_parameter_tensor_names: get(message, 1)?,
        })
    }

    fn write(&self, room: Room) -> Result<FrozenMessage, Fault> {
        let room = room.below(Self::DESCRIPTOR)?;
        let values: [Value; 2] = [
            put(&self.tensor_name, room)?,
            put(&self.quant_parameter_tensor_names, room)?,
        ];
        message(Self::DESCRIPTOR, values)
    }
}
field!(crate::TensorAnnotation);

impl Convert for crate::DeviceConfigurationProto {
    const DESCRIPTOR: &'static MessageDescriptor = &descriptors::DEVICE_CONFIGURATION_PROTO;

    fn read(message: &FrozenMessage) -> Result<Self, Fault> {
        Ok(crate::DeviceConfigurationProto {
            name: get(message, 0)?,
            num_devices: get(message, 1)?,
            device: get(message, 2)?,
        })
    }

    fn write(&self, room: Room) -> Result<FrozenMessage, Fault> {
        let room = room.below(Self::DESCRIPTOR)?;
        let values: [Value; 3] = [
            put(&self.name, room)?,
            put(&self.num_devices, room)?,
            put(&self.device, room)?,
        ];
        message(Self::DESCRIPTOR, values)
    }
}
field!(crate::DeviceConfigurationProto);

impl Convert for crate::NodeDeviceConfigurationProto {
    const DESCRIPTOR: &'static MessageDescriptor = &descriptors::NODE_DEVICE_CONFIGURATION_PROTO;

    fn read(message: &FrozenMessage) -> Result<Self, Fault> {
        Ok(crate::NodeDeviceConfigurationProto {
            configuration_id: get(message, 0)?,
            sharding_spec: get(message, 1)?,
            pipeline_stage: get(message, 2)?,
        })
    }

    fn write(&self, room: Room) -> Result<FrozenMessage, Fault> {
        let room = room.below(Self::DESCRIPTOR)?;
        let values: [Value; 3] = [
            put(&self.configuration_id, room)?,
            put(&self.sharding_spec, room)?,
            put(&self.pipeline_stage, room)?,
        ];
        message(Self::DESCRIPTOR, values)
    }
}
field!(crate::NodeDeviceConfigurationProto);

impl Convert for crate::ShardingSpecProto {
    const DESCRIPTOR: &'static MessageDescriptor = &descriptors::SHARDING_SPEC_PROTO;

    fn read(message: &FrozenMessage) -> Result<Self, Fault> {
        Ok(crate::ShardingSpecProto {
            tensor_name: get(message, 0)?,
            device: get(message, 1)?,
            index_to_device_group_map: get(message, 2)?,
            sharded_dim: get(message, 3)?,
        })
    }

    fn write(&self, room: Room) -> Result<FrozenMessage, Fault> {
        let room = room.below(Self::DESCRIPTOR)?;
        let values: [Value; 4] = [
            put(&self.tensor_name, room)?,
            put(&self.device, room)?,
            put(&self.index_to_device_group_map, room)?,
            put(&self.sharded_dim, room)?,
        ];
        message(Self::DESCRIPTOR, values)
    }
}
field!(crate::ShardingSpecProto);

impl Convert for crate::ShardedDimProto {
    const DESCRIPTOR: &'static MessageDescriptor = &descriptors::SHARDED_DIM_PROTO;

    fn read(message: &FrozenMessage) -> Result<Self, Fault> {
        Ok(crate::ShardedDimProto {
            axis: get(message, 0)?,
            simple_sharding: get(message, 1)?,
        })
    }

    fn write(&self, room: Room) -> Result<FrozenMessage, Fault> {
        let room = room.below(Self::DESCRIPTOR)?;
        let values: [Value; 2] = [
            put(&self.axis, room)?,
            put(&self.simple_sharding, room)?,
        ];
        message(Self::DESCRIPTOR, values)
    }
}
field!(crate::ShardedDimProto);

impl Convert for crate::SimpleShardedDimProto {
    const DESCRIPTOR: &'static MessageDescriptor = &descriptors::SIMPLE_SHARDED_DIM_PROTO;

    fn read(message: &FrozenMessage) -> Result<Self, Fault> {
        Ok(crate::SimpleShardedDimProto {
            num_shards: get(message, 2)?,
            dim: if let Some(held) = get(message, 0)? {
                Some(crate::simple_sharded_dim_proto::Dim::DimValue(held))
            } else if let Some(held) = get(message, 1)? {
                Some(crate::simple_sharded_dim_proto::Dim::DimParam(held))
            } else {
                None
            },
        })
    }

    fn write(&self, room: Room) -> Result<FrozenMessage, Fault> {
        let room = room.below(Self::DESCRIPTOR)?;
        let values: [Value; 3] = [
            match &self.dim {
                Some(crate::simple_sharded_dim_proto::Dim::DimValue(held)) => single(held, room)?,
                _ => Value::Absent,
            },
            match &self.dim {
                Some(crate::simple_sharded_dim_proto::Dim::DimParam(held)) => single(held, room)?,
                _ => Value::Absent,
            },
            put(&self.num_shards, room)?,
        ];
        message(Self::DESCRIPTOR, values)
    }
}
field!(crate::SimpleShardedDimProto);

impl Convert for crate::IntIntListEntryProto {
    const DESCRIPTOR: &'static MessageDescriptor = &descriptors::INT_INT_LIST_ENTRY_PROTO;

    fn read(message: &FrozenMessage) -> Result<Self, Fault> {
        Ok(crate::IntIntListEntryProto {
            key: get(message, 0)?,
            value: get(message, 1)?,
        })
    }

    fn write(&self, room: Room) -> Result<FrozenMessage, Fault> {
        let room = room.below(Self::DESCRIPTOR)?;
        let values: [Value; 2] = [
            put(&self.key, room)?,
            put(&self.value, room)?,
        ];
        message(Self::DESCRIPTOR, values)
    }
}
field!(crate::IntIntListEntryProto);

impl Convert for crate::TensorProto {
    const DESCRIPTOR: &'static MessageDescriptor = &descriptors::TENSOR_PROTO;

    fn read(message: &FrozenMessage) -> Result<Self, Fault> {
        Ok(crate::TensorProto {
            dims: get(message, 0)?,
            data_type: get(message, 1)?,
            segment: get(message, 2)?,
            float_data: get(message, 3)?,
            int32_data: get(message, 4)?,
            string_data: get(message, 5)?,
            int64_data: get(message, 6)?,
            name: get(message, 7)?,
            doc_string: get(message, 8)?,
            raw_data: get(message, 9)?,
            external_data: get(message, 10)?,
            data_location: get(message, 11)?,
            double_data: get(message, 12)?,
            uint64_data: get(message, 13)?,
            metadata_props: get(message, 14)?,
        })
    }

    fn write(&self, room: Room) -> Result<FrozenMessage, Fault> {
        let room = room.below(Self::DESCRIPTOR)?;
        let values: [Value; 15] = [
            put(&self.dims, room)?,
            put(&self.data_type, room)?,
            put(&self.segment, room)?,
            put(&self.float_data, room)?,
            put(&self.int32_data, room)?,
            put(&self.string_data, room)?,
            put(&self.int64_data, room)?,
            put(&self.name, room)?,
            put(&self.doc_string, room)?,
            put(&self.raw_data, room)?,
            put(&self.external_data, room)?,
            put(&self.data_location, room)?,
            put(&self.double_data, room)?,
            put(&self.uint64_data, room)?,
            put(&self.metadata_props, room)?,
        ];
        message(Self::DESCRIPTOR, values)
    }
}
field!(crate::TensorProto);

impl Convert for crate::tensor_proto::Segment {
    const DESCRIPTOR: &'static MessageDescriptor = &descriptors::TENSOR_PROTO_SEGMENT;

    fn read(message: &FrozenMessage) -> Result<Self, Fault> {
        Ok(crate::tensor_proto::Segment {
            begin: get(message, 0)?,
            end: get(message, 1)?,
        })
    }

    fn write(&self, room: Room) -> Result<FrozenMessage, Fault> {
        let room = room.below(Self::DESCRIPTOR)?;
        let values: [Value; 2] = [
            put(&self.begin, room)?,
            put(&self.end, room)?,
        ];
        message(Self::DESCRIPTOR, values)
    }
}
field!(crate::tensor_proto::Segment);

impl Convert for crate::SparseTensorProto {
    const DESCRIPTOR: &'static MessageDescriptor = &descriptors::SPARSE_TENSOR_PROTO;

    fn read(message: &FrozenMessage) -> Result<Self, Fault> {
        Ok(crate::SparseTensorProto {
            values: get(message, 0)?,
            indices: get(message, 1)?,
            dims: get(message, 2)?,
        })
    }

    fn write(&self, room: Room) -> Result<FrozenMessage, Fault> {
        let room = room.below(Self::DESCRIPTOR)?;
        let values: [Value; 3] = [
            put(&self.values, room)?,
            put(&self.indices, room)?,
            put(&self.dims, room)?,
        ];
        message(Self::DESCRIPTOR, values)
    }
}
field!(crate::SparseTensorProto);

impl Convert for crate::ValueInfoProto {
    const DESCRIPTOR: &'static MessageDescriptor = &descriptors::VALUE_INFO_PROTO;

    fn read(message: &FrozenMessage) -> Result<Self, Fault> {
        Ok(crate::ValueInfoProto {
            name: get(message, 0)?,
            r#type: get(message, 1)?,
            doc_string: get(message, 2)?,
            metadata_props: get(message, 3)?,
        })
    }

    fn write(&self, room: Room) -> Result<FrozenMessage, Fault> {
        let room = room.below(Self::DESCRIPTOR)?;
        let values: [Value; 4] = [
            put(&self.name, room)?,
            put(&self.r#type, room)?,
            put(&self.doc_string, room)?,
            put(&self.metadata_props, room)?,
        ];
        message(Self::DESCRIPTOR, values)
    }
}
field!(crate::ValueInfoProto);

impl Convert for crate::TensorShapeProto {
    const DESCRIPTOR: &'static MessageDescriptor = &descriptors::TENSOR_SHAPE_PROTO;

    fn read(message: &FrozenMessage) -> Result<Self, Fault> {
        Ok(crate::TensorShapeProto {
            dim: get(message, 0)?,
        })
    }

    fn write(&self, room: Room) -> Result<FrozenMessage, Fault> {
        let room = room.below(Self::DESCRIPTOR)?;
        let values: [Value; 1] = [
            put(&self.dim, room)?,
        ];
        message(Self::DESCRIPTOR, values)
    }
}
field!(crate::TensorShapeProto);

impl Convert for crate::tensor_shape_proto::Dimension {
    const DESCRIPTOR: &'static MessageDescriptor = &descriptors::TENSOR_SHAPE_PROTO_DIMENSION;

    fn read(message: &FrozenMessage) -> Result<Self, Fault> {
        Ok(crate::tensor_shape_proto::Dimension {
            denotation: get(message, 2)?,
            value: if let Some(held) = get(message, 0)? {
                Some(crate::tensor_shape_proto::dimension::Value::DimValue(held))
            } else if let Some(held) = get(message, 1)? {
                Some(crate::tensor_shape_proto::dimension::Value::DimParam(held))
            } else {
                None
            },
        })
    }

    fn write(&self, room: Room) -> Result<FrozenMessage, Fault> {
        let room = room.below(Self::DESCRIPTOR)?;
        let values: [Value; 3] = [
            match &self.value {
                Some(crate::tensor_shape_proto::dimension::Value::DimValue(held)) => single(held, room)?,
                _ => Value::Absent,
            },
            match &self.value {
                Some(crate::tensor_shape_proto::dimension::Value::DimParam(held)) => single(held, room)?,
                _ => Value::Absent,
            },
            put(&self.denotation, room)?,
        ];
        message(Self::DESCRIPTOR, values)
    }
}
field!(crate::tensor_shape_proto::Dimension);

impl Convert for crate::TypeProto {
    const DESCRIPTOR: &'static MessageDescriptor = &descriptors::TYPE_PROTO;

    fn read(message: &FrozenMessage) -> Result<Self, Fault> {
        Ok(crate::TypeProto {
            denotation: get(message, 7)?,
            value: if let Some(held) = get(message, 0)? {
                Some(crate::type_proto::Value::TensorType(held))
            } else if let Some(held) = get(message, 1)? {
                Some(crate::type_proto::Value::SequenceType(held))
            } else if let Some(held) = get(message, 2)? {
                Some(crate::type_proto::Value::MapType(held))
            } else if let Some(held) = get(message, 3)? {
                Some(crate::type_proto::Value::OptionalType(held))
            } else if let Some(held) = get(message, 4)? {
                Some(crate::type_proto::Value::SparseTensorType(held))
            } else if let Some(held) = get(message, 5)? {
                Some(crate::type_proto::Value::OpaqueType(held))
            } else if let Some(held) = get(message, 6)? {
                Some(crate::type_proto::Value::StructType(held))
            } else {
                None
            },
        })
    }

    fn write(&self, room: Room) -> Result<FrozenMessage, Fault> {
        let room = room.below(Self::DESCRIPTOR)?;
        let values: [Value; 8] = [
            match &self.value {
                Some(crate::type_proto::Value::TensorType(held)) => single(held, room)?,
                _ => Value::Absent,
            },
            match &self.value {
                Some(crate::type_proto::Value::SequenceType(held)) => single(held, room)?,
                _ => Value::Absent,
            },
            match &self.value {
                Some(crate::type_proto::Value::MapType(held)) => single(held, room)?,
                _ => Value::Absent,
            },
            match &self.value {
                Some(crate::type_proto::Value::OptionalType(held)) => single(held, room)?,
                _ => Value::Absent,
            },
            match &self.value {
                Some(crate::type_proto::Value::SparseTensorType(held)) => single(held, room)?,
                _ => Value::Absent,
            },
            match &self.value {
                Some(crate::type_proto::Value::OpaqueType(held)) => single(held, room)?,
                _ => Value::Absent,
            },
            match &self.value {
                Some(crate::type_proto::Value::StructType(held)) => single(held, room)?,
                _ => Value::Absent,
            },
            put(&self.denotation, room)?,
        ];
        message(Self::DESCRIPTOR, values)
    }
}
field!(crate::TypeProto);

impl Convert for crate::type_proto::Tensor {
    const DESCRIPTOR: &'static MessageDescriptor = &descriptors::TYPE_PROTO_TENSOR;

    fn read(message: &FrozenMessage) -> Result<Self, Fault> {
        Ok(crate::type_proto::Tensor {
            elem_type: get(message, 0)?,
            shape: get(message, 1)?,
        })
    }

    fn write(&self, room: Room) -> Result<FrozenMessage, Fault> {
        let room = room.below(Self::DESCRIPTOR)?;
        let values: [Value; 2] = [
            put(&self.elem_type, room)?,
            put(&self.shape, room)?,
        ];
        message(Self::DESCRIPTOR, values)
    }
}
field!(crate::type_proto::Tensor);

impl Convert for crate::type_proto::Sequence {
    const DESCRIPTOR: &'static MessageDescriptor = &descriptors::TYPE_PROTO_SEQUENCE;

    fn read(message: &FrozenMessage) -> Result<Self, Fault> {
        Ok(crate::type_proto::Sequence {
            elem_type: get(message, 0)?,
        })
    }

    fn write(&self, room: Room) -> Result<FrozenMessage, Fault> {
        let room = room.below(Self::DESCRIPTOR)?;
        let values: [Value; 1] = [
            put(&self.elem_type, room)?,
        ];
        message(Self::DESCRIPTOR, values)
    }
}
field!(crate::type_proto::Sequence);

impl Convert for crate::type_proto::Map {
    const DESCRIPTOR: &'static MessageDescriptor = &descriptors::TYPE_PROTO_MAP;

    fn read(message: &FrozenMessage) -> Result<Self, Fault> {
        Ok(crate::type_proto::Map {
            key_type: get(message, 0)?,
            value_type: get(message, 1)?,
        })
    }

    fn write(&self, room: Room) -> Result<FrozenMessage, Fault> {
        let room = room.below(Self::DESCRIPTOR)?;
        let values: [Value; 2] = [
            put(&self.key_type, room)?,
            put(&self.value_type, room)?,
        ];
        message(Self::DESCRIPTOR, values)
    }
}
field!(crate::type_proto::Map);

impl Convert for crate::type_proto::Optional {
    const DESCRIPTOR: &'static MessageDescriptor = &descriptors::TYPE_PROTO_OPTIONAL;

    fn read(message: &FrozenMessage) -> Result<Self, Fault> {
        Ok(crate::type_proto::Optional {
            elem_type: get(message, 0)?,
        })
    }

    fn write(&self, room: Room) -> Result<FrozenMessage, Fault> {
        let room = room.below(Self::DESCRIPTOR)?;
        let values: [Value; 1] = [
            put(&self.elem_type, room)?,
        ];
        message(Self::DESCRIPTOR, values)
    }
}
field!(crate::type_proto::Optional);

impl Convert for crate::type_proto::SparseTensor {
    const DESCRIPTOR: &'static MessageDescriptor = &descriptors::TYPE_PROTO_SPARSE_TENSOR;

    fn read(message: &FrozenMessage) -> Result<Self, Fault> {
        Ok(crate::type_proto::SparseTensor {
            elem_type: get(message, 0)?,
            shape: get(message, 1)?,
        })
    }

    fn write(&self, room: Room) -> Result<FrozenMessage, Fault> {
        let room = room.below(Self::DESCRIPTOR)?;
        let values: [Value; 2] = [
            put(&self.elem_type, room)?,
            put(&self.shape, room)?,
        ];
        message(Self::DESCRIPTOR, values)
    }
}
field!(crate::type_proto::SparseTensor);

impl Convert for crate::type_proto::Opaque {
    const DESCRIPTOR: &'static MessageDescriptor = &descriptors::TYPE_PROTO_OPAQUE;

    fn read(message: &FrozenMessage) -> Result<Self, Fault> {
        Ok(crate::type_proto::Opaque {
            domain: get(message, 0)?,
            name: get(message, 1)?,
        })
    }

    fn write(&self, room: Room) -> Result<FrozenMessage, Fault> {
        let room = room.below(Self::DESCRIPTOR)?;
        let values: [Value; 2] = [
            put(&self.domain, room)?,
            put(&self.name, room)?,
        ];
        message(Self::DESCRIPTOR, values)
    }
}
field!(crate::type_proto::Opaque);

impl Convert for crate::SequenceProto {
    const DESCRIPTOR: &'static MessageDescriptor = &descriptors::SEQUENCE_PROTO;

    fn read(message: &FrozenMessage) -> Result<Self, Fault> {
        Ok(crate::SequenceProto {
            name: get(message, 0)?,
            elem_type: get(message, 1)?,
            tensor_values: get(message, 2)?,
            sparse_tensor_values: get(message, 3)?,
            sequence_values: get(message, 4)?,
            map_values: get(message, 5)?,
            optional_values: get(message, 6)?,
        })
    }

    fn write(&self, room: Room) -> Result<FrozenMessage, Fault> {
        let room = room.below(Self::DESCRIPTOR)?;
        let values: [Value; 7] = [
            put(&self.name, room)?,
            put(&self.elem_type, room)?,
            put(&self.tensor_values, room)?,
            put(&self.sparse_tensor_values, room)?,
            put(&self.sequence_values, room)?,
            put(&self.map_values, room)?,
            put(&self.optional_values, room)?,
        ];
        message(Self::DESCRIPTOR, values)
    }
}
field!(crate::SequenceProto);

impl Convert for crate::MapProto {
    const DESCRIPTOR: &'static MessageDescriptor = &descriptors::MAP_PROTO;

    fn read(message: &FrozenMessage) -> Result<Self, Fault> {
        Ok(crate::MapProto {
            name: get(message, 0)?,
            key_type: get(message, 1)?,
            keys: get(message, 2)?,
            string_keys: get(message, 3)?,
            values: get(message, 4)?,
        })
    }

    fn write(&self, room: Room) -> Result<FrozenMessage, Fault> {
        let room = room.below(Self::DESCRIPTOR)?;
        let values: [Value; 5] = [
            put(&self.name, room)?,
            put(&self.key_type, room)?,
            put(&self.keys, room)?,
            put(&self.string_keys, room)?,
            put(&self.values, room)?,
        ];
        message(Self::DESCRIPTOR, values)
    }
}
field!(crate::MapProto);

impl Convert for crate::OptionalProto {
    const DESCRIPTOR: &'static MessageDescriptor = &descriptors::OPTIONAL_PROTO;

    fn read(message: &FrozenMessage) -> Result<Self, Fault> {
        Ok(crate::OptionalProto {
            name: get(message, 0)?,
            elem_type: get(message, 1)?,
            tensor_value: get(message, 2)?,
            sparse_tensor_value: get(message, 3)?,
            sequence_value: get(message, 4)?,
            map_value: get(message, 5)?,
            optional_value: get(message, 6)?,
        })
    }

    fn write(&self, room: Room) -> Result<FrozenMessage, Fault> {
        let room = room.below(Self::DESCRIPTOR)?;
        let values: [Value; 7] = [
            put(&self.name, room)?,
            put(&self.elem_type, room)?,
            put(&self.tensor_value, room)?,
            put(&self.sparse_tensor_value, room)?,
            put(&self.sequence_value, room)?,
            put(&self.map_value, room)?,
            put(&self.optional_value, room)?,
        ];
        message(Self::DESCRIPTOR, values)
    }
}
field!(crate::OptionalProto);

impl Convert for crate::OperatorProto {
    const DESCRIPTOR: &'static MessageDescriptor = &descriptors::OPERATOR_PROTO;

    fn read(message: &FrozenMessage) -> Result<Self, Fault> {
        Ok(crate::OperatorProto {
            op_type: get(message, 0)?,
            since_version: get(message, 1)?,
            status: get(message, 2)?,
            doc_string: get(message, 3)?,
        })
    }

    fn write(&self, room: Room) -> Result<FrozenMessage, Fault> {
        let room = room.below(Self::DESCRIPTOR)?;
        let values: [Value; 4] = [
            put(&self.op_type, room)?,
            put(&self.since_version, room)?,
            put(&self.status, room)?,
            put(&self.doc_string, room)?,
        ];
        message(Self::DESCRIPTOR, values)
    }
}
field!(crate::OperatorProto);

impl Convert for crate::OperatorSetProto {
    const DESCRIPTOR: &'static MessageDescriptor = &descriptors::OPERATOR_SET_PROTO;

    fn read(message: &FrozenMessage) -> Result<Self, Fault> {
        Ok(crate::OperatorSetProto {
            magic: get(message, 0)?,
            ir_version: get(message, 1)?,
            ir_version_prerelease: get(message, 2)?,
            ir_build_metadata: get(message, 3)?,
            domain: get(message, 4)?,
            opset_version: get(message, 5)?,
            doc_string: get(message, 6)?,
            operator: get(message, 7)?,
            functions: get(message, 8)?,
        })
    }

    fn write(&self, room: Room) -> Result<FrozenMessage, Fault> {
        let room = room.below(Self::DESCRIPTOR)?;
        let values: [Value; 9] = [
            put(&self.magic, room)?,
            put(&self.ir_version, room)?,
            put(&self.ir_version_prerelease, room)?,
            put(&self.ir_build_metadata, room)?,
            put(&self.domain, room)?,
            put(&self.opset_version, room)?,
            put(&self.doc_string, room)?,
            put(&self.operator, room)?,
            put(&self.functions, room)?,
        ];
        message(Self::DESCRIPTOR, values)
    }
}
field!(crate::OperatorSetProto);

impl Convert for crate::PersistentBindingProto {
    const DESCRIPTOR: &'static MessageDescriptor = &descriptors::PERSISTENT_BINDING_PROTO;

    fn read(message: &FrozenMessage) -> Result<Self, Fault> {
        Ok(crate::PersistentBindingProto {
            input_name: get(message, 0)?,
            output_name: get(message, 1)?,
            retired_input_field_path: get(message, 2)?,
            retired_output_field_path: get(message, 3)?,
        })
    }

    fn write(&self, room: Room) -> Result<FrozenMessage, Fault> {
        let room = room.below(Self::DESCRIPTOR)?;
        let values: [Value; 4] = [
            put(&self.input_name, room)?,
            put(&self.output_name, room)?,
            put(&self.retired_input_field_path, room)?,
            put(&self.retired_output_field_path, room)?,
        ];
        message(Self::DESCRIPTOR, values)
    }
}
field!(crate::PersistentBindingProto);

impl Convert for crate::PagedCacheProto {
    const DESCRIPTOR: &'static MessageDescriptor = &descriptors::PAGED_CACHE_PROTO;

    fn read(message: &FrozenMessage) -> Result<Self, Fault> {
        Ok(crate::PagedCacheProto {
            blocks: get(message, 0)?,
            name: get(message, 1)?,
            doc_string: get(message, 2)?,
        })
    }

    fn write(&self, room: Room) -> Result<FrozenMessage, Fault> {
        let room = room.below(Self::DESCRIPTOR)?;
        let values: [Value; 3] = [
            put(&self.blocks, room)?,
            put(&self.name, room)?,
            put(&self.doc_string, room)?,
        ];
        message(Self::DESCRIPTOR, values)
    }
}
field!(crate::PagedCacheProto);

impl Convert for crate::PagedCacheBlockProto {
    const DESCRIPTOR: &'static MessageDescriptor = &descriptors::PAGED_CACHE_BLOCK_PROTO;

    fn read(message: &FrozenMessage) -> Result<Self, Fault> {
        Ok(crate::PagedCacheBlockProto {
            start: get(message, 0)?,
            length: get(message, 1)?,
            key_payload: if let Some(held) = get(message, 2)? {
                Some(crate::paged_cache_block_proto::KeyPayload::Key(held))
            } else if let Some(held) = get(message, 3)? {
                Some(crate::paged_cache_block_proto::KeyPayload::EncodedKey(held))
            } else {
                None
            },
            value_payload: if let Some(held) = get(message, 4)? {
                Some(crate::paged_cache_block_proto::ValuePayload::Value(held))
            } else if let Some(held) = get(message, 5)? {
                Some(crate::paged_cache_block_proto::ValuePayload::EncodedValue(held))
            } else {
                None
            },
        })
    }

    fn write(&self, room: Room) -> Result<FrozenMessage, Fault> {
        let room = room.below(Self::DESCRIPTOR)?;
        let values: [Value; 6] = [
            put(&self.start, room)?,
            put(&self.length, room)?,
            match &self.key_payload {
                Some(crate::paged_cache_block_proto::KeyPayload::Key(held)) => single(held, room)?,
                _ => Value::Absent,
            },
            match &self.key_payload {
                Some(crate::paged_cache_block_proto::KeyPayload::EncodedKey(held)) => single(held, room)?,
                _ => Value::Absent,
            },
            match &self.value_payload {
                Some(crate::paged_cache_block_proto::ValuePayload::Value(held)) => single(held, room)?,
                _ => Value::Absent,
            },
            match &self.value_payload {
                Some(crate::paged_cache_block_proto::ValuePayload::EncodedValue(held)) => single(held, room)?,
                _ => Value::Absent,
            },
        ];
        message(Self::DESCRIPTOR, values)
    }
}
field!(crate::PagedCacheBlockProto);

impl Convert for crate::EncodedValueProto {
    const DESCRIPTOR: &'static MessageDescriptor = &descriptors::ENCODED_VALUE_PROTO;

    fn read(message: &FrozenMessage) -> Result<Self, Fault> {
        Ok(crate::EncodedValueProto {
            logical_type: get(message, 2)?,
            raw_data: get(message, 3)?,
            external_data: get(message, 4)?,
            data_location: get(message, 5)?,
            name: get(message, 6)?,
            doc_string: get(message, 7)?,
            parameter_ref: get(message, 8)?,
            layout: if let Some(held) = get(message, 0)? {
                Some(crate::encoded_value_proto::Layout::Affine(held))
            } else if let Some(held) = get(message, 1)? {
                Some(crate::encoded_value_proto::Layout::StructType(held))
            } else {
                None
            },
        })
    }

    fn write(&self, room: Room) -> Result<FrozenMessage, Fault> {
        let room = room.below(Self::DESCRIPTOR)?;
        let values: [Value; 9] = [
            match &self.layout {
                Some(crate::encoded_value_proto::Layout::Affine(held)) => single(held, room)?,
                _ => Value::Absent,
            },
            match &self.layout {
                Some(crate::encoded_value_proto::Layout::StructType(held)) => single(held, room)?,
                _ => Value::Absent,
            },
            put(&self.logical_type, room)?,
            put(&self.raw_data, room)?,
            put(&self.external_data, room)?,
            put(&self.data_location, room)?,
            put(&self.name, room)?,
            put(&self.doc_string, room)?,
            put(&self.parameter_ref, room)?,
        ];
        message(Self::DESCRIPTOR, values)
    }
}
field!(crate::EncodedValueProto);

impl Convert for crate::AffineLayoutProto {
    const DESCRIPTOR: &'static MessageDescriptor = &descriptors::AFFINE_LAYOUT_PROTO;

    fn read(message: &FrozenMessage) -> Result<Self, Fault> {
        Ok(crate::AffineLayoutProto {
            storage_type: get(message, 0)?,
            scale: get(message, 1)?,
            zero_point: get(message, 2)?,
            axis: get(message, 3)?,
            block_size: get(message, 4)?,
            signed_storage: get(message, 5)?,
        })
    }

    fn write(&self, room: Room) -> Result<FrozenMessage, Fault> {
        let room = room.below(Self::DESCRIPTOR)?;
        let values: [Value; 6] = [
            put(&self.storage_type, room)?,
            put(&self.scale, room)?,
            put(&self.zero_point, room)?,
            put(&self.axis, room)?,
            put(&self.block_size, room)?,
            put(&self.signed_storage, room)?,
        ];
        message(Self::DESCRIPTOR, values)
    }
}
field!(crate::AffineLayoutProto);

impl Convert for crate::StructTypeProto {
    const DESCRIPTOR: &'static MessageDescriptor = &descriptors::STRUCT_TYPE_PROTO;

    fn read(message: &FrozenMessage) -> Result<Self, Fault> {
        Ok(crate::StructTypeProto {
            decoder: get(message, 4)?,
            encoder: get(message, 5)?,
            name: get(message, 6)?,
            doc_string: get(message, 7)?,
            metadata_props: get(message, 8)?,
            type_id: get(message, 9)?,
            kind: if let Some(held) = get(message, 0)? {
                Some(crate::struct_type_proto::Kind::Array(held))
            } else if let Some(held) = get(message, 1)? {
                Some(crate::struct_type_proto::Kind::Structure(held))
            } else if let Some(held) = get(message, 2)? {
                Some(crate::struct_type_proto::Kind::BitPacking(held))
            } else if let Some(held) = get(message, 3)? {
                Some(crate::struct_type_proto::Kind::TypeRef(held))
            } else {
                None
            },
        })
    }

    fn write(&self, room: Room) -> Result<FrozenMessage, Fault> {
        let room = room.below(Self::DESCRIPTOR)?;
        let values: [Value; 10] = [
            match &self.kind {
                Some(crate::struct_type_proto::Kind::Array(held)) => single(held, room)?,
                _ => Value::Absent,
            },
            match &self.kind {
                Some(crate::struct_type_proto::Kind::Structure(held)) => single(held, room)?,
                _ => Value::Absent,
            },
            match &self.kind {
                Some(crate::struct_type_proto::Kind::BitPacking(held)) => single(held, room)?,
                _ => Value::Absent,
            },
            match &self.kind {
                Some(crate::struct_type_proto::Kind::TypeRef(held)) => single(held, room)?,
                _ => Value::Absent,
            },
            put(&self.decoder, room)?,
            put(&self.encoder, room)?,
            put(&self.name, room)?,
            put(&self.doc_string, room)?,
            put(&self.metadata_props, room)?,
            put(&self.type_id, room)?,
        ];
        message(Self::DESCRIPTOR, values)
    }
}
field!(crate::StructTypeProto);

impl Convert for crate::struct_type_proto::Array {
    const DESCRIPTOR: &'static MessageDescriptor = &descriptors::STRUCT_TYPE_PROTO_ARRAY;

    fn read(message: &FrozenMessage) -> Result<Self, Fault> {
        Ok(crate::struct_type_proto::Array {
            element_type: get(message, 0)?,
            dimension: get(message, 1)?,
        })
    }

    fn write(&self, room: Room) -> Result<FrozenMessage, Fault> {
        let room = room.below(Self::DESCRIPTOR)?;
        let values: [Value; 2] = [
            put(&self.element_type, room)?,
            put(&self.dimension, room)?,
        ];
        message(Self::DESCRIPTOR, values)
    }
}
field!(crate::struct_type_proto::Array);

impl Convert for crate::struct_type_proto::Structure {
    const DESCRIPTOR: &'static MessageDescriptor = &descriptors::STRUCT_TYPE_PROTO_STRUCTURE;

    fn read(message: &FrozenMessage) -> Result<Self, Fault> {
        Ok(crate::struct_type_proto::Structure {
            field: get(message, 0)?,
        })
    }

    fn write(&self, room: Room) -> Result<FrozenMessage, Fault> {
        let room = room.below(Self::DESCRIPTOR)?;
        let values: [Value; 1] = [
            put(&self.field, room)?,
        ];
        message(Self::DESCRIPTOR, values)
    }
}
field!(crate::struct_type_proto::Structure);

impl Convert for crate::struct_type_proto::structure::Field {
    const DESCRIPTOR: &'static MessageDescriptor = &descriptors::STRUCT_TYPE_PROTO_STRUCTURE_FIELD;

    fn read(message: &FrozenMessage) -> Result<Self, Fault> {
        Ok(crate::struct_type_proto::structure::Field {
            name: get(message, 0)?,
            doc_string: get(message, 3)?,
            content: if let Some(held) = get(message, 1)? {
                Some(crate::struct_type_proto::structure::field::Content::Type(held))
            } else if let Some(held) = get(message, 2)? {
                Some(crate::struct_type_proto::structure::field::Content::Constant(held))
            } else {
                None
            },
        })
    }

    fn write(&self, room: Room) -> Result<FrozenMessage, Fault> {
        let room = room.below(Self::DESCRIPTOR)?;
        let values: [Value; 4] = [
            put(&self.name, room)?,
            match &self.content {
                Some(crate::struct_type_proto::structure::field::Content::Type(held)) => single(held, room)?,
                _ => Value::Absent,
            },
            match &self.content {
                Some(crate::struct_type_proto::structure::field::Content::Constant(held)) => single(held, room)?,
                _ => Value::Absent,
            },
            put(&self.doc_string, room)?,
        ];
        message(Self::DESCRIPTOR, values)
    }
}
field!(crate::struct_type_proto::structure::Field);

impl Convert for crate::struct_type_proto::BitPacking {
    const DESCRIPTOR: &'static MessageDescriptor = &descriptors::STRUCT_TYPE_PROTO_BIT_PACKING;

    fn read(message: &FrozenMessage) -> Result<Self, Fault> {
        Ok(crate::struct_type_proto::BitPacking {
            component: get(message, 0)?,
            dimension: get(message, 1)?,
        })
    }

    fn write(&self, room: Room) -> Result<FrozenMessage, Fault> {
        let room = room.below(Self::DESCRIPTOR)?;
        let values: [Value; 2] = [
            put(&self.component, room)?,
            put(&self.dimension, room)?,
        ];
        message(Self::DESCRIPTOR, values)
    }
}
field!(crate::struct_type_proto::BitPacking);

impl Convert for crate::struct_type_proto::bit_packing::Component {
    const DESCRIPTOR: &'static MessageDescriptor = &descriptors::STRUCT_TYPE_PROTO_BIT_PACKING_COMPONENT;

    fn read(message: &FrozenMessage) -> Result<Self, Fault> {
        Ok(crate::struct_type_proto::bit_packing::Component {
            name: get(message, 0)?,
            bit_width: get(message, 1)?,
        })
    }

    fn write(&self, room: Room) -> Result<FrozenMessage, Fault> {
        let room = room.below(Self::DESCRIPTOR)?;
        let values: [Value; 2] = [
            put(&self.name, room)?,
            put(&self.bit_width, room)?,
        ];
        message(Self::DESCRIPTOR, values)
    }
}
field!(crate::struct_type_proto::bit_packing::Component);
