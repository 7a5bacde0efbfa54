"""What the process group says when a rank is killed: in the next call, or, with the argument `watchdog`, if a program
makes no further call.

The last rank kills itself. Without a further call, PyTorch's watchdog ends the process by a signal, so the test forks
and judges its child.
"""
import datetime
import os
import re
import signal
import sys
import time

from steps import Steps, check, one_line, rank_and_ranks

PATIENCE = 60  # seconds, several times what PyTorch's watchdog takes to look, to dump its records and to end a process
LOOK_EVERY = 0.05  # seconds
LOST = r"rank {} \(host .*, pid \d+\) died while rank \d+ .* waited for it in all_reduce"
WATCHDOG = r"nccl hit async error|NCCL Async Error"

rank, ranks = rank_and_ranks()


def lose_last_rank():
    """Returns PyTorch's module and a tensor, when the last rank is about to be gone."""
    import torch
    import torch.distributed as dist

    device = torch.device("cuda", rank)
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=device, timeout=datetime.timedelta(seconds=10 * PATIENCE))
    data = torch.tensor([1.0]).to(device)
    dist.all_reduce(data)
    check(data.tolist(), [float(ranks)])
    if rank == ranks - 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return dist, data


def expect(pattern, text):
    if not re.search(pattern, text):
        raise AssertionError(f"no '{pattern}' in: {text}")


def next_call_names_the_lost_rank():
    dist, data = lose_last_rank()
    end = time.monotonic() + PATIENCE
    try:
        while time.monotonic() < end:
            dist.all_reduce(data)
            time.sleep(LOOK_EVERY)  # the stream of the lost call stands still
    except RuntimeError as error:
        expect(LOST.format(ranks - 1), one_line(error))
        # An orderly end would wait for the lost call. With an abort, its stream goes on.
        dist.distributed_c10d._abort_process_group()
        data.tolist()
        return
    raise AssertionError(f"no exception in {PATIENCE} s")


def wait_for_watchdog():
    dist, data = lose_last_rank()
    dist.all_reduce(data)
    print("VALUES", data.tolist(), file=sys.stderr, flush=True)  # waits for the call
    time.sleep(PATIENCE)
    os._exit(0)


def watchdog_ends_the_process():
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(writer, 2)
        os.close(reader)
        os.close(writer)
        wait_for_watchdog()
    os.close(writer)
    began = time.monotonic()
    with os.fdopen(reader, errors="replace") as output:
        text = output.read()
    print(text)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if rank == ranks - 1:
        os.kill(os.getpid(), signal.SIGKILL)  # as the child has done
    check(signal.Signals(-code).name if code < 0 else code, "SIGABRT")
    expect(WATCHDOG, text)
    check(re.findall("VALUES (.*)", text), [])  # the tensor of the lost call cannot be read
    steps.note("before that", f"the child lived {time.monotonic() - began:.0f} s, start-up included, and waited for the "
               "tensor of the lost call")


steps = Steps()
steps.run(watchdog_ends_the_process if "watchdog" in sys.argv else next_call_names_the_lost_rank)
# PyTorch dumps its records of the failure in a thread of its own, which can fail when the interpreter shuts down.
steps.end(clean_up=False)
