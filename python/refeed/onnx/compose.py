"""Merging and renaming of graphs, with the names, arguments and results of `onnx.compose`.

Persistent bindings keep their ends: they are renamed with them, and a merge that would take one away is refused.
Graphs with cache initializers are refused by name; `refeed.onnx.builder.GraphBuilder` carries those. Where
`onnx.compose` gives a model that is broken, these functions differ; the documentation lists where.
"""

from refeed.onnx._compose.expand import expand_out_dim, expand_out_dim_graph
from refeed.onnx._compose.merge import merge_graphs, merge_models
from refeed.onnx._compose.names import check_overlapping_names
from refeed.onnx._compose.prefix import add_prefix, add_prefix_graph

__all__ = [
    "add_prefix",
    "add_prefix_graph",
    "check_overlapping_names",
    "expand_out_dim",
    "expand_out_dim_graph",
    "merge_graphs",
    "merge_models",
]
