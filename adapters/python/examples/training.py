"""What the examples train: a small model of English text, in NumPy, and the picture of its loss.

The text is Python's own manual, which every Python has. The model guesses the next letter from the
eight before it. It starts at a loss of about 4.6 and knows nothing of other processes.
"""

from __future__ import annotations

import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # the ranks share the cores

import pydoc_data.topics
from typing import Any, Dict, List, Mapping, Sequence, Tuple

import numpy as np

Array = np.ndarray[Any, Any]
Arrays = Dict[str, Array]

CONTEXT, EMBEDDING, HIDDEN, BATCH = 8, 16, 64, 128


def read_text() -> Tuple[Array, int]:
    """The text as numbers of letters, and how many letters there are."""
    topics = pydoc_data.topics.topics
    text = np.frombuffer("".join(topics[key] for key in sorted(topics)).encode(), np.uint8)
    letters, numbers = np.unique(text, return_inverse=True)
    return numbers, len(letters)


class Model:
    """Two layers. ``parameters`` are named arrays; ``step`` computes their gradients."""

    def __init__(self, seed: int = 0) -> None:
        self.text, letters = read_text()
        random = np.random.default_rng(seed)

        def normal(*shape: int) -> Array:
            return np.asarray(random.standard_normal(shape) / np.sqrt(shape[0]), np.float32)

        self.parameters: Arrays = {
            "embedding": normal(letters, EMBEDDING),
            "hidden": normal(CONTEXT * EMBEDDING, HIDDEN),
            "hidden_bias": np.zeros(HIDDEN, np.float32),
            "output": normal(HIDDEN, letters),
            "output_bias": np.zeros(letters, np.float32),
        }

    def step(self, random: np.random.Generator) -> Tuple[float, Arrays]:
        """The loss of a batch, and the gradient of each parameter."""
        p = self.parameters
        at = random.integers(0, len(self.text) - CONTEXT, BATCH)
        before = self.text[at[:, None] + np.arange(CONTEXT)]
        target = self.text[at + CONTEXT]
        rows = np.arange(BATCH)
        embedded = p["embedding"][before].reshape(BATCH, -1)
        hidden = np.tanh(embedded @ p["hidden"] + p["hidden_bias"])
        logits = hidden @ p["output"] + p["output_bias"]
        chances = np.exp(logits - logits.max(axis=1, keepdims=True))
        chances /= chances.sum(axis=1, keepdims=True)
        loss = float(-np.log(chances[rows, target]).mean())
        chances[rows, target] -= 1
        chances /= BATCH  # now the gradient of the logits
        inner = (chances @ p["output"].T) * (1 - hidden**2)
        embedding = np.zeros_like(p["embedding"])
        np.add.at(embedding, before, (inner @ p["hidden"].T).reshape(BATCH, CONTEXT, EMBEDDING))
        return loss, {
            "embedding": embedding,
            "hidden": embedded.T @ inner,
            "hidden_bias": inner.sum(axis=0),
            "output": hidden.T @ chances,
            "output_bias": chances.sum(axis=0),
        }


class Adam:
    """The optimiser. ``moments`` are its state."""

    def __init__(self, parameters: Arrays, rate: float = 3e-3) -> None:
        self.rate = rate
        self.moments: Arrays = {"count": np.zeros((), np.int64)}
        for name, array in parameters.items():
            self.moments[f"mean of {name}"] = np.zeros_like(array)
            self.moments[f"square of {name}"] = np.zeros_like(array)

    def update(self, parameters: Arrays, gradients: Arrays) -> None:
        self.moments["count"] += 1
        count = int(self.moments["count"])
        for name, gradient in gradients.items():
            mean, square = self.moments[f"mean of {name}"], self.moments[f"square of {name}"]
            mean += 0.1 * (gradient - mean)
            square += 0.001 * (gradient**2 - square)
            unbiased = np.sqrt(square / (1 - 0.999**count)) + 1e-8
            parameters[name] -= self.rate * mean / (1 - 0.9**count) / unbiased


# ---------------------------------------------------------------- the curve ---

Curve = Sequence[Tuple[int, float]]  # steps and losses
COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd")


def smooth(losses: Sequence[float], width: int = 20) -> List[float]:
    """The mean of each loss and of those before it."""
    return [float(np.mean(losses[max(0, i - width + 1) : i + 1])) for i in range(len(losses))]


def draw(path: str, curves: Mapping[str, Curve], events: Sequence[Tuple[int, str]] = ()) -> None:
    """Writes an SVG picture of losses over steps, with a line and a text at each event."""
    last = max(step for curve in curves.values() for step, _ in curve) or 1
    most = max(loss for curve in curves.values() for _, loss in curve)
    least = min(loss for curve in curves.values() for _, loss in curve)

    def x(step: float) -> float:
        return 60 + 560 * step / last

    def y(loss: float) -> float:
        return 30 + 280 * (most - loss) / (most - least or 1)

    lines = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 660 360" font-family="sans-serif"'
        ' font-size="12"><rect width="660" height="360" fill="white"/>',
        '<path d="M60 30V310H620" fill="none" stroke="black"/>',
        '<text x="340" y="345" text-anchor="middle">step</text><text x="20" y="22">loss</text>',
    ]
    for part in range(5):
        step, loss = last * part / 4, least + (most - least) * part / 4
        lines.append(f'<text x="{x(step):.0f}" y="327" text-anchor="middle">{step:.0f}</text>')
        lines.append(f'<text x="52" y="{y(loss) + 4:.0f}" text-anchor="end">{loss:.2f}</text>')
    for row, (step, what) in enumerate(events):
        at = x(step)
        lines.append(f'<path d="M{at:.1f} 30V310" stroke="grey" stroke-dasharray="4"/>')
        lines.append(f'<text x="{at + 4:.0f}" y="{60 + 18 * (row % 8)}">{what}</text>')
    for row, (name, curve) in enumerate(curves.items()):
        points = " ".join(f"{x(step):.1f},{y(loss):.1f}" for step, loss in curve)
        colour = COLOURS[row % len(COLOURS)]
        lines.append(f'<polyline points="{points}" fill="none" stroke="{colour}"/>')
        lines.append(
            f'<text x="610" y="{48 + 18 * row}" text-anchor="end" fill="{colour}">{name}</text>'
        )
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n</svg>\n")
