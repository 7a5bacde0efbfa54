"""Two ranks train a layer by DistributedDataParallel on the backend tutti: the wheel of tutti-torch is tried with it."""
import torch, torch.distributed as dist  # imports tutti_torch by its entry point

dist.init_process_group("tutti")
rank, ranks = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 2))
inputs = torch.arange(8.0).reshape(ranks, 4)
model(inputs[rank]).sum().backward()
expected = inputs.mean(0).expand(2, 4)
assert torch.equal(model.module.weight.grad, expected), model.module.weight.grad
if rank == 0:
    import tutti_torch

    print(f"PyTorch {torch.__version__} trains on tutti {tutti_torch.library_version()}, devices {tutti_torch.DEVICES}")
dist.destroy_process_group()
