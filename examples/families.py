"""The model architectures that the examples train, and their synthetic data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from typing_extensions import override

IMAGE_SIDE = 32
MLP_INPUTS = 784
CLASSES = 10
SEQUENCE_LENGTH = 32
VOCABULARY = 1000
ATTENTION_HEADS = 4


class Convolutional(nn.Module):
    """A three-stage convolutional classifier of small RGB images.

    Parameters
    ----------
    width
        Channels of the first stage; the later stages have two and four times as many.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, width, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(width, 2 * width, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(2 * width, 4 * width, 3, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(4 * width, CLASSES),
        )

    @override
    def forward(self, images: Tensor) -> Tensor:
        """Return class scores, shape (batch, classes)."""
        scores: Tensor = self.layers(images)
        return scores


class Perceptron(nn.Module):
    """A multilayer perceptron with three hidden layers.

    Parameters
    ----------
    width
        Units of each hidden layer.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(MLP_INPUTS, width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.ReLU(),
            nn.Linear(width, CLASSES),
        )

    @override
    def forward(self, features: Tensor) -> Tensor:
        """Return class scores, shape (batch, classes)."""
        scores: Tensor = self.layers(features)
        return scores


class Transformer(nn.Module):
    """A two-layer causal Transformer that predicts the next token at every position.

    Parameters
    ----------
    width
        Size of the embedding; the feed-forward layers have four times as many units.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(
            width, ATTENTION_HEADS, 4 * width, dropout=0.0, batch_first=True, norm_first=True
        )
        self.embedding = nn.Embedding(VOCABULARY, width)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, VOCABULARY)
        mask = nn.Transformer.generate_square_subsequent_mask(SEQUENCE_LENGTH)
        self.register_buffer("mask", mask, persistent=False)

    @override
    def forward(self, tokens: Tensor) -> Tensor:
        """Return scores of the next token, shape (batch, sequence, vocabulary)."""
        encoded = self.encoder(self.embedding(tokens), mask=self.mask, is_causal=True)
        scores: Tensor = self.head(encoded)
        return scores


def _images(samples: int) -> tuple[Tensor, Tensor]:
    images = torch.randn(samples, 3, IMAGE_SIDE, IMAGE_SIDE)
    return images, torch.randint(CLASSES, (samples,))


def _features(samples: int) -> tuple[Tensor, Tensor]:
    return torch.randn(samples, MLP_INPUTS), torch.randint(CLASSES, (samples,))


def _sentences(samples: int) -> tuple[Tensor, Tensor]:
    tokens = torch.randint(VOCABULARY, (samples, SEQUENCE_LENGTH + 1))
    return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


@dataclass(frozen=True, slots=True)
class Family:
    """A model architecture and the synthetic data it trains on."""

    build: Callable[[int], nn.Module]
    generate: Callable[[int], tuple[Tensor, Tensor]]


FAMILIES = {
    "cnn": Family(Convolutional, _images),
    "mlp": Family(Perceptron, _features),
    "transformer": Family(Transformer, _sentences),
}


def loss_of(scores: Tensor, targets: Tensor) -> Tensor:
    """Return the mean cross-entropy over every predicted class or token."""
    return nn.functional.cross_entropy(scores.flatten(0, -2), targets.flatten())
