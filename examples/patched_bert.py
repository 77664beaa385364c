"""BERT with tensorized self-attention: `replace_self_attention`, then fine-tuning.

python examples/patched_bert.py

The BERT here is small and has random weights, so that the example runs in seconds. The calls are the same for a pretrained
model: model = BertForSequenceClassification.from_pretrained(...).
"""

from __future__ import annotations

import torch
from questions import Questions, load_questions
from transformers import BertConfig, BertForSequenceClassification

from mtsa.interop import replace_self_attention


def small_bert(words: int, classes: int, *, intermediate_size: int) -> BertForSequenceClassification:
    """A BERT of two layers with random weights."""
    config = BertConfig(
        vocab_size=words, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=intermediate_size,
        max_position_embeddings=64, num_labels=classes,
    )  # fmt: skip
    return BertForSequenceClassification(config)


def train(model: BertForSequenceClassification, data: Questions, *, epochs: int = 10, batch_size: int = 32) -> None:
    """Train with AdamW."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model.train()
    for _ in range(epochs):
        for rows in torch.randperm(len(data)).split(batch_size):
            loss = model(data.input_ids[rows], attention_mask=data.attention_mask[rows], labels=data.labels[rows]).loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


@torch.no_grad()
def accuracy(model: BertForSequenceClassification, data: Questions) -> float:
    """Fraction of correctly classified questions."""
    predicted = model.eval()(data.input_ids, attention_mask=data.attention_mask).logits.argmax(-1)
    return (predicted == data.labels).float().mean().item()


@torch.no_grad()
def largest_change(model: BertForSequenceClassification, data: Questions) -> float:
    """Largest change of a logit when the attention of a model is replaced with the default options."""
    before = model.eval()(data.input_ids, attention_mask=data.attention_mask).logits
    after = replace_self_attention(model)(data.input_ids, attention_mask=data.attention_mask).logits
    return (after - before).abs().max().item()


def main() -> None:
    """Check that the default options keep the output, then train both models with one seed."""
    train_data, test_data, words, classes = load_questions()
    torch.manual_seed(0)
    print(f"largest change of a logit: {largest_change(small_bert(words, classes, intermediate_size=128), test_data):.0e}")
    print(f"{'attention':<12} {'parameters':>10}  test accuracy (1 seed)")
    for name, width in (("mtsa", 119), ("multi-head", 128)):  # 119 compensates for the added source2token parameters
        torch.manual_seed(0)
        model = small_bert(words, classes, intermediate_size=width)
        if name == "mtsa":  # half of the heads attend to earlier tokens, half to later ones
            model = replace_self_attention(model, masks="halves", score_activation="logsigmoid")
        train(model, train_data)
        parameters = sum(value.numel() for value in model.parameters())
        print(f"{name:<12} {parameters:>10,}  {100 * accuracy(model, test_data):.1f}")


if __name__ == "__main__":
    torch.set_num_threads(1)  # tensors of this size are slower with more
    main()
