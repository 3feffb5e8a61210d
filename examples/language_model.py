"""A decoder-only Transformer as the language-model examples train it."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from typing_extensions import override

HEAD_SIZE = 64


class Block(nn.Module):
    """Causal self-attention and a feed-forward layer of four times the width.

    Parameters
    ----------
    width
        Size of the embedding; the attention has one head for every 64 of it.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self._n_heads = max(1, width // HEAD_SIZE)
        self.attention_norm = nn.LayerNorm(width)
        self.query_key_value = nn.Linear(width, 3 * width)
        self.projection = nn.Linear(width, width)
        self.feed_forward = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    @override
    def forward(self, hidden: Tensor) -> Tensor:
        """Return the next hidden states, shape (batch, sequence, width)."""
        heads = self.query_key_value(self.attention_norm(hidden)).unflatten(
            -1, (3, self._n_heads, -1)
        )
        query, key, value = heads.transpose(-2, -4).unbind(-3)
        attended = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        hidden = hidden + self.projection(attended.transpose(-2, -3).flatten(-2))
        return hidden + self.feed_forward(hidden)


class LanguageModel(nn.Module):
    """Predicts the next token at every position; the head shares the embedding's weights.

    Parameters
    ----------
    layers, width
        Number of blocks, and size of the embedding.
    sequence_length, vocabulary
        Longest input in tokens, and number of different tokens.
    recomputes
        Whether the backward pass computes each block's activations again instead of keeping them
        (Chen et al. 2016, arXiv:1604.06174).
    """

    def __init__(
        self,
        layers: int,
        width: int,
        *,
        sequence_length: int,
        vocabulary: int,
        recomputes: bool = False,
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.positions = nn.Parameter(torch.zeros(sequence_length, width))
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self._recomputes = recomputes
        nn.init.normal_(self.embedding.weight, std=0.02)

    @override
    def forward(self, tokens: Tensor) -> Tensor:
        """Return scores of the next token, shape (batch, sequence, vocabulary)."""
        hidden = self.embedding(tokens) + self.positions
        for block in self.blocks:
            hidden = (
                checkpoint(block, hidden, use_reentrant=False)
                if self._recomputes
                else block(hidden)
            )
        return nn.functional.linear(self.norm(hidden), self.embedding.weight)
