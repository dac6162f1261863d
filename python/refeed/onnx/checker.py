"""Whether a message is legal: the interface of `onnx.checker`.

A model is held to the rules of `refeed.onnx.verify`, and to what the checker of the `onnx` package asks for beyond
them: operators are those of the imported sets, with the inputs, outputs and attributes that they have in that version;
graphs have names; nested graphs reuse no name of an outer one; IR version and metadata keys are in order. Messages say
the path of the field, what is expected and what is there.

Where the package's checker accepts what is broken, this one does not: tensors have exactly the elements of their
dimensions, values have types, functions give what they say, references to attributes are in functions and name one
that is declared. A message without a file has no tensors in other files.

Every function takes messages of `refeed.onnx` and of the `onnx` package.

Examples
--------
>>> from refeed.onnx import checker, parser
>>> text = '<ir_version: 10, opset_import: ["": 21]> g (float[N] x) => (float[N] y) { y = Neg (x) }'
>>> model = parser.parse_model(text)
>>> checker.check_model(model)
>>> model.graph.node[0].op_type = "Negative"
>>> try:
...     checker.check_model(model)
... except checker.ValidationError as error:
...     print(error)
graph.node[0] (Negative).op_type: expected an operator of ai.onnx of version 21, got `Negative`
"""

import os
from typing import Any

from refeed._native import Model, _onnx
from refeed.errors import ValidationError
from refeed.onnx._helper.versions import NEWEST_IR_VERSION, NEWEST_OPSET, find_min_ir_version_for

__all__ = [
    "DEFAULT_CONTEXT",
    "LEXICAL_SCOPE_CONTEXT",
    "MAXIMUM_PROTOBUF",
    "C",
    "CheckerContext",
    "LexicalScopeContext",
    "ValidationError",
    "check_attribute",
    "check_function",
    "check_graph",
    "check_model",
    "check_node",
    "check_sparse_tensor",
    "check_tensor",
    "check_value_info",
]

#: The most bytes that a serialised message may have.
MAXIMUM_PROTOBUF = 2147483647


class CheckerContext:
    """What a part of a model is checked against.

    Attributes
    ----------
    ir_version : int
        IR version of the model; -1, as it is at first, is older than every version.
    opset_imports : dict of str to int
        Versions of the operator sets that the model imports, by domain.
    """

    ir_version: int
    opset_imports: dict[str, int]

    def __init__(self) -> None:
        self.ir_version = -1
        self.opset_imports = {}


class LexicalScopeContext:
    """The values of graphs around a part of a model.

    Attributes
    ----------
    output_names : set of str
        Values that graphs nested in the part may read.
    """

    output_names: set[str]

    def __init__(self) -> None:
        self.output_names = set()

    def add(self, name: str) -> None:
        """Add a value."""
        self.output_names.add(name)


class C:
    """The names of the package's native checker."""

    CheckerContext = CheckerContext
    LexicalScopeContext = LexicalScopeContext
    ValidationError = ValidationError


#: The newest IR version and operator set.
DEFAULT_CONTEXT = CheckerContext()
DEFAULT_CONTEXT.ir_version = NEWEST_IR_VERSION
DEFAULT_CONTEXT.opset_imports = {"": NEWEST_OPSET}

#: No value at all.
LEXICAL_SCOPE_CONTEXT = LexicalScopeContext()


def _check(what: str, message: Any, ctx: CheckerContext, scope: LexicalScopeContext | None = None) -> None:
    names = sorted(scope.output_names) if scope is not None else []
    _onnx._check_part(what, message, True, ctx.ir_version, ctx.opset_imports, True, names)


def check_value_info(value_info: Any, ctx: CheckerContext = DEFAULT_CONTEXT) -> None:
    """Check an input or an output of a root graph.

    Parameters
    ----------
    value_info : ValueInfoProto
        The declaration.
    ctx : CheckerContext
        IR version and operator sets.

    Raises
    ------
    ValidationError
        For the first rule that it breaks.
    TypeError
        When it is another message.
    """
    _check("ValueInfoProto", value_info, ctx)


def check_tensor(tensor: Any, ctx: CheckerContext = DEFAULT_CONTEXT) -> None:
    """Check a tensor: its type, its dimensions, and that its elements are there, exactly, in one field.

    Parameters
    ----------
    tensor : TensorProto
        The tensor. One whose elements are in another file is refused: there is no folder to look in.
    ctx : CheckerContext
        IR version and operator sets.

    Raises
    ------
    ValidationError
        For the first rule that it breaks.
    TypeError
        When it is another message.
    """
    _check("TensorProto", tensor, ctx)


def check_sparse_tensor(sparse: Any, ctx: CheckerContext = DEFAULT_CONTEXT) -> None:
    """Check a sparse tensor: its values, and that their positions are inside the dimensions and ascend.

    Parameters
    ----------
    sparse : SparseTensorProto
        The tensor.
    ctx : CheckerContext
        IR version and operator sets.

    Raises
    ------
    ValidationError
        For the first rule that it breaks.
    TypeError
        When it is another message.
    """
    _check("SparseTensorProto", sparse, ctx)


def check_attribute(
    attr: Any,
    ctx: CheckerContext = DEFAULT_CONTEXT,
    lexical_scope_ctx: LexicalScopeContext = LEXICAL_SCOPE_CONTEXT,
) -> None:
    """Check an attribute: one value, of the type that it states; graphs and tensors in it are checked as well.

    Parameters
    ----------
    attr : AttributeProto
        The attribute.
    ctx : CheckerContext
        IR version and operator sets.
    lexical_scope_ctx : LexicalScopeContext
        Values that graphs in it may read.

    Raises
    ------
    ValidationError
        For the first rule that it breaks.
    TypeError
        When it is another message.
    """
    _check("AttributeProto", attr, ctx, lexical_scope_ctx)


def check_node(
    node: Any,
    ctx: CheckerContext = DEFAULT_CONTEXT,
    lexical_scope_ctx: LexicalScopeContext = LEXICAL_SCOPE_CONTEXT,
) -> None:
    """Check a node: its operator, its attributes, how many inputs and outputs it has. Inputs come from anywhere.

    Parameters
    ----------
    node : NodeProto
        The node.
    ctx : CheckerContext
        IR version and operator sets.
    lexical_scope_ctx : LexicalScopeContext
        Values that graphs in it may read.

    Raises
    ------
    ValidationError
        For the first rule that it breaks.
    TypeError
        When it is another message.
    """
    _check("NodeProto", node, ctx, lexical_scope_ctx)


def check_function(
    function: Any,
    ctx: CheckerContext | None = None,
    lexical_scope_ctx: LexicalScopeContext = LEXICAL_SCOPE_CONTEXT,
) -> None:
    """Check a function, by the operator sets that it imports, which must mean its nodes as the model's do.

    Parameters
    ----------
    function : FunctionProto
        The function.
    ctx : CheckerContext, optional
        IR version and operator sets of the model; the function's own when it is left out.
    lexical_scope_ctx : LexicalScopeContext
        Not used: functions see nothing but their inputs.

    Raises
    ------
    ValidationError
        For the first rule that it breaks.
    TypeError
        When it is another message.
    """
    if ctx is None:
        ctx = CheckerContext()
        imports = getattr(function, "opset_import", ())
        ctx.ir_version = find_min_ir_version_for(imports, ignore_unknown=True)
        ctx.opset_imports = {entry.domain: entry.version for entry in imports}
    _check("FunctionProto", function, ctx, lexical_scope_ctx)


def check_graph(
    graph: Any,
    ctx: CheckerContext = DEFAULT_CONTEXT,
    lexical_scope_ctx: LexicalScopeContext = LEXICAL_SCOPE_CONTEXT,
) -> None:
    """Check a root graph with everything nested in it, bindings included.

    Parameters
    ----------
    graph : GraphProto
        The graph.
    ctx : CheckerContext
        IR version and operator sets.
    lexical_scope_ctx : LexicalScopeContext
        Not used: a root graph sees nothing but its inputs and initializers.

    Raises
    ------
    ValidationError
        For the first rule that it breaks.
    TypeError
        When it is another message.
    """
    _check("GraphProto", graph, ctx, lexical_scope_ctx)


def check_model(
    model: "Model | bytes | str | os.PathLike[str] | Any",
    full_check: bool = False,
    skip_opset_compatibility_check: bool = False,
    check_custom_domain: bool = False,
) -> None:
    """Check a model.

    Parameters
    ----------
    model : ModelProto, Model, bytes, str or os.PathLike
        The model, or the path of its file. Tensors in other files are looked for beside that file.
    full_check : bool
        Infer types and shapes as well, and refuse the model when they contradict each other.
    skip_opset_compatibility_check : bool
        Let functions import other versions of operators than the model.
    check_custom_domain : bool
        Refuse operators that nobody here knows, whatever their domain.

    Raises
    ------
    ValidationError
        For the first rule that the model breaks.
    refeed.InferenceError
        When types contradict each other, with `full_check`.
    ValueError
        When `bytes` are longer than `MAXIMUM_PROTOBUF`.
    OSError
        When the file cannot be read.
    TypeError
        When `model` is no model.
    """
    if isinstance(model, bytes) and len(model) > MAXIMUM_PROTOBUF:
        raise ValueError(
            f"model: expected at most {MAXIMUM_PROTOBUF} bytes, got {len(model)}; give the path of its file instead"
        )
    _onnx._check_model(model, True, skip_opset_compatibility_check, check_custom_domain, full_check)
