"""The exceptions and warnings of refeed.

Every exception of ours is an `Error`. Each is also the built-in class that custom expects: what is wrong with a model
or a value is a `ValueError`, what goes wrong while a call runs is a `RuntimeError`. Plain built-in classes are raised
where they say it all: `TypeError` for a wrong Python type, `MemoryError` for memory that cannot be had, `OverflowError`
for sizes, `BufferError` for DLPack, `OSError` and its kinds for files.
"""

__all__ = [
    "CancelledError",
    "CompletionError",
    "CopyWarning",
    "DecodeError",
    "DuplicateValueError",
    "EncodeError",
    "Error",
    "InferenceError",
    "InternalError",
    "KernelError",
    "KernelValueError",
    "MissingValueError",
    "ModelError",
    "ParseError",
    "PrintError",
    "StateBusyError",
    "StateClosedError",
    "StateFileError",
    "SymbolWarning",
    "ValidationError",
    "ValueTypeError",
]


class Error(Exception):
    """Base of every exception of refeed."""


class ModelError(Error, ValueError):
    """A model that is broken, breaks a rule of bindings, or has a node that cannot be computed."""


class ValidationError(ModelError):
    """A model, or a part of one, that `refeed.onnx.checker` refuses."""


class InferenceError(ModelError):
    """A model whose nodes and declarations contradict each other, as `refeed.onnx.shape_inference` finds it."""


class DecodeError(Error, ValueError):
    """Bytes that are not a message: malformed, cut off, nested too deep, or with a retired field."""


class EncodeError(Error, ValueError):
    """A message that cannot be written: larger than 2 GiB, or nested too deep."""


class ValueTypeError(Error, ValueError):
    """A value or a name that does not fit: wrong dtype, shape or structure, unknown or missing name."""


class MissingValueError(Error, IndexError):
    """A name under which a context, or a node, has no value."""


class DuplicateValueError(Error, RuntimeError):
    """A name under which a context has a value already."""


class StateClosedError(Error, ValueError, RuntimeError):
    """A use of a state that was closed."""


class StateBusyError(Error, ValueError, RuntimeError):
    """Two operations of one state at the same time, or one from inside another."""


class StateFileError(Error, ValueError):
    """A file that holds no state, is damaged, is of another version, or is of another model."""


class CancelledError(Error, ValueError, RuntimeError):
    """A call that was stopped before it published anything."""


class CompletionError(Error, ValueError, RuntimeError):
    """A `TaskCompletion` that is used twice: cancelled after the decision, or given to a second run."""


class KernelError(Error, RuntimeError):
    """A node that failed while it ran. Nothing was published.

    Attributes
    ----------
    node : str
        Name of the node; empty when the model gives it none.
    op_type : str
        The node's operator.
    """

    node: str
    op_type: str

    def __init__(self, message: str = "", *, node: str = "", op_type: str = "") -> None:
        super().__init__(message)
        self.node = node
        self.op_type = op_type


class KernelValueError(KernelError, ValueError):
    """A node that refused the values it was given: their kind, type, shape, or what they say. Nothing was published."""


class ParseError(Error, ValueError):
    """A text that is no ONNX. The message quotes the line.

    Attributes
    ----------
    line : int
        The line, from 1.
    column : int
        The column, from 1, in characters: the start of what was not expected.
    """

    line: int
    column: int

    def __init__(self, message: str = "", *, line: int = 0, column: int = 0) -> None:
        super().__init__(message)
        self.line = line
        self.column = column


class PrintError(Error, ValueError):
    """A message that the text form cannot carry.

    Attributes
    ----------
    lost : tuple of (str, str)
        Every field that would not come back, as its path, such as `graph.node[3].doc_string`, and the reason.
    """

    lost: tuple[tuple[str, str], ...]

    def __init__(self, message: str = "", *, lost: tuple[tuple[str, str], ...] = ()) -> None:
        super().__init__(message)
        self.lost = lost


class InternalError(Error):
    """A fault of refeed itself. Please report it."""


class CopyWarning(UserWarning):
    """A DLPack consumer that cannot be told "read only" was given a copy."""


class SymbolWarning(UserWarning):
    """Values contradict declared symbolic dimensions, which `binding_uses="any"` lets pass."""
