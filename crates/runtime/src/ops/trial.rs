//! One node, built and run outside of any graph, for the tests of the operators.

use crate::append::Appends;
use crate::events::Meter;
use crate::interrupt::Interrupt;
use crate::kernel::{Build, Invocation, OpError, Slot};
use refeed_graph::attributes::Attributes;
use refeed_graph::types::{TensorType, ValueType};
use refeed_graph::{LoadOptions, Model};
use refeed_kernels::Compute;
use refeed_proto::attribute_proto::AttributeType;
use refeed_proto::{AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto};
use refeed_values::{Allocator, Pool, RuntimeValue, Tensor};
use smallvec::SmallVec;

/// A node to be tried.
pub(super) struct Trial {
    domain: &'static str,
    op_type: &'static str,
    opset: i64,
    attributes: Vec<AttributeProto>,
    outputs: usize,
}

fn attribute(name: &str, kind: AttributeType) -> AttributeProto {
    AttributeProto {
        name: Some(name.to_string()),
        r#type: Some(kind as i32),
        ..AttributeProto::default()
    }
}

impl Trial {
    /// A node with one output and no attributes.
    pub(super) fn new(op_type: &'static str, opset: i64) -> Trial {
        Trial {
            domain: "",
            op_type,
            opset,
            attributes: Vec::new(),
            outputs: 1,
        }
    }

    pub(super) fn domain(mut self, domain: &'static str) -> Trial {
        self.domain = domain;
        self
    }

    pub(super) fn outputs(mut self, outputs: usize) -> Trial {
        self.outputs = outputs;
        self
    }

    pub(super) fn int(mut self, name: &str, value: i64) -> Trial {
        self.attributes.push(AttributeProto {
            i: Some(value),
            ..attribute(name, AttributeType::Int)
        });
        self
    }

    pub(super) fn float(mut self, name: &str, value: f32) -> Trial {
        self.attributes.push(AttributeProto {
            f: Some(value),
            ..attribute(name, AttributeType::Float)
        });
        self
    }

    pub(super) fn ints(mut self, name: &str, values: &[i64]) -> Trial {
        self.attributes.push(AttributeProto {
            ints: values.to_vec(),
            ..attribute(name, AttributeType::Ints)
        });
        self
    }

    pub(super) fn text(mut self, name: &str, value: &'static str) -> Trial {
        let s = Some(value.as_bytes().into());
        self.attributes.push(AttributeProto {
            s,
            ..attribute(name, AttributeType::String)
        });
        self
    }

    /// Builds the kernel and runs it once; every output is wanted.
    pub(super) fn run(&self, inputs: &[Option<&Tensor>]) -> Result<Vec<Tensor>, OpError> {
        let node = NodeProto {
            domain: Some(self.domain.to_string()),
            op_type: Some(self.op_type.to_string()),
            attribute: self.attributes.clone(),
            ..NodeProto::default()
        };
        let model = ModelProto {
            ir_version: Some(10),
            opset_import: vec![OperatorSetIdProto {
                domain: Some(String::new()),
                version: Some(self.opset),
            }],
            graph: Some(GraphProto {
                name: Some("empty".to_string()),
                ..GraphProto::default()
            }),
            ..ModelProto::default()
        };
        let model = Model::from_proto(model, &LoadOptions::default()).unwrap();
        let attributes = Attributes::new(&node);
        let types: Vec<Option<ValueType>> = inputs
            .iter()
            .map(|input| input.map(|x| TensorType::concrete(x.dtype(), x.shape()).into()))
            .collect();
        let kernel = (super::kernel(self.domain, self.op_type).unwrap().build)(&mut Build {
            attributes: &attributes,
            opset: self.opset,
            node: &node,
            model: &model,
            inputs: &types,
            constants: &vec![None; inputs.len()],
            outputs: &vec![true; self.outputs],
        })?;
        attributes.finish()?;
        let slots: Vec<Option<RuntimeValue>> = inputs
            .iter()
            .map(|input| input.cloned().map(RuntimeValue::from))
            .collect();
        let places: Vec<Option<Slot>> = slots
            .iter()
            .enumerate()
            .map(|(at, slot)| slot.as_ref().map(|_| at as Slot))
            .collect();
        let wanted: Vec<Option<Slot>> = (0..self.outputs)
            .map(|at| Some((slots.len() + at) as Slot))
            .collect();
        let allocator = Allocator::with_limit(1 << 20);
        let mut outputs = SmallVec::from_elem(None, self.outputs);
        kernel.run(&mut Invocation {
            slots: &slots,
            inputs: &places,
            wanted: &wanted,
            outputs: &mut outputs,
            pool: &mut Pool::new(allocator.clone()),
            compute: &Compute::default(),
            sites: &[],
            appends: &mut Appends::default(),
            meter: &mut Meter::new(None, allocator, 1),
            interrupt: &Interrupt::new(Default::default()),
        })?;
        Ok(outputs
            .into_iter()
            .map(|output| match output {
                Some(RuntimeValue::Tensor(tensor)) => tensor,
                _ => panic!("a kernel sets every wanted output"),
            })
            .collect())
    }

    /// As [`Trial::run`], for a node with one output whose inputs are all there.
    pub(super) fn one(&self, inputs: &[&Tensor]) -> Result<Tensor, OpError> {
        let inputs: Vec<Option<&Tensor>> = inputs.iter().map(|&input| Some(input)).collect();
        Ok(self.run(&inputs)?.remove(0))
    }
}

/// INT64 numbers as a vector.
pub(super) fn ints(values: &[i64]) -> Tensor {
    Tensor::from_slice(&[values.len()], values).unwrap()
}

/// FLOAT values that differ from their neighbours.
pub(super) fn floats(shape: &[usize]) -> Tensor {
    let count: usize = shape.iter().product();
    let values: Vec<f32> = (0..count)
        .map(|i| ((i * 37 + 5) % 101) as f32 / 4.0 - 9.0)
        .collect();
    Tensor::from_slice(shape, &values).unwrap()
}

/// All elements in row-major order.
pub(super) fn listed(tensor: &Tensor) -> Vec<f32> {
    tensor.view::<f32>().unwrap().to_vec()
}

/// Random numbers from a fixed start: whatever an operator is given, it answers or refuses.
#[test]
fn no_combination_of_edge_numbers_panics() {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut pick = move |n: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % n
    };
    const EDGES: [i64; 12] = [
        i64::MIN,
        i64::MIN + 1,
        -3,
        -2,
        -1,
        0,
        1,
        2,
        3,
        1 << 40,
        i64::MAX - 1,
        i64::MAX,
    ];
    const SHAPES: [&[usize]; 8] = [
        &[],
        &[0],
        &[1],
        &[3],
        &[2, 3],
        &[2, 0, 3],
        &[1, 2, 3],
        &[2, 1, 2, 2],
    ];
    const OPS: [(&str, i64, usize, usize); 22] = [
        ("Reshape", 14, 2, 1),
        ("Expand", 13, 2, 1),
        ("Squeeze", 13, 2, 1),
        ("Unsqueeze", 13, 2, 1),
        ("Slice", 13, 5, 1),
        ("Split", 18, 2, 2),
        ("Flatten", 13, 1, 1),
        ("Transpose", 13, 1, 1),
        ("Concat", 13, 3, 1),
        ("Pad", 18, 2, 1),
        ("Tile", 13, 2, 1),
        ("Trilu", 14, 2, 1),
        ("ScatterND", 18, 3, 1),
        ("ScatterElements", 18, 3, 1),
        ("TensorScatter", 24, 3, 1),
        ("Gather", 13, 2, 1),
        ("GatherND", 13, 2, 1),
        ("GatherElements", 13, 2, 1),
        ("TopK", 11, 2, 2),
        ("OneHot", 11, 3, 1),
        ("MatMul", 13, 2, 1),
        ("LayerNormalization", 17, 3, 3),
    ];
    let (mut answered, mut refused) = (0, 0);
    for _ in 0..6000 {
        let (op, opset, inputs, outputs) = OPS[pick(OPS.len())];
        let mut trial = Trial::new(op, opset).outputs(outputs);
        let attribute = match op {
            "Flatten" | "Split" | "Concat" | "ScatterElements" | "TensorScatter" | "Gather"
            | "GatherElements" | "TopK" | "OneHot" | "LayerNormalization" => Some("axis"),
            "GatherND" => Some("batch_dims"),
            _ => None,
        };
        if let Some(name) = attribute {
            trial = trial.int(name, EDGES[pick(EDGES.len())]);
        }
        if op == "Transpose" {
            let perm: Vec<i64> = (0..pick(4)).map(|_| EDGES[pick(EDGES.len())]).collect();
            trial = trial.ints("perm", &perm);
        }
        let given: Vec<Tensor> = (0..inputs)
            .map(|at| {
                let shape = SHAPES[pick(SHAPES.len())];
                // Now and then numbers stand where values are wanted and the other way round.
                if (at == 0) != (pick(8) == 0) {
                    return floats(shape);
                }
                let numbers: Vec<i64> = (0..shape.iter().product())
                    .map(|_| EDGES[pick(EDGES.len())])
                    .collect();
                Tensor::from_slice(shape, &numbers).unwrap()
            })
            .collect();
        let given: Vec<Option<&Tensor>> =
            given.iter().map(|x| (pick(10) > 0).then_some(x)).collect();
        match trial.run(&given) {
            Ok(_) => answered += 1,
            Err(_) => refused += 1,
        }
    }
    assert!(answered > 300 && refused > 300, "{answered} {refused}");
}
