"""The layer inside a Hugging Face `Trainer`: a Transformer block of PyTorch whose self-attention is MTSA.

pip install accelerate     # needed by Trainer
python examples/trainer.py
"""

from __future__ import annotations

import tempfile

import torch
from questions import load_questions
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import EvalPrediction, PrinterCallback, Trainer, TrainingArguments, set_seed

import mtsa
from mtsa.interop import as_multihead_attention

WIDTH, HEADS = 64, 4


class Model(nn.Module):
    """Embeddings, a Transformer block, mean pooling, a linear layer. Returns loss and logits, as `Trainer` expects them."""

    def __init__(self, words: int, length: int, classes: int, *, tensorized: bool) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, WIDTH, padding_idx=0)
        self.position = nn.Embedding(length, WIDTH)
        self.block = nn.TransformerEncoderLayer(WIDTH, HEADS, dim_feedforward=128, dropout=0.2, batch_first=True)
        if tensorized:  # score_dim=13: about the number of parameters of multi-head attention
            layer = mtsa.MultiMaskAttention(WIDTH, HEADS, score_dim=13)
            self.block.self_attn = as_multihead_attention(layer, batch_first=True)
        self.output = nn.Linear(WIDTH, classes)

    def forward(self, input_ids: Tensor, attention_mask: Tensor, labels: Tensor) -> dict[str, Tensor]:
        x = self.embedding(input_ids) + self.position.weight[: input_ids.shape[1]]
        x = self.block(x, src_key_padding_mask=attention_mask == 0)
        weights = attention_mask / attention_mask.sum(1, keepdim=True)
        logits = self.output((x * weights[..., None]).sum(1))
        return {"loss": F.cross_entropy(logits, labels), "logits": logits}


def accuracy(prediction: EvalPrediction) -> dict[str, float]:
    """Fraction of correctly classified questions."""
    return {"accuracy": float((prediction.predictions.argmax(-1) == prediction.label_ids).mean())}


def main() -> None:
    """Train both models with one seed."""
    train_data, test_data, words, classes = load_questions()
    length = max(train_data.input_ids.shape[1], test_data.input_ids.shape[1])
    print(f"{'attention':<12} {'parameters':>10}  test accuracy (1 seed)")
    for name, tensorized in (("mtsa", True), ("multi-head", False)):
        set_seed(0)
        model = Model(words, length, classes, tensorized=tensorized)
        with tempfile.TemporaryDirectory() as folder:
            arguments = TrainingArguments(
                folder, num_train_epochs=10, per_device_train_batch_size=32, learning_rate=2e-3, warmup_steps=20,
                save_strategy="no", logging_strategy="no", report_to="none", disable_tqdm=True, use_cpu=True,
                dataloader_pin_memory=False,
            )  # fmt: skip
            trainer = Trainer(model, arguments, train_dataset=train_data, eval_dataset=test_data, compute_metrics=accuracy)
            trainer.remove_callback(PrinterCallback)  # no progress output
            trainer.train()
            score = trainer.evaluate()["eval_accuracy"]
        parameters = sum(value.numel() for value in model.parameters())
        print(f"{name:<12} {parameters:>10,}  {100 * score:.1f}")


if __name__ == "__main__":
    torch.set_num_threads(1)  # tensors of this size are slower with more
    main()
