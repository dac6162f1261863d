"""Quantise one page of a KV cache, restore it, and look at what is left of the numbers.

One graph holds two `ai.rt::QuantizePagedCache` nodes: the first turns the chosen page into INT4 keys and UINT4 values,
the second turns it back into FLOAT16 and BFLOAT16. All other pages go through as they are. The tests run this program
as it stands; it needs matplotlib only for the picture.

Run it: ``python docs/examples/quantized_cache_pages.py [--figure FILE]``
"""

import argparse

import numpy as np
import refeed.onnx.helper as oh
import refeed.onnx.numpy_helper as onh
from refeed import onnx
from refeed.onnx import verify
from refeed.runtime import RuntimeContext, RuntimeSession, cache_report, tensor_from_proto

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--figure", help="where to draw the numbers of the page before and after")
arguments = parser.parse_args()

# Two pages of room for two tokens. The second holds one; its other row is never read, so it may hold anything.
cache = onnx.PagedCacheProto()
first = cache.blocks.add()
first.start = 0
first.length = 2
first_keys = np.linspace(-0.5, 0.5, 8, dtype=np.float32).reshape(1, 1, 2, 4)
first.key.CopyFrom(onh.from_array(first_keys))
first.value.CopyFrom(onh.from_array(-first_keys))

second = cache.blocks.add()
second.start = 2
second.length = 1
unused = [np.nan] * 4
keys = np.array([-1.3, -0.4, 0.3, 1.2, *unused], np.float32).reshape(1, 1, 2, 4)
values = np.array([-0.8, -0.3, 0.2, 0.7, *unused], np.float32).reshape(1, 1, 2, 4)
second.key.CopyFrom(onh.from_array(keys))
second.value.CopyFrom(onh.from_array(values))

# The type of a zero point is the format that is asked for; that of a dense format is a mark without a value.
SCALARS = [
    ("key_scale", onnx.TensorProto.FLOAT, 0.25),
    ("key_zero", onnx.TensorProto.INT4, 0),
    ("value_scale", onnx.TensorProto.FLOAT, 0.125),
    ("value_zero", onnx.TensorProto.UINT4, 8),
    ("one", onnx.TensorProto.FLOAT, 1),
    ("float16_marker", onnx.TensorProto.FLOAT16, 0),
    ("bfloat16_marker", onnx.TensorProto.BFLOAT16, 0),
]
quantize = ["past", "indices", "key_scale", "key_zero", "value_scale", "value_zero"]
restore = ["quantized", "indices", "one", "float16_marker", "one", "bfloat16_marker"]
any_cache = onnx.TypeProto(struct_type=onnx.StructTypeProto())
graph = oh.make_graph(
    [
        oh.make_node("QuantizePagedCache", quantize, ["quantized"], domain="ai.rt"),
        oh.make_node("QuantizePagedCache", restore, ["restored"], domain="ai.rt"),
    ],
    "selected_page_roundtrip",
    [oh.make_value_info("past", any_cache), oh.make_tensor_value_info("indices", onnx.TensorProto.INT64, [1])],
    [oh.make_value_info("quantized", any_cache), oh.make_value_info("restored", any_cache)],
    initializer=[oh.make_tensor(name, kind, [], [number]) for name, kind, number in SCALARS],
)
model = oh.make_model(graph, opset_imports=[oh.make_opsetid("", 23), oh.make_opsetid("ai.rt", 1)], ir_version=10)
verify.verify_model(model)

context = RuntimeContext()
context.put_value("past", cache)
context.set("indices", tensor_from_proto(onh.from_array(np.array([1], np.int64))))
session = RuntimeSession(model)
session.run(context)
quantized, restored = context.get_value("quantized"), context.get_value("restored")

for result in (quantized, restored):
    np.testing.assert_array_equal(onh.to_array(result.blocks[0].key), first_keys)
    np.testing.assert_array_equal(onh.to_array(result.blocks[0].value), -first_keys)
    assert (result.blocks[1].start, result.blocks[1].length) == (2, 1)

page = quantized.blocks[1]
assert page.encoded_key.affine.storage_type == onnx.TensorProto.INT4
assert page.encoded_value.affine.storage_type == onnx.TensorProto.UINT4
assert (len(page.encoded_key.raw_data), len(page.encoded_value.raw_data)) == (4, 4)
print(cache_report(quantized, cache))

# Scales and zero points as the graph has them: ties to even, and what is left is off by half a scale at most.
restored_keys = onh.to_array(restored.blocks[1].key).astype(np.float32)
restored_values = onh.to_array(restored.blocks[1].value).astype(np.float32)
valid = (slice(None), slice(None), slice(1))
np.testing.assert_array_equal(restored_keys[valid], np.clip(np.rint(keys[valid] / 0.25), -8, 7) * 0.25)
steps = np.clip(np.rint(values[valid] / 0.125) + 8, 0, 15) - 8
np.testing.assert_array_equal(restored_values[valid], steps * 0.125)
assert np.abs(restored_keys[valid] - keys[valid]).max() <= 0.125
assert np.abs(restored_values[valid] - values[valid]).max() <= 0.0625
assert not restored_keys[:, :, 1:].any()
assert not restored_values[:, :, 1:].any()
print("keys:", restored_keys[valid].ravel().tolist())
print("values:", restored_values[valid].ravel().tolist())
assert restored_keys[valid].ravel().tolist() == [-1.25, -0.5, 0.25, 1.25]
assert restored_values[valid].ravel().tolist() == [-0.75, -0.25, 0.25, 0.75]

# The message keeps each payload's format, so it can be stored, read, and fed again.
reloaded = onnx.PagedCacheProto()
reloaded.ParseFromString(quantized.SerializeToString())
context.put_value("past", reloaded)
session.run(context)
again = context.get_value("restored").blocks[1]
np.testing.assert_array_equal(onh.to_array(again.key).astype(np.float32), restored_keys)
np.testing.assert_array_equal(onh.to_array(again.value).astype(np.float32), restored_values)

if arguments.figure:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    mpl.rcParams["svg.hashsalt"] = "refeed"
    figure, axes = pyplot.subplots(1, 2, figsize=(9, 3))
    for axis, title, source, result in (
        (axes[0], "keys: INT4, then FLOAT16", keys, restored_keys),
        (axes[1], "values: UINT4, then BFLOAT16", values, restored_values),
    ):
        axis.plot(source[valid].ravel(), "o-", label="before")
        axis.plot(result[valid].ravel(), "x--", label="restored")
        axis.set_title(title)
        axis.set_xlabel("component of the head")
        axis.legend()
    figure.tight_layout()
    figure.savefig(arguments.figure, metadata={"Date": None} if arguments.figure.endswith(".svg") else None)
print("all figures are as documented")
