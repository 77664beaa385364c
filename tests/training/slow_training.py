"""`python -m tests.training.slow_training ...`: mtsa with slow training steps, so that a test can kill or stop one."""

import time

from mtsa.__main__ import main
from mtsa.training.loop import TrainingLoop

_step = TrainingLoop._step


def _slow_step(*arguments):
    time.sleep(0.05)
    return _step(*arguments)


if __name__ == "__main__":
    TrainingLoop._step = _slow_step
    main()
