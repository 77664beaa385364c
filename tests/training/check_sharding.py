"""What each of two processes holds of a model whose weights are spread; says "right" where all is as it should be."""

import torch
import torch.distributed as dist

from mtsa.models.config import MtsaTaggerConfig
from mtsa.models.hub_models import MtsaForTokenClassification
from mtsa.training.distributed import (
    full_optimizer_state,
    gather_weights,
    local_rows,
    scatter_weights,
    shard,
    shard_loaded_state,
)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    config = MtsaTaggerConfig(
        words=(31, 4), width=6, encoder="stacked_mtsa", encoder_options={"layers": 2, "width": 8, "heads": 2, "hidden": 10},
        id2label={0: "O", 1: "B-a", 2: "I-a"}, num_labels=3,
    )  # fmt: skip
    plain = MtsaForTokenClassification(config)
    shared = shard(plain, torch.device("cpu"))
    held = sum(value.to_local().numel() for value in shared.parameters())
    everything = sum(value.numel() for value in plain.parameters())
    assert abs(held / everything - 0.5) < 0.1, (held, everything)

    words = dict(shared.named_parameters())["words.tuned"]
    local, rows = local_rows(words.detach(), torch.tensor([0, 15, 16, 30]))
    assert rows.tolist() == [[0, 15], [0, 14]][rank]
    assert torch.equal(local[rows], plain.words.tuned.detach()[[[0, 15], [16, 30]][rank]])

    start = {name: value.detach().clone() for name, value in plain.named_parameters()}
    for value in plain.parameters():
        value.data.zero_()
    gather_weights(shared, plain)
    assert all(torch.equal(start[name], value) for name, value in plain.named_parameters())

    optimizer = torch.optim.Adam(shared.parameters())
    shard_loaded_state(optimizer)
    for value in shared.parameters():
        value.grad = torch.zeros_like(value) + 1.0
    optimizer.step()
    state = full_optimizer_state(optimizer)
    sizes = [tuple(entry["exp_avg"].shape) for entry in state["state"].values()]
    assert sizes == [tuple(value.shape) for value in plain.parameters()]
    again = torch.optim.Adam(shared.parameters())
    shard_loaded_state(again)
    again.load_state_dict(state)
    for first, second in zip(optimizer.state.values(), again.state.values(), strict=True):
        assert torch.equal(first["exp_avg"].to_local(), second["exp_avg"].to_local())

    for value in plain.parameters():
        value.data.add_(1.0)
    scatter_weights(plain, shared)
    gather_weights(shared, plain)
    assert all(torch.equal(start[name] + 1.0, value) for name, value in plain.named_parameters())
    print("right", flush=True)
    dist.barrier()  # gloo may abort a process that still talks to one that has left
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
