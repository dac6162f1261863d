"""The demo's decoder in PyTorch: grouped queries, rotary positions, RMS norms, gated feed-forward, tied embeddings."""

import dataclasses

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812


@dataclasses.dataclass(frozen=True)
class Shape:
    """Sizes of the decoder."""

    vocabulary: int = 640
    hidden: int = 96
    layers: int = 3
    heads: int = 6
    key_heads: int = 2
    feed_forward: int = 256
    rotary_base: float = 10_000.0
    epsilon: float = 1e-5

    @property
    def head(self) -> int:
        """Return the width of one head."""
        return self.hidden // self.heads


def rotate(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Turn the two halves of each head against each other."""
    left, right = x.chunk(2, dim=-1)
    return torch.cat((left * cos - right * sin, right * cos + left * sin), dim=-1)


class Layer(nn.Module):
    """Attention and a gated feed-forward network, each on a normalised copy of what passes by."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        keys = shape.key_heads * shape.head
        self.attention_norm = nn.RMSNorm(shape.hidden, eps=shape.epsilon)
        self.query = nn.Linear(shape.hidden, shape.hidden, bias=False)
        self.key = nn.Linear(shape.hidden, keys, bias=False)
        self.value = nn.Linear(shape.hidden, keys, bias=False)
        self.output = nn.Linear(shape.hidden, shape.hidden, bias=False)
        self.feed_norm = nn.RMSNorm(shape.hidden, eps=shape.epsilon)
        self.gate = nn.Linear(shape.hidden, shape.feed_forward, bias=False)
        self.up = nn.Linear(shape.hidden, shape.feed_forward, bias=False)
        self.down = nn.Linear(shape.feed_forward, shape.hidden, bias=False)

    def forward(self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        """Return `x` [batch, length, hidden] after the layer; `cos` and `sin` are [length, head / 2]."""
        batch, length, _ = x.shape
        normal = self.attention_norm(x)

        def heads(projection: nn.Linear, count: int) -> torch.Tensor:
            return projection(normal).view(batch, length, count, self.shape.head).transpose(1, 2)

        query = rotate(heads(self.query, self.shape.heads), cos, sin)
        key = rotate(heads(self.key, self.shape.key_heads), cos, sin)
        value = heads(self.value, self.shape.key_heads)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
        x = x + self.output(mixed.transpose(1, 2).reshape(batch, length, -1))
        normal = self.feed_norm(x)
        return x + self.down(F.silu(self.gate(normal)) * self.up(normal))


class Decoder(nn.Module):
    """Token ids to logits, a whole sequence at once."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.embedding = nn.Embedding(shape.vocabulary, shape.hidden)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.norm = nn.RMSNorm(shape.hidden, eps=shape.epsilon)
        nn.init.normal_(self.embedding.weight, std=0.05)

    def frequencies(self) -> torch.Tensor:
        """Return the rotary frequencies, [head / 2]."""
        half = self.shape.head // 2
        return self.shape.rotary_base ** (-torch.arange(half) / half)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Return logits [batch, length, vocabulary] of ids [batch, length]."""
        angles = torch.arange(ids.shape[1])[:, None] * self.frequencies()
        cos, sin = angles.cos(), angles.sin()
        x = self.embedding(ids)
        for layer in self.layers:
            x = layer(x, cos, sin)
        return self.norm(x) @ self.embedding.weight.T
