"""PyTorch's NCCL process group: every call that needs no kernel of PyTorch's, with checked results."""
import torch
import torch.distributed as dist
import torch.distributed._symmetric_memory as symmetric
from torch.distributed.device_mesh import init_device_mesh

from steps import Steps, check, library_is_ours, rank_and_ranks

rank, ranks = rank_and_ranks()
device = torch.device("cuda", rank)
every = range(ranks)
sum_of_ranks = float(sum(every))


def tensor(values, dtype=torch.float32):
    return torch.tensor(values, dtype=dtype).to(device)


def empty(count):
    return torch.empty(count, device=device)


def init():
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device)
    check((dist.get_rank(), dist.get_world_size()), (rank, ranks))


def all_reduce():
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.int64, torch.uint8):
        data = tensor([rank, 1], dtype)
        dist.all_reduce(data)
        check(data.tolist(), [sum_of_ranks, ranks])
    data = tensor([float(rank)])
    dist.all_reduce(data, op=dist.ReduceOp.MAX)
    check(data.tolist(), [ranks - 1])
    data = tensor([float(rank)])
    dist.all_reduce(data, op=dist.ReduceOp.AVG)
    check(data.tolist(), [sum_of_ranks / ranks])


def all_reduce_megabytes():
    host = torch.arange(1 << 20, dtype=torch.float32)
    data = host.to(device)
    dist.all_reduce(data)
    check(bool((data.cpu() == ranks * host).all()), True)


def broadcast():
    data = tensor([float(rank)])
    dist.broadcast(data, ranks - 1)
    check(data.tolist(), [ranks - 1])


def all_gather():
    data = empty(2 * ranks)
    dist.all_gather_into_tensor(data, tensor([rank, -rank]))
    check(data.tolist(), [value for each in every for value in (each, -each)])
    parts = [empty(1) for _ in every]
    dist.all_gather(parts, tensor([float(rank)]))
    check([part.tolist() for part in parts], [[each] for each in every])


def reduce_scatter():
    data = empty(2)
    dist.reduce_scatter_tensor(data, tensor([float(i) for i in range(2 * ranks)]))
    check(data.tolist(), [ranks * 2 * rank, ranks * (2 * rank + 1)])


def all_to_all():
    data = empty(ranks)
    dist.all_to_all_single(data, tensor([100.0 * rank + each for each in every]))
    check(data.tolist(), [100 * each + rank for each in every])
    # Rank r sends r + 1 elements to each.
    data = empty(sum(each + 1 for each in every))
    dist.all_to_all_single(data, tensor([float(rank)] * (ranks * (rank + 1))),
                           output_split_sizes=[each + 1 for each in every], input_split_sizes=[rank + 1] * ranks)
    check(data.tolist(), [each for each in every for _ in range(each + 1)])


def send_and_receive():
    if rank == 0:
        dist.send(tensor([7.0]), 1)
    elif rank == 1:
        data = empty(1)
        dist.recv(data, 0)
        check(data.tolist(), [7])
    data = empty(1)
    calls = [dist.P2POp(dist.isend, tensor([float(rank)]), (rank + 1) % ranks),
             dist.P2POp(dist.irecv, data, (rank - 1) % ranks)]
    for work in dist.batch_isend_irecv(calls):
        work.wait()
    check(data.tolist(), [(rank - 1) % ranks])


def to_and_from_a_root():
    data = tensor([float(rank)])
    dist.reduce(data, 0)
    if rank == 0:
        check(data.tolist(), [sum_of_ranks])
    parts = [empty(1) for _ in every] if rank == 0 else None
    dist.gather(tensor([float(rank)]), parts, 0)
    if rank == 0:
        check([part.tolist() for part in parts], [[each] for each in every])
    data = empty(1)
    dist.scatter(data, [tensor([float(each)]) for each in every] if rank == 0 else None, 0)
    check(data.tolist(), [rank])


def barrier():
    dist.barrier()


def wait_orders_streams():
    # Each copy reads what the call before it wrote, on another stream and without the host waiting in between.
    stream = torch.cuda.Stream()
    count, rounds = 1 << 18, 5
    data, kept = tensor([1.0] * count), [empty(count) for _ in range(rounds)]
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        for copy in kept:
            work = dist.all_reduce(data, async_op=True)
            work.wait()
            copy.copy_(data, non_blocking=True)
    stream.synchronize()
    for index, copy in enumerate(kept):
        check(set(copy.tolist()), {float(ranks ** (index + 1))})
    check(work.is_completed(), True)


def coalesced_calls():
    data = [tensor([float(rank)]) for _ in range(3)]
    with dist._coalescing_manager(device=device):
        for each in data:
            dist.all_reduce(each)
    check([each.tolist() for each in data], [[sum_of_ranks]] * 3)


def groups_and_meshes():
    halves = [list(range(ranks // 2)), list(range(ranks // 2, ranks))]
    groups = [dist.new_group(half) for half in halves]
    mine = 0 if rank < ranks // 2 else 1
    data = tensor([float(rank)])
    dist.all_reduce(data, group=groups[mine])
    check(data.tolist(), [float(sum(halves[mine]))])
    data = tensor([float(rank)])
    dist.all_reduce(data, group=dist.split_group(split_ranks=[list(every)]))
    check(data.tolist(), [sum_of_ranks])
    mesh = init_device_mesh("cuda", (2, ranks // 2), mesh_dim_names=("outer", "inner"))
    data = tensor([1.0])
    dist.all_reduce(data, group=mesh.get_group("outer"))
    check(data.tolist(), [2])


def capture_and_replay():
    data = tensor([1.0])
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        dist.all_reduce(data)
    for replay in range(1, 4):
        graph.replay()
        torch.cuda.synchronize()
        check(data.tolist(), [float(ranks**replay)])


def backend():
    return dist.distributed_c10d._get_default_group()._get_backend(device)


def registered_pools():
    # Memory of ncclMemAlloc, registered as buffers and as windows of all ranks.
    for window in (False, True):
        pool = torch.cuda.MemPool(backend().mem_allocator)
        with torch.cuda.use_mem_pool(pool):
            data = empty(1 << 20)
        data.copy_(torch.ones(1 << 20))
        backend().register_mem_pool(pool, symm=window)
        dist.all_reduce(data)
        check(set(data.tolist()), {float(ranks)})
        backend().deregister_mem_pool(pool)


def symmetric_memory():
    symmetric.set_backend("NCCL")
    data = symmetric.empty(1024, device=device)
    data.copy_(torch.full((1024,), float(rank)))
    memory = symmetric.rendezvous(data, dist.group.WORLD.group_name)
    check((memory.rank, memory.world_size), (rank, ranks))
    dist.barrier()
    theirs = memory.get_buffer((rank + 1) % ranks, (1024,), torch.float32)
    check(set(theirs.tolist()), {float((rank + 1) % ranks)})
    dist.barrier()


def shrink_group():
    group = dist.new_group(list(every))
    dist.all_reduce(tensor([1.0]), group=group)
    torch.cuda.synchronize()
    dist.barrier()
    if rank == ranks - 1:  # the ranks that leave do not call it
        return
    group = dist.distributed_c10d.shrink_group([ranks - 1], group=group)
    data = tensor([1.0])
    dist.all_reduce(data, group=group)
    check(data.tolist(), [float(ranks - 1)])


def all_gather_object():
    objects = [None] * ranks
    dist.all_gather_object(objects, {"rank": rank})
    check(objects, [{"rank": each} for each in every])


def destroy():
    dist.destroy_process_group()


steps = Steps()
steps.run(init, library_is_ours, all_reduce, all_reduce_megabytes, broadcast, all_gather, reduce_scatter, all_to_all,
          send_and_receive, to_and_from_a_root, barrier, wait_orders_streams, coalesced_calls, groups_and_meshes,
          capture_and_replay, registered_pools, symmetric_memory, shrink_group)
steps.beyond(r"no host kernel for .*\w", all_gather_object)
steps.run(destroy)
steps.end()
