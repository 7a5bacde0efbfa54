"""Calls of vLLM's communicators for CPUs on the same tensors: vLLM's own shared memory, Gloo, and Tutti.

    torchrun --nproc-per-node RANKS all_reduces.py

Checks that the results are sums, and that Tutti's are the same on all ranks. Exits with 1 if one is not. interop/torch/bench
measures them.
"""

import os
import sys

import torch
import torch.distributed as dist


def communicators():
    """name -> communicator, each with a group of all ranks."""
    from vllm.platforms import current_platform
    current_platform.import_kernels()
    from vllm.distributed.device_communicators.cpu_communicator import CpuCommunicator

    from tutti_torch.vllm_communicator import Communicator

    os.environ["VLLM_DIST_IDENT"] = os.environ["MASTER_PORT"]  # as vLLM's worker names its shared memory
    gloo, tutti, cpu = dist.group.WORLD, dist.new_group(backend="tutti"), torch.device("cpu")
    made = {"shared memory": CpuCommunicator(gloo, cpu, gloo, "tp:0"),
            "Gloo": CpuCommunicator(gloo, cpu, gloo, "world:0"),
            "Tutti": Communicator(gloo, cpu, tutti, "tp:0")}
    kinds = [type(one.dist_module).__name__ for one in made.values()]
    assert kinds == ["_CPUSHMDistributed", "module", "module"], kinds
    return made


def wrong(made, rank, ranks):
    """What differs from the sum of the ranks' tensors, as sentences."""
    found = []
    for dtype in (torch.float32, torch.bfloat16):
        for count in (1, 7, 512, 4096, 100_003):
            inputs = [torch.randn(count, generator=torch.Generator().manual_seed(one)).to(dtype) for one in range(ranks)]
            exact = sum(one.double() for one in inputs)
            results = {}
            for name, communicator in made.items():
                results[name] = communicator.all_reduce(inputs[rank].clone())
                of_all = [torch.empty_like(results[name]) for _ in range(ranks)]
                dist.all_gather(of_all, results[name])
                if not all(torch.equal(of_all[0], one) for one in of_all):
                    sentence = f"{name}: {dtype}, {count} elements: the ranks' results differ"
                    if name == "Tutti":
                        found.append(sentence)
                    elif rank == 0:
                        print(f"# {sentence}")  # each rank of vLLM's shared memory adds in an order of its own
                largest = sum(one.double().abs() for one in inputs).max()
                if (results[name].double() - exact).abs().max() > largest * torch.finfo(dtype).eps * ranks:
                    found.append(f"{name}: {dtype}, {count} elements: no sum")
            if rank == 0:
                same = {name: torch.equal(results["Tutti"], one) for name, one in results.items() if name != "Tutti"}
                print(f"# {dtype}, {count} elements, the bits of Tutti: {same}")
    tutti = made["Tutti"]
    matrix = torch.arange(6.0).reshape(2, 3) + 10 * rank
    gathered = tutti.all_gather(matrix, dim=1)
    if not torch.equal(gathered, torch.cat([matrix - 10 * rank + 10 * one for one in range(ranks)], dim=1)):
        found.append("Tutti: all_gather")
    at_root = tutti.gather(matrix, dst=ranks - 1, dim=0)
    if rank == ranks - 1 and not torch.equal(at_root[-2:], matrix):
        found.append("Tutti: gather")
    return found


def main():
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    made = communicators()
    found = wrong(made, rank, ranks)
    for sentence in found:
        print(f"rank {rank}: {sentence}", file=sys.stderr)
    dist.barrier()
    sys.exit(1 if found else 0)


main()
