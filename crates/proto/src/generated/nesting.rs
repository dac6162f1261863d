// Written by `cargo xtask codegen` from proto/onnx.proto. Do not edit.

use crate::structure::Nested;

/// Index of `ModelProto` in [`MESSAGES`].
pub(crate) const MODEL: usize = 0;

/// Of each message, the fields whose every occurrence takes memory of its own.
pub(crate) static MESSAGES: [&[Nested]; 44] = [
    // onnx.ModelProto
    &[
        Nested::message::<crate::OperatorSetIdProto>(8, 1),
        Nested::message::<crate::GraphProto>(7, 2),
        Nested::message::<crate::StringStringEntryProto>(14, 7),
        Nested::message::<crate::TrainingInfoProto>(20, 6),
        Nested::message::<crate::FunctionProto>(25, 5),
        Nested::message::<crate::DeviceConfigurationProto>(26, 9),
        Nested::message::<crate::StructTypeProto>(1000, 38),
    ],
    // onnx.OperatorSetIdProto
    &[
    ],
    // onnx.GraphProto
    &[
        Nested::message::<crate::NodeProto>(1, 3),
        Nested::message::<crate::TensorProto>(5, 15),
        Nested::message::<crate::SparseTensorProto>(15, 17),
        Nested::message::<crate::ValueInfoProto>(11, 18),
        Nested::message::<crate::ValueInfoProto>(12, 18),
        Nested::message::<crate::ValueInfoProto>(13, 18),
        Nested::message::<crate::TensorAnnotation>(14, 8),
        Nested::message::<crate::StringStringEntryProto>(16, 7),
        Nested::message::<crate::EncodedValueProto>(1000, 36),
        Nested::message::<crate::PersistentBindingProto>(1001, 33),
        Nested::message::<crate::PagedCacheProto>(1002, 34),
    ],
    // onnx.NodeProto
    &[
        Nested::leaf::<String>(1),
        Nested::leaf::<String>(2),
        Nested::message::<crate::AttributeProto>(5, 4),
        Nested::message::<crate::StringStringEntryProto>(9, 7),
        Nested::message::<crate::NodeDeviceConfigurationProto>(10, 10),
    ],
    // onnx.AttributeProto
    &[
        Nested::message::<crate::TensorProto>(5, 15),
        Nested::message::<crate::GraphProto>(6, 2),
        Nested::message::<crate::SparseTensorProto>(22, 17),
        Nested::message::<crate::TypeProto>(14, 21),
        Nested::leaf::<crate::Bytes>(9),
        Nested::message::<crate::TensorProto>(10, 15),
        Nested::message::<crate::GraphProto>(11, 2),
        Nested::message::<crate::SparseTensorProto>(23, 17),
        Nested::message::<crate::TypeProto>(15, 21),
    ],
    // onnx.FunctionProto
    &[
        Nested::leaf::<String>(4),
        Nested::leaf::<String>(5),
        Nested::leaf::<String>(6),
        Nested::message::<crate::AttributeProto>(11, 4),
        Nested::message::<crate::NodeProto>(7, 3),
        Nested::message::<crate::OperatorSetIdProto>(9, 1),
        Nested::message::<crate::ValueInfoProto>(12, 18),
        Nested::message::<crate::StringStringEntryProto>(14, 7),
    ],
    // onnx.TrainingInfoProto
    &[
        Nested::message::<crate::GraphProto>(1, 2),
        Nested::message::<crate::GraphProto>(2, 2),
        Nested::message::<crate::StringStringEntryProto>(3, 7),
        Nested::message::<crate::StringStringEntryProto>(4, 7),
    ],
    // onnx.StringStringEntryProto
    &[
    ],
    // onnx.TensorAnnotation
    &[
        Nested::message::<crate::StringStringEntryProto>(2, 7),
    ],
    // onnx.DeviceConfigurationProto
    &[
        Nested::leaf::<String>(3),
    ],
    // onnx.NodeDeviceConfigurationProto
    &[
        Nested::message::<crate::ShardingSpecProto>(2, 11),
    ],
    // onnx.ShardingSpecProto
    &[
        Nested::message::<crate::IntIntListEntryProto>(3, 14),
        Nested::message::<crate::ShardedDimProto>(4, 12),
    ],
    // onnx.ShardedDimProto
    &[
        Nested::message::<crate::SimpleShardedDimProto>(2, 13),
    ],
    // onnx.SimpleShardedDimProto
    &[
    ],
    // onnx.IntIntListEntryProto
    &[
    ],
    // onnx.TensorProto
    &[
        Nested::message::<crate::tensor_proto::Segment>(3, 16),
        Nested::leaf::<crate::Bytes>(6),
        Nested::message::<crate::StringStringEntryProto>(13, 7),
        Nested::message::<crate::StringStringEntryProto>(16, 7),
    ],
    // onnx.TensorProto.Segment
    &[
    ],
    // onnx.SparseTensorProto
    &[
        Nested::message::<crate::TensorProto>(1, 15),
        Nested::message::<crate::TensorProto>(2, 15),
    ],
    // onnx.ValueInfoProto
    &[
        Nested::message::<crate::TypeProto>(2, 21),
        Nested::message::<crate::StringStringEntryProto>(4, 7),
    ],
    // onnx.TensorShapeProto
    &[
        Nested::message::<crate::tensor_shape_proto::Dimension>(1, 20),
    ],
    // onnx.TensorShapeProto.Dimension
    &[
    ],
    // onnx.TypeProto
    &[
        Nested::message::<crate::type_proto::Tensor>(1, 22),
        Nested::message::<crate::type_proto::Sequence>(4, 23),
        Nested::message::<crate::type_proto::Map>(5, 24),
        Nested::message::<crate::type_proto::Optional>(9, 25),
        Nested::message::<crate::type_proto::SparseTensor>(8, 26),
        Nested::message::<crate::type_proto::Opaque>(7, 27),
        Nested::message::<crate::StructTypeProto>(1000, 38),
    ],
    // onnx.TypeProto.Tensor
    &[
        Nested::message::<crate::TensorShapeProto>(2, 19),
    ],
    // onnx.TypeProto.Sequence
    &[
        Nested::message::<crate::TypeProto>(1, 21),
    ],
    // onnx.TypeProto.Map
    &[
        Nested::message::<crate::TypeProto>(2, 21),
    ],
    // onnx.TypeProto.Optional
    &[
        Nested::message::<crate::TypeProto>(1, 21),
    ],
    // onnx.TypeProto.SparseTensor
    &[
        Nested::message::<crate::TensorShapeProto>(2, 19),
    ],
    // onnx.TypeProto.Opaque
    &[
    ],
    // onnx.SequenceProto
    &[
        Nested::message::<crate::TensorProto>(3, 15),
        Nested::message::<crate::SparseTensorProto>(4, 17),
        Nested::message::<crate::SequenceProto>(5, 28),
        Nested::message::<crate::MapProto>(6, 29),
        Nested::message::<crate::OptionalProto>(7, 30),
    ],
    // onnx.MapProto
    &[
        Nested::leaf::<crate::Bytes>(4),
        Nested::message::<crate::SequenceProto>(5, 28),
    ],
    // onnx.OptionalProto
    &[
        Nested::message::<crate::TensorProto>(3, 15),
        Nested::message::<crate::SparseTensorProto>(4, 17),
        Nested::message::<crate::SequenceProto>(5, 28),
        Nested::message::<crate::MapProto>(6, 29),
        Nested::message::<crate::OptionalProto>(7, 30),
    ],
    // onnx.OperatorProto
    &[
    ],
    // onnx.OperatorSetProto
    &[
        Nested::message::<crate::OperatorProto>(8, 31),
        Nested::message::<crate::FunctionProto>(9, 5),
    ],
    // onnx.PersistentBindingProto
    &[
    ],
    // onnx.PagedCacheProto
    &[
        Nested::message::<crate::PagedCacheBlockProto>(1, 35),
    ],
    // onnx.PagedCacheBlockProto
    &[
        Nested::message::<crate::TensorProto>(3, 15),
        Nested::message::<crate::EncodedValueProto>(5, 36),
        Nested::message::<crate::TensorProto>(4, 15),
        Nested::message::<crate::EncodedValueProto>(6, 36),
    ],
    // onnx.EncodedValueProto
    &[
        Nested::message::<crate::AffineLayoutProto>(1, 37),
        Nested::message::<crate::StructTypeProto>(2, 38),
        Nested::message::<crate::TypeProto>(3, 21),
        Nested::message::<crate::StringStringEntryProto>(5, 7),
    ],
    // onnx.AffineLayoutProto
    &[
        Nested::message::<crate::TensorProto>(2, 15),
        Nested::message::<crate::TensorProto>(3, 15),
    ],
    // onnx.StructTypeProto
    &[
        Nested::message::<crate::struct_type_proto::Array>(1, 39),
        Nested::message::<crate::struct_type_proto::Structure>(2, 40),
        Nested::message::<crate::struct_type_proto::BitPacking>(3, 42),
        Nested::message::<crate::FunctionProto>(5, 5),
        Nested::message::<crate::FunctionProto>(6, 5),
        Nested::message::<crate::StringStringEntryProto>(9, 7),
    ],
    // onnx.StructTypeProto.Array
    &[
        Nested::message::<crate::TypeProto>(1, 21),
    ],
    // onnx.StructTypeProto.Structure
    &[
        Nested::message::<crate::struct_type_proto::structure::Field>(1, 41),
    ],
    // onnx.StructTypeProto.Structure.Field
    &[
        Nested::message::<crate::TypeProto>(2, 21),
        Nested::message::<crate::TensorProto>(4, 15),
    ],
    // onnx.StructTypeProto.BitPacking
    &[
        Nested::message::<crate::struct_type_proto::bit_packing::Component>(1, 43),
    ],
    // onnx.StructTypeProto.BitPacking.Component
    &[
    ],
];
