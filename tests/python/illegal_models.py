"""Models that break one rule each, made with the official `onnx` package from one that breaks none."""

from collections.abc import Callable
from typing import Any

from onnx import AttributeProto, TensorProto, helper

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64
OPSET = 21


def refuses(check: Callable[..., None], *args: Any, **keywords: Any) -> str | None:
    """The message of a refusal, or None."""
    try:
        check(*args, **keywords)
    except Exception as error:  # the package raises several classes, some of protobuf
        return f"{type(error).__name__}: {error}"
    return None


def plain() -> Any:
    """`Neg` of a tensor [2, 3], beside an initializer `w`."""
    graph = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["y"], name="negate")],
        "tested",
        [helper.make_tensor_value_info("x", FLOAT, [2, 3])],
        [helper.make_tensor_value_info("y", FLOAT, [2, 3])],
        [helper.make_tensor("w", FLOAT, [2], [0.5, 1.5])],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)


Change = Callable[[Any], object]
CASES: dict[str, tuple[str, Change]] = {}


def case(part: str) -> Callable[[Change], Change]:
    """Add a change of the plain model after which both refuse it, ours with this text."""

    def add(change: Change) -> Change:
        CASES[change.__name__] = (part, change)
        return change

    return add


def node(model: Any, op_type: str, inputs: list[str], outputs: list[str], **keywords: Any) -> None:
    """Replace the one node."""
    del model.graph.node[:]
    model.graph.node.append(helper.make_node(op_type, inputs, outputs, **keywords))


# ---- models


@case("ir_version: expected 1 to 14, got 0")
def no_ir_version(model: Any) -> None:
    model.ClearField("ir_version")


@case("ir_version: expected 1 to 14, got 15")
def a_newer_ir_version(model: Any) -> None:
    model.ir_version = 15


@case("metadata_props[1]: key `a` is defined more than once")
def a_metadata_key_twice(model: Any) -> None:
    for value in ("1", "2"):
        model.metadata_props.add(key="a", value=value)


@case("opset_import: expected at least one")
def no_operator_set(model: Any) -> None:
    del model.opset_import[:]


@case("opset_import: expected none before IR version 3")
def operator_sets_before_they_were(model: Any) -> None:
    model.ir_version = 2


@case("opset_import[0]: opset version of domain `ai.onnx`")
def an_impossible_operator_set(model: Any) -> None:
    model.opset_import[0].version = 2**31


@case("graph")
def no_graph(model: Any) -> None:
    model.ClearField("graph")


# ---- graphs


@case("graph: expected a name for the graph")
def a_graph_without_a_name(model: Any) -> None:
    model.graph.name = ""


@case("graph.input[1]: graph input `x` is defined more than once")
def an_input_twice(model: Any) -> None:
    model.graph.input.append(model.graph.input[0])


@case("graph.initializer[0]: expected a name for an initializer")
def an_initializer_without_a_name(model: Any) -> None:
    model.graph.initializer[0].name = ""


@case("graph.initializer[1]: initializer `w` is defined more than once")
def an_initializer_twice(model: Any) -> None:
    model.graph.initializer.append(model.graph.initializer[0])


@case('graph.initializer[0] "w": expected the name of a graph input')
def an_initializer_that_was_no_input(model: Any) -> None:
    model.ir_version = 3


@case('graph.node[0] "negate" (Neg).input[0]: input `z` is defined nowhere')
def an_unknown_input(model: Any) -> None:
    model.graph.node[0].input[0] = "z"


@case("is used before graph.node[1]")
def nodes_out_of_order(model: Any) -> None:
    model.graph.node[0].input[0] = "t"
    model.graph.node.append(helper.make_node("Abs", ["x"], ["t"]))


@case("graph.node[1] (Abs).output[0]: value `y` is defined more than once")
def an_output_twice(model: Any) -> None:
    model.graph.node.append(helper.make_node("Abs", ["x"], ["y"]))


@case("value `x` is defined more than once, before by an input")
def an_output_over_an_input(model: Any) -> None:
    model.graph.node.append(helper.make_node("Abs", ["y"], ["x"]))


@case("value `w` is defined more than once")
def an_output_over_an_initializer(model: Any) -> None:
    model.graph.node.append(helper.make_node("Abs", ["y"], ["w"]))


@case('graph.output[1] "q": output `q` is defined nowhere')
def an_unknown_graph_output(model: Any) -> None:
    model.graph.output.append(helper.make_tensor_value_info("q", FLOAT, [2]))


# ---- declarations


@case("graph.input[0]: expected a name")
def an_input_without_a_name(model: Any) -> None:
    model.graph.input[0].name = ""


@case("graph.output[1]: expected a name")
def an_output_without_a_name(model: Any) -> None:
    model.graph.output.append(helper.make_tensor_value_info("", FLOAT, [2]))


@case('graph.input[0] "x".type: expected a type, got none')
def an_input_without_a_type(model: Any) -> None:
    model.graph.input[0].ClearField("type")


@case('graph.input[0] "x".type: expected a type, got none')
def an_input_with_an_empty_type(model: Any) -> None:
    model.graph.input[0].type.ClearField("tensor_type")


@case('graph.input[0] "x".type.tensor_type.elem_type: expected an element type')
def a_tensor_without_an_element_type(model: Any) -> None:
    model.graph.input[0].type.tensor_type.ClearField("elem_type")


@case('graph.input[0] "x".type.tensor_type.shape: expected a shape, got none')
def a_tensor_without_a_shape(model: Any) -> None:
    model.graph.input[0].type.tensor_type.ClearField("shape")


@case('graph.input[1] "z".type.sequence_type.elem_type: expected a type')
def a_sequence_without_an_element_type(model: Any) -> None:
    model.graph.input.add(name="z").type.sequence_type.SetInParent()


@case('graph.input[1] "z".type.optional_type.elem_type: expected a type')
def an_optional_without_an_element_type(model: Any) -> None:
    model.graph.input.add(name="z").type.optional_type.SetInParent()


@case("map_type.key_type: expected map keys of an integer type or STRING")
def a_map_without_a_key_type(model: Any) -> None:
    value = model.graph.input.add(name="z").type.map_type
    value.value_type.tensor_type.elem_type = FLOAT


@case("map_type.value_type: expected a type")
def a_map_without_a_value_type(model: Any) -> None:
    model.graph.input.add(name="z").type.map_type.key_type = INT64


@case("opaque_type.name: expected a name")
def an_opaque_type_without_a_name(model: Any) -> None:
    model.graph.input.add(name="z").type.opaque_type.SetInParent()


@case("sparse_tensor_type.elem_type: expected an element type")
def a_sparse_type_without_an_element_type(model: Any) -> None:
    model.graph.input.add(name="z").type.sparse_tensor_type.shape.SetInParent()


@case("sparse_tensor_type.shape: expected a shape")
def a_sparse_type_without_a_shape(model: Any) -> None:
    model.graph.input.add(name="z").type.sparse_tensor_type.elem_type = FLOAT


# ---- nodes


@case("expected a name for the operator")
def a_node_without_an_operator(model: Any) -> None:
    model.graph.node[0].op_type = ""


@case("graph.node[1] (Abs): expected an input or an output, got neither")
def a_node_that_is_not_connected(model: Any) -> None:
    model.graph.node.append(helper.make_node("Abs", [], []))


@case("domain `other` is not imported; imported: ai.onnx")
def a_domain_that_is_not_imported(model: Any) -> None:
    model.graph.node[0].domain = "other"


@case("attribute `to` is defined more than once")
def an_attribute_twice(model: Any) -> None:
    node(model, "Cast", ["x"], ["y"], to=FLOAT)
    model.graph.node[0].attribute.append(model.graph.node[0].attribute[0])


@case("op_type: expected an operator of ai.onnx of version 21, got `Negative`")
def an_unknown_operator(model: Any) -> None:
    model.graph.node[0].op_type = "Negative"


@case("op_type: expected an operator of ai.onnx of version 16, got `LayerNormalization`")
def an_operator_of_a_newer_set(model: Any) -> None:
    model.opset_import[0].version = 16
    node(model, "LayerNormalization", ["x", "w"], ["y"])


@case("op_type: expected an operator that is not deprecated, got ai.onnx::Upsample of version 21, deprecated since 10")
def a_deprecated_operator(model: Any) -> None:
    node(model, "Upsample", ["x", "w"], ["y"])


@case("op_type: expected an operator of ai.onnx.ml of version 3")
def an_unknown_operator_of_machine_learning(model: Any) -> None:
    model.opset_import.append(helper.make_opsetid("ai.onnx.ml", 3))
    node(model, "Neg", ["x"], ["y"], domain="ai.onnx.ml")


@case("op_type: expected an operator of ai.onnx.training of version 1")
def an_unknown_operator_of_training(model: Any) -> None:
    model.opset_import.append(helper.make_opsetid("ai.onnx.training", 1))
    node(model, "Neg", ["x"], ["y"], domain="ai.onnx.training")


@case("(Add): expected 2 inputs, got 1")
def too_few_inputs(model: Any) -> None:
    node(model, "Add", ["x"], ["y"])


@case("(Neg): expected 1 inputs, got 2")
def too_many_inputs(model: Any) -> None:
    model.graph.node[0].input.append("x")


@case("(Neg): expected 1 outputs, got 0")
def too_few_outputs(model: Any) -> None:
    model.graph.node.append(helper.make_node("Neg", ["x"], []))


@case("(Neg): expected 1 outputs, got 2")
def too_many_outputs(model: Any) -> None:
    model.graph.node[0].output.append("z")


@case("(Add).input[0]: expected a name, got an empty one")
def a_required_input_left_out(model: Any) -> None:
    node(model, "Add", ["", "x"], ["y"])


@case("(Neg).output[0]: expected a name, got an empty one")
def a_required_output_left_out(model: Any) -> None:
    model.graph.node.append(helper.make_node("Neg", ["x"], [""]))


@case('attribute["alpha"]: expected no attribute, as ai.onnx::Neg of version 21 has none, got `alpha`')
def an_unknown_attribute(model: Any) -> None:
    node(model, "Neg", ["x"], ["y"], alpha=1)


@case('attribute["axes"]: expected no attribute, as ai.onnx::Squeeze of version 21 has none, got `axes`')
def an_attribute_of_an_older_version(model: Any) -> None:
    node(model, "Squeeze", ["x"], ["y"], axes=[0])


@case('attribute["axis"].type: expected INT, got FLOAT')
def an_attribute_of_another_type(model: Any) -> None:
    node(model, "Softmax", ["x"], ["y"], axis=1.5)


@case('attribute["to"]: expected INT, which ai.onnx::Cast of version 21 asks for, got none')
def a_required_attribute_left_out(model: Any) -> None:
    node(model, "Cast", ["x"], ["y"])


@case('attribute["value"]: expected TENSOR, got no value')
def a_tensor_attribute_without_a_tensor(model: Any) -> None:
    node(model, "Constant", [], ["y"])
    model.graph.node[0].attribute.add(name="value", type=AttributeProto.TENSOR)


@case("(GroupNormalization): expected 3 inputs, got 4")
def as_many_inputs_as_no_version_has(model: Any) -> None:
    node(model, "GroupNormalization", ["x", "w", "w", "w"], ["y"], num_groups=1)


# ---- attributes


@case("expected a name for attribute")
def an_attribute_without_a_name(model: Any) -> None:
    model.graph.node[0].attribute.add(type=AttributeProto.INT, i=1)


@case('attribute["axis"].type: expected a type, got none')
def an_attribute_without_a_type(model: Any) -> None:
    node(model, "Softmax", ["x"], ["y"])
    model.graph.node[0].attribute.add(name="axis", i=1)


@case('attribute["axis"]: expected one value of type INT, got FLOAT')
def an_attribute_with_another_value(model: Any) -> None:
    node(model, "Softmax", ["x"], ["y"])
    model.graph.node[0].attribute.add(name="axis", type=AttributeProto.INT, f=1)


@case('attribute["axis"]: expected one value of type INT, got INT and INTS')
def an_attribute_with_two_values(model: Any) -> None:
    node(model, "Softmax", ["x"], ["y"])
    model.graph.node[0].attribute.add(name="axis", type=AttributeProto.INT, i=1, ints=[1])


def open_domain(model: Any) -> Any:
    """Replace the node by one of a domain that nobody knows; its attributes are checked all the same."""
    model.opset_import.append(helper.make_opsetid("mine", 1))
    node(model, "Op", ["x"], ["y"], domain="mine")
    return model.graph.node[0].attribute


def short_tensor() -> Any:
    tensor = helper.make_tensor("t", FLOAT, [2], [0.5, 1.5])
    del tensor.float_data[1:]
    return tensor


@case('attribute["a"].t: unnamed tensor: expected 4 bytes in raw_data, got 2')
def a_broken_tensor_in_an_attribute(model: Any) -> None:
    attribute = open_domain(model).add(name="a", type=AttributeProto.TENSOR)
    attribute.t.CopyFrom(TensorProto(data_type=FLOAT, raw_data=b"ab"))


@case('attribute["a"].tensors[1]: tensor `t`')
def a_broken_tensor_in_a_list(model: Any) -> None:
    whole = helper.make_tensor("t", FLOAT, [1], [0.5])
    open_domain(model).add(name="a", type=AttributeProto.TENSORS, tensors=[whole, short_tensor()])


@case('attribute["a"].sparse_tensor.values: expected a tensor, got none')
def a_broken_sparse_tensor_in_an_attribute(model: Any) -> None:
    open_domain(model).add(name="a", type=AttributeProto.SPARSE_TENSOR).sparse_tensor.dims.append(2)


@case('attribute["a"].sparse_tensors[0].values: expected a tensor, got none')
def a_broken_sparse_tensor_in_a_list(model: Any) -> None:
    open_domain(model).add(name="a", type=AttributeProto.SPARSE_TENSORS).sparse_tensors.add(dims=[2])


def branch(inputs: list[str], output: str, name: str = "branch") -> Any:
    nodes = [helper.make_node("Neg", inputs, [output])]
    return helper.make_graph(nodes, name, [], [helper.make_tensor_value_info(output, FLOAT, None)])


@case('attribute["a"].g.node[0] (Neg).input[0]: input `q` is defined nowhere')
def a_broken_graph_in_an_attribute(model: Any) -> None:
    open_domain(model).add(name="a", type=AttributeProto.GRAPH).g.CopyFrom(branch(["q"], "u"))


@case('attribute["a"].graphs[1].node[0] (Neg).input[0]: input `q` is defined nowhere')
def a_broken_graph_in_a_list(model: Any) -> None:
    graphs = [branch(["x"], "u"), branch(["q"], "v")]
    open_domain(model).add(name="a", type=AttributeProto.GRAPHS, graphs=graphs)


# ---- nested graphs


def branches(model: Any, then_branch: Any) -> None:
    model.graph.input.append(helper.make_tensor_value_info("cond", TensorProto.BOOL, []))
    del model.graph.node[:]
    model.graph.node.append(helper.make_node("Abs", ["x"], ["t"]))
    model.graph.node.append(
        helper.make_node("If", ["cond"], ["y"], then_branch=then_branch, else_branch=branch(["x"], "v"))
    )


@case(
    'attribute["then_branch"].g.node[0] (Neg).output[0]: value `t` is defined more than once, before by graph.node[0]'
)
def a_nested_node_over_an_outer_value(model: Any) -> None:
    branches(model, branch(["x"], "t"))


@case('attribute["then_branch"].g.output[0] "t": output `t` is defined nowhere')
def a_nested_graph_that_gives_an_outer_value(model: Any) -> None:
    graph = branch(["x"], "u")
    graph.output[0].name = "t"
    branches(model, graph)


@case('attribute["then_branch"].g: expected a name for the graph')
def a_nested_graph_without_a_name(model: Any) -> None:
    branches(model, branch(["x"], "u", name=""))


@case("`u` is defined nowhere")
def a_value_of_a_nested_graph_outside_of_it(model: Any) -> None:
    branches(model, branch(["x"], "u"))
    model.graph.output.append(helper.make_tensor_value_info("u", FLOAT, [2]))


@case('attribute["a"].g.input[0]: expected a name')
def a_nested_input_without_a_name(model: Any) -> None:
    graph = branch(["x"], "u")
    graph.input.add()
    open_domain(model).append(helper.make_attribute("a", graph))


# ---- functions


def function(nodes: list[Any] | None = None, **keywords: Any) -> Any:
    made: dict[str, Any] = {
        "domain": "mine",
        "fname": "f",
        "inputs": ["a"],
        "outputs": ["b"],
        "nodes": nodes if nodes is not None else [helper.make_node("Neg", ["a"], ["b"])],
        "opset_imports": [helper.make_opsetid("", OPSET), helper.make_opsetid("mine", 1)],
    }
    made.update(keywords)
    return helper.make_function(**made)


def called(model: Any, *functions: Any) -> None:
    model.opset_import.append(helper.make_opsetid("mine", 1))
    model.functions.extend(functions)
    node(model, "f", ["x"], ["y"], domain="mine")


@case("expected a name for the function")
def a_function_without_a_name(model: Any) -> None:
    called(model, function(fname=""))


@case("domain: expected a domain, got none")
def a_function_without_a_domain(model: Any) -> None:
    held = function()
    held.ClearField("domain")
    called(model, held)


@case('functions["mine::f"].input[1]: input `a` is defined more than once')
def a_function_with_an_input_twice(model: Any) -> None:
    called(model, function(inputs=["a", "a"]))


@case('functions["mine::f"].output[1]: output `b` is defined more than once')
def a_function_with_an_output_twice(model: Any) -> None:
    called(model, function(outputs=["b", "b"]))


@case('functions["mine::f"]: attribute `k` is defined more than once')
def a_function_with_an_attribute_twice(model: Any) -> None:
    called(model, function(attributes=["k", "k"]))


@case('functions["mine::f"].node[0] (Neg).input[0]: input `c` is used before')
def a_function_with_nodes_out_of_order(model: Any) -> None:
    called(model, function([helper.make_node("Neg", ["c"], ["b"]), helper.make_node("Abs", ["a"], ["c"])]))


@case('functions["mine::f"].node[1] (Abs).output[0]: value `b` is defined more than once')
def a_function_with_a_value_twice(model: Any) -> None:
    called(model, function([helper.make_node("Neg", ["a"], ["b"]), helper.make_node("Abs", ["a"], ["b"])]))


@case("domain `ai.onnx` is not imported")
def a_function_without_the_set_of_its_nodes(model: Any) -> None:
    called(model, function(opset_imports=[helper.make_opsetid("mine", 1)]))


@case('functions["mine::f"].opset_import[0]: opset version')
def a_function_with_an_impossible_set(model: Any) -> None:
    called(model, function(opset_imports=[helper.make_opsetid("", 2**31)]))


@case('functions["mine::f"].node[0] (Softmax).op_type: expected version 13')
def a_function_with_an_operator_of_another_version(model: Any) -> None:
    nodes = [helper.make_node("Softmax", ["a"], ["b"])]
    called(model, function(nodes, opset_imports=[helper.make_opsetid("", 12)]))


@case("function `mine::f` is defined more than once")
def a_function_twice(model: Any) -> None:
    called(model, function(), function())


@case("function `mine::f` calls itself: mine::f -> mine::f")
def a_function_that_calls_itself(model: Any) -> None:
    called(model, function([helper.make_node("f", ["a"], ["b"], domain="mine")]))


@case("calls itself")
def functions_that_call_each_other_from_nested_graphs(model: Any) -> None:
    inner = branch(["a"], "u")
    inner.node[0].op_type, inner.node[0].domain = "g", "mine"
    nodes = [helper.make_node("If", ["a"], ["b"], then_branch=inner, else_branch=branch(["a"], "v"))]
    called(model, function(nodes), function([helper.make_node("f", ["a"], ["b"], domain="mine")], fname="g"))


@case("depth of function calls: expected at most 100")
def a_long_chain_of_functions(model: Any) -> None:
    names = ["f", *(f"f{index}" for index in range(1, 1000))]
    nodes = [[helper.make_node(name, ["a"], ["b"], domain="mine")] for name in names[1:]]
    chain = [function(held, fname=name) for name, held in zip(names, nodes, strict=False)]
    called(model, *chain, function(fname=names[-1]))


@case("functions: expected at most 10000, got 10001")
def very_many_functions(model: Any) -> None:
    held = function()
    for index in range(10_001):
        held.name = f"f{index}"
        model.functions.append(held)
