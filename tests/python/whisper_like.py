"""An encoder-decoder as merged Whisper exports are, in the smallest form, with its formula in double precision."""

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

HIDDEN, HEADS, WIDTH, VOCABULARY = 6, 2, 3, 11


class Whisper:
    """A decoder as merged Whisper exports are: `If` computes the cross caches, or passes empty ones on.

    One layer: self-attention over a growing cache, cross-attention over the encoder's states, greedy over the sum.
    """

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        width = HEADS * WIDTH
        self.embedding = rng.standard_normal((VOCABULARY, width)).astype(np.float32)
        self.cross = {part: rng.standard_normal((HIDDEN, width)).astype(np.float32) for part in ("key", "value")}

    def tokens(self, states: np.ndarray[Any, Any], prompt: list[int], count: int) -> list[int]:
        """Decode greedily in double precision, everything computed anew each time."""

        def attend(
            query: np.ndarray[Any, Any], key: np.ndarray[Any, Any], value: np.ndarray[Any, Any]
        ) -> np.ndarray[Any, Any]:
            out = np.empty_like(query)
            for head in range(HEADS):
                part = slice(head * WIDTH, (head + 1) * WIDTH)
                scores = query[part] @ key[:, part].T / np.sqrt(WIDTH)
                weights = np.exp(scores - scores.max())
                out[part] = weights / weights.sum() @ value[:, part]
            return out

        table = self.embedding.astype(np.float64)
        key, value = (states[0].astype(np.float64) @ self.cross[part] for part in ("key", "value"))
        tokens = list(prompt)
        for _ in range(count):
            seen = table[tokens]
            tokens.append(int((table @ (attend(seen[-1], seen, seen) + attend(seen[-1], key, value))).argmax()))
        return tokens[len(prompt) :]

    def model(self) -> onnx.ModelProto:
        value, node = helper.make_tensor_value_info, helper.make_node
        f, dims = TensorProto.FLOAT, [HEADS, WIDTH]
        constants: dict[str, np.ndarray[Any, Any]] = {
            "embedding": self.embedding,
            "turned": self.embedding.T.copy(),
            "heads": np.array([0, 0, HEADS, WIDTH], np.int64),
            "none": np.zeros((0, HEADS, 1, WIDTH), np.float32),
            **{f"cross.{part}": weight for part, weight in self.cross.items()},
        }

        def branch(cached: bool) -> onnx.GraphProto:
            nodes, outputs = [], []
            for part in ("key", "value"):
                past, present, used = (
                    f"past_key_values.0.encoder.{part}",
                    f"out.{part}.{cached}",
                    f"used.{part}.{cached}",
                )
                if cached:
                    nodes += [node("Identity", ["none"], [present]), node("Identity", [past], [used])]
                else:
                    flat, split = f"flat.{part}", f"split.{part}"
                    nodes.append(node("MatMul", ["encoder_hidden_states", f"cross.{part}"], [flat]))
                    nodes.append(node("Reshape", [flat, "heads"], [split]))
                    nodes.append(node("Transpose", [split], [present], perm=[0, 2, 1, 3]))
                    nodes.append(node("Identity", [present], [used]))
                outputs += [value(name, f, [None, dims[0], None, dims[1]]) for name in (present, used)]
            return helper.make_graph(nodes, f"cached.{cached}", [], outputs)

        cross = [f"present.0.encoder.{part}" for part in ("key", "value")]
        nodes = [
            node("Squeeze", ["use_cache_branch"], ["switch"]),
            node(
                "If",
                ["switch"],
                [cross[0], "cross.used.key", cross[1], "cross.used.value"],
                then_branch=branch(True),
                else_branch=branch(False),
            ),
            node("Gather", ["embedding", "input_ids"], ["x"]),
            node("Reshape", ["x", "heads"], ["x.split"]),
            node("Transpose", ["x.split"], ["x.heads"], perm=[0, 2, 1, 3]),
        ]
        for part in ("key", "value"):
            past, present = f"past_key_values.0.decoder.{part}", f"present.0.decoder.{part}"
            nodes.append(node("Concat", [past, "x.heads"], [present], axis=2))
        nodes += [
            node(
                "Attention",
                ["x.heads", "present.0.decoder.key", "present.0.decoder.value"],
                ["self"],
            ),
            node("Attention", ["x.heads", "cross.used.key", "cross.used.value"], ["crossed"]),
            node("Add", ["self", "crossed"], ["both"]),
            node("Transpose", ["both"], ["both.turned"], perm=[0, 2, 1, 3]),
            node("Flatten", ["both.turned"], ["flat"], axis=2),
            node("MatMul", ["flat", "turned"], ["scores"]),
            node("Unsqueeze", ["scores", "zero"], ["logits"]),
        ]
        constants["zero"] = np.array([0], np.int64)
        inputs = [
            value("input_ids", TensorProto.INT64, ["batch", "length"]),
            value("encoder_hidden_states", f, ["batch", "frames", HIDDEN]),
            value("use_cache_branch", TensorProto.BOOL, [1]),
        ]
        outputs = [value("logits", f, [1, "length", VOCABULARY])]
        for side in ("decoder", "encoder"):
            for part in ("key", "value"):
                inputs.append(value(f"past_key_values.0.{side}.{part}", f, ["batch", HEADS, f"past.{side}", WIDTH]))
                outputs.append(value(f"present.0.{side}.{part}", f, [None, HEADS, None, WIDTH]))
        made = helper.make_graph(
            nodes,
            "whisper",
            inputs,
            outputs,
            [numpy_helper.from_array(array, name) for name, array in constants.items()],
        )
        return helper.make_model(made, opset_imports=[helper.make_opsetid("", 23)], ir_version=10)


def encoder() -> onnx.ModelProto:
    """The hyperbolic tangent of features."""
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Tanh", ["input_features"], ["last_hidden_state"])],
        "encoder",
        [value("input_features", TensorProto.FLOAT, [1, None, HIDDEN])],
        [value("last_hidden_state", TensorProto.FLOAT, [1, None, HIDDEN])],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])


def text_encoder(seed: int) -> tuple[onnx.ModelProto, np.ndarray[Any, Any]]:
    """Return an encoder that looks up its token ids in a table, masked ones as zeros, and the table."""
    table = np.random.default_rng(seed).standard_normal((VOCABULARY, HIDDEN)).astype(np.float32)
    value, node = helper.make_tensor_value_info, helper.make_node
    graph = helper.make_graph(
        [
            node("Gather", ["table", "input_ids"], ["rows"]),
            node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
            node("Unsqueeze", ["mask", "last"], ["column"]),
            node("Mul", ["rows", "column"], ["last_hidden_state"]),
        ],
        "encoder",
        [value(name, TensorProto.INT64, ["batch", "length"]) for name in ("input_ids", "attention_mask")],
        [value("last_hidden_state", TensorProto.FLOAT, ["batch", "length", HIDDEN])],
        [numpy_helper.from_array(table, "table"), numpy_helper.from_array(np.array([-1]), "last")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), table
