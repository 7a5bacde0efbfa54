"""PyTorch finds the fake GPU's devices and moves tensors; its own kernels cannot run there and say so."""
import os

import torch

from steps import Steps, check, library_is_ours

NUMBERS = [1.0, 2.0, 3.0]


def find_nccl():
    version = torch.cuda.nccl.version()
    check(torch.distributed.is_nccl_available(), True)
    print("NCCL", version)


def find_devices():
    check(torch.cuda.is_available(), True)
    check(torch.cuda.device_count(), int(os.environ["TUTTI_FAKE_GPU_DEVICES"]))
    check(torch.cuda.get_device_name(0), "Tutti fake GPU")


def copy_there_and_back():
    check(torch.tensor(NUMBERS).cuda().cpu().tolist(), NUMBERS)


def copy_on_the_device():
    first = torch.tensor(NUMBERS).cuda()
    second = torch.empty(3, device="cuda")
    second.copy_(first)
    check(second.tolist(), NUMBERS)
    third = torch.empty(3, device="cuda:1")  # another device
    third.copy_(second)
    check(third.tolist(), NUMBERS)


def fill_with_zeros():
    check(torch.zeros(1000, device="cuda").tolist(), [0.0] * 1000)


def copy_pinned_memory():
    host = torch.tensor(NUMBERS).pin_memory()
    check(host.is_pinned(), True)
    device = host.to("cuda", non_blocking=True)
    back = torch.empty(3).pin_memory()
    back.copy_(device, non_blocking=True)
    torch.cuda.synchronize()
    check(back.tolist(), NUMBERS)


def order_streams_by_events():
    count = 1 << 20
    source = torch.arange(count, dtype=torch.int32).cuda()
    first, second, event = torch.cuda.Stream(), torch.cuda.Stream(), torch.cuda.Event()
    between, target = torch.empty_like(source), torch.empty_like(source)
    torch.cuda.synchronize()
    with torch.cuda.stream(first):
        between.copy_(source, non_blocking=True)
        event.record()
    with torch.cuda.stream(second):
        event.wait()
        target.copy_(between, non_blocking=True)
    second.synchronize()
    check(bool((target.cpu() == torch.arange(count, dtype=torch.int32)).all()), True)


def give_memory_back():
    held = torch.empty(1 << 20, device="cuda")
    check(torch.cuda.memory_allocated() >= held.numel() * held.element_size(), True)
    del held
    torch.cuda.empty_cache()
    free, total = torch.cuda.mem_get_info()
    check(0 < free <= total, True)


def add():
    torch.tensor(NUMBERS).cuda() + 1


def sort():
    torch.tensor(NUMBERS).cuda().sort()


def copy_after_refused_kernels():
    copy_there_and_back()


def multiply_matrices():
    matrix = torch.zeros(2, 2, device="cuda")
    torch.mm(matrix, matrix)


steps = Steps()
steps.run(find_nccl, library_is_ours, find_devices, copy_there_and_back, copy_on_the_device, fill_with_zeros,
          copy_pinned_memory, order_streams_by_events, give_memory_back)
steps.beyond(r"no host kernel for .*\w", add, sort)
steps.beyond(r"CUBLAS_STATUS_\w+", multiply_matrices)
steps.run(copy_after_refused_kernels)
steps.end()
