"""The layer in a module of your own: a text classifier in plain PyTorch, compared with `nn.MultiheadAttention`.

python examples/classifier.py
"""

from __future__ import annotations

import statistics

import torch
from questions import Questions, load_questions
from torch import Tensor, nn
from torch.nn import functional as F

import mtsa

WIDTH, HEADS = 64, 4


class TensorizedAttention(nn.Module):
    """MTSA. With `score_dim=13` (width of queries and keys), it has about as many parameters as `nn.MultiheadAttention`."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = mtsa.MultiMaskAttention(WIDTH, HEADS, score_dim=13)

    def forward(self, x: Tensor, attention_mask: Tensor) -> Tensor:
        return self.layer(x, attention_mask)  # 1 = token, 0 = padding


class MultiheadAttention(nn.Module):
    """The attention layer of PyTorch."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)

    def forward(self, x: Tensor, attention_mask: Tensor) -> Tensor:
        return self.layer(x, x, x, key_padding_mask=attention_mask == 0, need_weights=False)[0]  # True = padding


class Classifier(nn.Module):
    """Embeddings, one attention layer with a residual connection, mean pooling, a linear layer."""

    def __init__(self, attention: nn.Module, words: int, length: int, classes: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, WIDTH, padding_idx=0)
        self.position = nn.Embedding(length, WIDTH)
        self.attention = attention
        self.dropout = nn.Dropout(0.3)
        self.output = nn.Linear(WIDTH, classes)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        x = self.embedding(input_ids) + self.position.weight[: input_ids.shape[1]]  # [B, N, E]
        x = self.dropout(x)
        x = x + self.attention(x, attention_mask)
        weights = attention_mask / attention_mask.sum(1, keepdim=True)  # [B, N]
        return self.output(self.dropout((x * weights[..., None]).sum(1)))  # [B, classes]


def train(model: Classifier, data: Questions, *, epochs: int = 8, batch_size: int = 32) -> None:
    """Train with AdamW."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    model.train()
    for _ in range(epochs):
        for rows in torch.randperm(len(data)).split(batch_size):
            loss = F.cross_entropy(model(data.input_ids[rows], data.attention_mask[rows]), data.labels[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


@torch.no_grad()
def accuracy(model: Classifier, data: Questions) -> float:
    """Fraction of correctly classified questions."""
    predicted = model.eval()(data.input_ids, data.attention_mask).argmax(-1)
    return (predicted == data.labels).float().mean().item()


def main() -> None:
    """Train both models with three seeds."""
    train_data, test_data, words, classes = load_questions()
    length = max(train_data.input_ids.shape[1], test_data.input_ids.shape[1])
    print(f"{'attention':<12} {'parameters':>10}  test accuracy (mean and range of 3 seeds)")
    for name, attention in (("mtsa", TensorizedAttention), ("multi-head", MultiheadAttention)):
        scores = []
        for seed in range(3):
            torch.manual_seed(seed)
            model = Classifier(attention(), words, length, classes)
            train(model, train_data)
            scores.append(100 * accuracy(model, test_data))
        parameters = sum(value.numel() for value in model.parameters())
        print(f"{name:<12} {parameters:>10,}  {statistics.mean(scores):.1f} ({min(scores):.1f} to {max(scores):.1f})")


if __name__ == "__main__":
    main()
