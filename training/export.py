"""Write the trained decoder as an exported decoder with caches, beside its tokenizer and their settings.

The graph is what exporters of opset 23 write: `RMSNormalization`, `RotaryEmbedding`, and `Attention` that appends to
its caches. It declares which output feeds which input.
"""

import json
import pathlib

import corpus
import numpy as np
import onnx
import refeed
import tokenizers
import torch
from decoder import Decoder
from onnx import TensorProto, helper, numpy_helper
from tokenizers import processors

OPSET, IR_VERSION = 23, 10
# Each message is marked by who speaks, and ended; the answer begins after the last mark. As in training, a text begins
# after the end of another.
CHAT_TEMPLATE = (
    "{{- bos_token -}}"
    "{%- for message in messages -%}"
    "{%- if message['role'] not in ('user', 'assistant') -%}"
    "{{ raise_exception('expected messages of user and assistant, got ' + message['role']) }}"
    "{%- endif -%}"
    "{{ '<|' + message['role'] + '|>' + message['content'] + eos_token }}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<|assistant|>' }}{%- endif -%}"
)


class Graph:
    """Collects nodes and constants."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def constant(self, name: str, array: np.ndarray) -> str:
        """Add a constant and return its name."""
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def node(self, op_type: str, inputs: list[str], outputs: str | list[str], **attributes: object) -> str:
        """Add a node and return the name of its first output."""
        names = [outputs] if isinstance(outputs, str) else outputs
        self.nodes.append(helper.make_node(op_type, inputs, names, f"{op_type}:{names[0]}", **attributes))
        return names[0]


def add_layer(graph: Graph, decoder: Decoder, index: int, x: str, rotary: list[str], mask: str) -> str:
    """Add one layer to the graph, and return what passes on."""
    shape, layer = decoder.shape, decoder.layers[index]

    def name(part: str) -> str:
        return f"layers.{index}.{part}"

    def weight(part: str) -> str:
        array = getattr(layer, part).weight.detach().numpy()
        return graph.constant(name(f"{part}.weight"), array.T if array.ndim == 2 else array)

    def norm(of: str, part: str) -> str:
        return graph.node("RMSNormalization", [of, weight(part)], name(part), axis=-1, epsilon=shape.epsilon)

    def product(of: str, part: str) -> str:
        return graph.node("MatMul", [of, weight(part)], name(part))

    normal = norm(x, "attention_norm")
    turned = [
        graph.node(
            "RotaryEmbedding", [product(normal, part), *rotary], name(f"{part}.rotated"), interleaved=0, num_heads=heads
        )
        for part, heads in (("query", shape.heads), ("key", shape.key_heads))
    ]
    pasts = [f"past_key_values.{index}.{part}" for part in ("key", "value")]
    presents = [f"present.{index}.{part}" for part in ("key", "value")]
    mixed = graph.node(
        "Attention",
        [*turned, product(normal, "value"), mask, *pasts],
        [name("mixed"), *presents],
        is_causal=1,
        q_num_heads=shape.heads,
        kv_num_heads=shape.key_heads,
    )
    x = graph.node("Add", [x, product(mixed, "output")], name("attended"))
    normal = norm(x, "feed_norm")
    gate = product(normal, "gate")
    gated = graph.node("Mul", [gate, graph.node("Sigmoid", [gate], name("gate.sigmoid"))], name("gate.silu"))
    inner = graph.node("Mul", [gated, product(normal, "up")], name("inner"))
    return graph.node("Add", [x, product(inner, "down")], name("out"))


def add_positions(graph: Graph, decoder: Decoder) -> list[str]:
    """Add cosine and sine of each position's angles, [batch, length, head / 2]."""
    axis = graph.constant("last_axis", np.array([-1], np.int64))
    positions = graph.node("Cast", ["position_ids"], "positions", to=TensorProto.FLOAT)
    column = graph.node("Unsqueeze", [positions, axis], "positions.column")
    frequencies = graph.constant("rotary.frequencies", decoder.frequencies().numpy()[None, None])
    angles = graph.node("Mul", [column, frequencies], "rotary.angles")
    return [graph.node(op_type, [angles], f"rotary.{op_type.lower()}") for op_type in ("Cos", "Sin")]


def add_mask(graph: Graph) -> str:
    """Add the mask that attention reads, [batch, 1, length, past + length]: which tokens are no padding."""
    axes = graph.constant("mask_axes", np.array([1, 2], np.int64))
    seen = graph.node("Cast", ["attention_mask"], "seen", to=TensorProto.BOOL)
    row = graph.node("Unsqueeze", [seen, axes], "mask.row")
    # Written out for each query, because runtimes differ in what they stretch themselves.
    length = graph.node("Shape", ["input_ids"], "length", start=1, end=2)
    one, ones = (graph.constant(f"ones.{count}", np.ones(count, np.int64)) for count in (1, 2))
    return graph.node("Expand", [row, graph.node("Concat", [ones, length, one], "mask.shape", axis=0)], "mask")


def to_onnx(decoder: Decoder) -> onnx.ModelProto:
    """Make the model."""
    shape, graph = decoder.shape, Graph()
    table = decoder.embedding.weight.detach().numpy()
    x = graph.node("Gather", [graph.constant("embedding.weight", table), "input_ids"], "embedding")
    rotary = add_positions(graph, decoder)
    mask = add_mask(graph)
    for index in range(shape.layers):
        x = add_layer(graph, decoder, index, x, rotary, mask)
    scale = graph.constant("norm.weight", decoder.norm.weight.detach().numpy())
    normal = graph.node("RMSNormalization", [x, scale], "norm", axis=-1, epsilon=shape.epsilon)
    # The table serves twice, so that it is in the file once.
    turned = graph.node("Transpose", ["embedding.weight"], "embedding.turned", perm=[1, 0])
    graph.node("MatMul", [normal, turned], "logits")

    value, total = helper.make_tensor_value_info, "past_length + length"
    inputs = [
        value("input_ids", TensorProto.INT64, ["batch", "length"]),
        value("attention_mask", TensorProto.INT64, ["batch", total]),
        value("position_ids", TensorProto.INT64, ["batch", "length"]),
    ]
    outputs = [value("logits", TensorProto.FLOAT, ["batch", "length", shape.vocabulary])]
    for index in range(shape.layers):
        for part in ("key", "value"):
            for values, head, length in ((inputs, "past_key_values", "past_length"), (outputs, "present", total)):
                dims = ["batch", shape.key_heads, length, shape.head]
                values.append(value(f"{head}.{index}.{part}", TensorProto.FLOAT, dims))
    made = helper.make_graph(graph.nodes, "storyteller", inputs, outputs, graph.constants)
    model = helper.make_model(
        made, producer_name="refeed", opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION
    )
    onnx.checker.check_model(model, full_check=True)
    return model


def check(path: pathlib.Path, decoder: Decoder, tokenizer: tokenizers.Tokenizer) -> None:
    """Compare the written model, fed in two pieces, with the trained one."""
    ids = np.array([tokenizer.encode("Once upon a time there was an otter called Nora.").ids], np.int64)
    with torch.no_grad():
        want = decoder(torch.from_numpy(ids)).numpy()
    model = refeed.load(path)
    shape = decoder.shape
    empty = np.zeros((1, shape.key_heads, 0, shape.head), np.float32)
    state = refeed.PersistentValueState(model, {binding.input: empty for binding in model.bindings})
    for begin, end in ((0, 7), (7, ids.shape[1])):
        fed = {
            "input_ids": ids[:, begin:end],
            "attention_mask": np.ones((1, end), np.int64),
            "position_ids": np.arange(begin, end, dtype=np.int64)[None],
        }
        np.testing.assert_allclose(state.run(fed)["logits"].numpy(), want[:, begin:end], rtol=1e-3, atol=1e-3)


def write(decoder: Decoder, tokenizer: tokenizers.Tokenizer, folder: pathlib.Path) -> None:
    """Write `model.onnx`, `tokenizer.json`, `tokenizer_config.json` and `generation_config.json`."""
    model, _ = refeed.bind(to_onnx(decoder), patterns="kv", uses="one")
    model.save(folder / "model.onnx")
    check(folder / "model.onnx", decoder, tokenizer)
    end = tokenizer.token_to_id(corpus.END)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{corpus.END} $A", special_tokens=[(corpus.END, end)]
    )
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    settings = {
        "tokenizer_config.json": {"bos_token": corpus.END, "eos_token": corpus.END, "chat_template": CHAT_TEMPLATE},
        "generation_config.json": {"eos_token_id": end, "pad_token_id": end, "bos_token_id": end},
    }
    for name, content in settings.items():
        (folder / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
