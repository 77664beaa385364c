"""`python -m tests.training.slowly ...`: mtsa with training steps that take their time, so that a test can kill one."""

import time

import mtsa.training.trainer as trainer
from mtsa.__main__ import main

_real = trainer.RecipeTrainer.compute_loss


def _late(*given, **named):
    time.sleep(0.05)
    return _real(*given, **named)


if __name__ == "__main__":
    trainer.RecipeTrainer.compute_loss = _late
    main()
