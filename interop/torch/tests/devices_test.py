"""Tests tensors on a device, over the fake GPU (testing/fake_gpu, fake_gpu_device.cc): results are
right, and enqueued work runs in order while the host does not wait.

Needs PyTorch 2.5, because earlier versions have another interface for third-party devices.
"""

import os
import unittest

import torch
import torch.distributed as dist

import fake_gpu
import ranks

BACKEND = "cpu:tutti,privateuseone:tutti"
SMALL = 10
LARGE = 50_000  # elements; lists of such tensors are not packed


def version():
    return tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])


def group():
    return dist.distributed_c10d._get_default_group()


def backend():
    return group()._get_backend(torch.device("cpu"))


def check(tensor, value, count=None):
    """Checks that every element is `value`, by a copy enqueued after all work in the current stream."""
    there = tensor.cpu()
    assert count is None or there.numel() == count, there.numel()
    assert torch.equal(there, torch.full_like(there, value)), (there, value)


def results(rank, n, path, devices):
    device = fake_gpu.Device(path, rank % devices)
    everybody = n * (n + 1) / 2
    for count in (1, SMALL, LARGE):
        tensor = device.full(count, rank + 1.0)
        dist.all_reduce(tensor)
        check(tensor, everybody, count)
        tensor = device.full(count, rank + 1.0)
        dist.all_reduce(tensor, dist.ReduceOp.MAX)
        check(tensor, n)
        dist.all_reduce(tensor, dist.ReduceOp.AVG)
        check(tensor, n)
        tensor = device.full(count, rank + 1.0)
        dist.broadcast(tensor, n - 1)
        check(tensor, n)
        tensor = device.full(count, rank + 1.0)
        dist.reduce(tensor, 1)
        if rank == 1:
            check(tensor, everybody)
        outputs = device.fulls(n, count, -1)
        dist.all_gather(outputs, device.full(count, rank))
        for r, output in enumerate(outputs):
            check(output, r)
        output = device.empty(n * count)
        dist.all_gather_into_tensor(output, device.full(count, rank))
        assert torch.equal(output.cpu(), torch.arange(n).repeat_interleave(count).float())
        output = device.empty(count)
        dist.reduce_scatter(output, [device.full(count, rank + r) for r in range(n)])
        check(output, sum(r + rank for r in range(n)))
        matrix = torch.arange(n).repeat_interleave(count).float()
        dist.reduce_scatter_tensor(output, (matrix + rank).to(device.name))
        check(output, sum(r + rank for r in range(n)))
        output = device.empty(n * count)
        dist.all_to_all_single(output, (matrix + 10 * rank).to(device.name))
        assert torch.equal(output.cpu(), 10 * matrix + rank)
        outputs = device.fulls(n, count, -1)
        dist.all_to_all(outputs, [device.full(count, 10 * rank + r) for r in range(n)])
        for r, output in enumerate(outputs):
            check(output, 10 * r + rank)
        outputs = device.fulls(n, count, -1) if rank == 0 else None
        dist.gather(device.full(count, rank), outputs, 0)
        for r, output in enumerate(outputs or []):
            check(output, r)
        output = device.empty(count)
        dist.scatter(output, [device.full(count, 5 + r) for r in range(n)] if rank == 1 else None, 1)
        check(output, 5 + rank)
    dist.barrier()


def of_sizes(rank, n, path):
    """Uneven and coalesced calls, empty tensors, operators that the library does not have, objects, and host memory."""
    device = fake_gpu.Device(path)
    for unit in (3, LARGE):
        sizes = [unit * (r + 1) for r in range(n)]
        outputs = [device.full(size, -1) for size in sizes]
        dist.all_gather(outputs, device.full(sizes[rank], rank))
        for r, output in enumerate(outputs):
            check(output, r, sizes[r])
        output = device.empty(sizes[rank])
        dist.reduce_scatter(output, [device.full(size, rank + 1.0) for size in sizes])
        check(output, n * (n + 1) / 2)
        # Rank r sends unit * (r + s) of its elements to rank s.
        given = [unit * (rank + r) for r in range(n)]
        output = device.empty(sum(given))
        dist.all_to_all_single(output, device.full(sum(given), rank), given, given)
        assert torch.equal(output.cpu(), torch.arange(n).repeat_interleave(torch.tensor(given)).float())
    tensors = [device.full(count, rank + 1.0) for count in (1, 0, SMALL, LARGE)]
    dist.all_reduce_coalesced(tensors)
    for tensor in tensors:
        check(tensor, n * (n + 1) / 2)
    with dist._coalescing_manager(device=torch.device(device.name)):
        for tensor in tensors:
            dist.all_reduce(tensor)
    for tensor in tensors:
        check(tensor, n * n * (n + 1) / 2)
    outputs = [device.empty(n * count) for count in (1, SMALL)]
    group().allgather_into_tensor_coalesced(outputs, [device.full(count, rank) for count in (1, SMALL)]).wait()
    for output, count in zip(outputs, (1, SMALL)):
        assert torch.equal(output.cpu(), torch.arange(n).repeat_interleave(count).float())
    dist.all_reduce(device.full(0, 1))
    tensor = device.full(SMALL, 1 << rank, torch.int32)
    dist.all_reduce(tensor, dist.ReduceOp.BOR)
    check(tensor, 2**n - 1)
    tensor = device.full(SMALL, 2, torch.int16)
    dist.all_reduce(tensor, dist.ReduceOp.PRODUCT)
    check(tensor, 2**n)
    tensor = device.full(SMALL, 3.0)
    dist.all_reduce(tensor, dist._make_nccl_premul_sum(0.5))
    check(tensor, 1.5 * n)
    objects = [None] * n
    dist.all_gather_object(objects, {"rank": rank})
    assert objects == [{"rank": r} for r in range(n)]
    tensor = torch.ones(SMALL)
    dist.all_reduce(tensor)
    check(tensor, n)


def messages(rank, n, path):
    device = fake_gpu.Device(path)
    following, previous = (rank + 1) % n, (rank - 1) % n
    for count in (1, SMALL, LARGE, 20 * LARGE):
        # All ranks send first, then receive by tag in any order.
        sends = [dist.isend(device.full(count, 10 * rank + tag), following, tag=tag) for tag in range(2)]
        received = [device.empty(count) for _ in range(2)]
        receives = [dist.irecv(received[tag], previous, tag=tag) for tag in (1, 0)]
        for work in sends + receives:
            work.wait()
        for tag in range(2):
            check(received[tag], 10 * previous + tag)
    tensor = device.full(SMALL, rank)
    if rank == 0:
        dist.send(tensor, 1)
    elif rank == 1:
        dist.recv(tensor, 0)
        check(tensor, 0)
    received = device.empty(SMALL)
    works = dist.batch_isend_irecv([dist.P2POp(dist.isend, device.full(SMALL, rank), following),
                                    dist.P2POp(dist.irecv, received, previous)])
    for work in works:
        work.wait()
    check(received, previous)


def order(rank, n, path):
    """An operation runs after earlier work in the stream and before work after wait(). The host never waits."""
    device = fake_gpu.Device(path)
    gate = device.module
    dist.all_reduce(device.full(1, 0))  # creates the communicator
    tensor, source, seen = device.full(SMALL, -1), device.full(SMALL, rank + 1.0), device.full(SMALL, -1)
    for stream in (gate.current_stream(0), gate.new_stream(0)):
        gate.use_stream(0, stream)
        tensor.copy_(device.full(SMALL, -1))
        gate.close_gate(0)
        tensor.copy_(source)
        work = dist.all_reduce(tensor, async_op=True)
        future = work.get_future().then(lambda done: done.value()[0])
        work.wait()
        seen.copy_(tensor)
        # If the host had waited anywhere above, it would never reach this line.
        assert not work.is_completed() and not work.is_success()
        try:
            work.wait(ranks.timedelta(milliseconds=50))
            raise AssertionError("wait() with a timeout did not wait")
        except dist.DistBackendError as error:
            assert "50 ms" in str(error), error
        gate.open_gate()
        check(seen, n * (n + 1) / 2)
        check(future.wait(), n * (n + 1) / 2)
        assert work.is_completed() and work.is_success()
    work = dist.all_reduce(tensor, async_op=True)
    work.wait(ranks.timedelta(seconds=30))
    assert work.is_completed()
    works = [dist.all_reduce(source, dist.ReduceOp.MAX, async_op=True) for _ in range(100)]
    works[-1].wait()
    check(source, n)


def memory(rank, n, path):
    """Memory that the program has released is not reused before pending operations have used it."""
    device = fake_gpu.Device(path)
    gate = device.module
    first = device.full(1, 0)
    dist.all_reduce(first)
    gate.close_gate(0)
    dist.all_reduce(first, async_op=True)  # so the group's stream also waits for the gate
    gate.use_stream(0, gate.new_stream(0))
    tensor = device.full(SMALL, rank + 1.0)
    where = tensor.data_ptr()
    output = device.empty(n * SMALL)
    work = dist.all_gather_into_tensor(output, tensor, async_op=True)
    del tensor, work
    others = [device.full(SMALL, 99.0) for _ in range(3)]
    assert all(other.data_ptr() != where for other in others)
    gate.synchronize(0)
    gate.open_gate()
    backend().barrier(barrier_options(device)).wait()
    gate.synchronize(0)
    dist.all_reduce(first)
    check(first, 0)
    assert torch.equal(output.cpu(), torch.arange(1, n + 1).repeat_interleave(SMALL).float())
    # Now the memory may be reused, and is.
    assert where in [device.empty(SMALL).data_ptr() for _ in range(1)]


def barrier_options(device):
    options = dist.BarrierOptions()
    options.device = torch.device(device.name)
    return options


def callbacks(rank, n, path):
    """A future's callback runs with a stream ordered after the operation, and may use the group."""
    device = fake_gpu.Device(path)
    dist.all_reduce(device.full(1, 0))
    twice, seen = device.full(SMALL, 1.0), device.full(SMALL, -1)

    def again(done):
        tensor = done.value()[0]
        seen.copy_(tensor)
        dist.all_reduce(tensor)
        return tensor

    device.module.close_gate(0)
    twice_later = dist.all_reduce(twice, async_op=True).get_future().then(again)
    device.module.open_gate()
    check(twice_later.wait(), n * n)
    check(seen, n)
    # One Work for operations on several tensors.
    tensors = [device.full(SMALL, rank) for _ in range(3)]
    joint = group().reduce_scatter_tensor_coalesced(tensors, [device.full(n * SMALL, 1.0) for _ in range(3)])
    for tensor in joint.get_future().wait():
        check(tensor, n)


def graphs(rank, n, path):
    """A call can be captured after the communicator exists, and each replay is a new operation."""
    device = fake_gpu.Device(path)
    tensor, output = device.full(SMALL, 1.0), device.empty(n * SMALL)
    dist.all_reduce(device.full(1, 0))
    device.module.synchronize(0)  # the group's other work must not overlap with the replays
    device.module.use_stream(0, device.module.new_stream(0))
    capture = device.module.Capture(0)
    dist.all_reduce(tensor)
    dist.all_gather_into_tensor(output, tensor)
    capture.end()
    check(tensor, 1)
    for replay in range(1, 4):
        capture.replay()
        check(tensor, n**replay)
        check(output, n**replay)
    # Other operations between the replays.
    dist.all_reduce(tensor)
    capture.replay()
    check(output, n**5)
    dist.barrier()


def refusals(rank, n, path):
    device = fake_gpu.Device(path)
    other = torch.ones(SMALL).to("privateuseone:1")
    tutti = backend()

    def refused(words, call, *arguments):
        try:
            call(*arguments)
        except ValueError as error:
            assert all(word in str(error) for word in words), error
            return
        raise AssertionError(f"not refused; expected {words}")

    mine = device.full(SMALL, rank)
    refused(["all_reduce", "meta", "cpu", "privateuseone"], tutti.allreduce, [torch.ones(3, device="meta")])
    refused(["all_gather", "privateuseone:0", "privateuseone:1"], tutti.allgather, [[mine, other]], [mine])
    refused(["all_gather_into_tensor", "privateuseone:0", "cpu"], tutti._allgather_base, torch.ones(n * SMALL), mine)
    refused(["all_reduce_coalesced", "privateuseone:0", "privateuseone:1"], tutti.allreduce_coalesced, [mine, other])
    refused(["recv", "any source", "privateuseone:0"], tutti.recv_anysource, [mine], 0)
    dist.all_reduce(mine)
    check(mine, n * (n - 1) / 2)
    # Each device has its own communicator.
    dist.all_reduce(other)
    check(other, n)


def dies(rank, n, path):
    device = fake_gpu.Device(path)
    tensor = device.full(SMALL, 1.0)
    dist.all_reduce(tensor)
    check(tensor, n)
    if rank == 1:
        os._exit(1)
    said = []
    work = dist.all_reduce(tensor, async_op=True)
    for call in (lambda: work.wait(ranks.timedelta(seconds=30)), work.wait, lambda: backend().allreduce([tensor])):
        try:
            call()
        except dist.DistBackendError as error:
            said.append(str(error).splitlines()[0])
    assert work.is_completed() and not work.is_success()
    return said


def differ(rank, n, path):
    device = fake_gpu.Device(path)
    try:
        backend().allreduce([device.full(LARGE if rank == 1 else SMALL, 1.0)]).wait(ranks.timedelta(seconds=30))
    except dist.DistBackendError as error:
        return str(error).splitlines()[0]
    return ""


@unittest.skipIf(version() < (2, 5), "devices of other makers are made for PyTorch 2.5")
@unittest.skipUnless(fake_gpu.is_there(), "there is no fake GPU")
class Devices(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if fake_gpu.headers_of_cuda() is None:
            raise unittest.SkipTest("there is no cuda.h")
        cls.path = fake_gpu.build(os.environ.get("TUTTI_TEST_BUILD", "."))
        os.environ["TUTTI_FAKE_GPU_DEVICES"] = "2"

    def run_ranks(self, n, body, *arguments):
        return ranks.run(n, body, n, self.path, *arguments, backend=BACKEND)

    def test_results_on_one_device(self):
        for n in (2, 4):
            self.run_ranks(n, results, 1)

    def test_results_on_two_devices(self):
        self.run_ranks(2, results, 2)

    def test_on_few_and_more_ranks(self):
        for body in (of_sizes, messages, graphs):
            for n in (2, 4):
                with self.subTest(body=body.__name__, n=n):
                    self.run_ranks(n, body)

    def test_on_two_ranks(self):
        for body in (order, memory, callbacks, refusals):
            with self.subTest(body=body.__name__):
                self.run_ranks(2, body)

    def test_a_rank_dies(self):
        outcomes = ranks.outcomes(2, dies, 2, self.path, backend=BACKEND)
        self.assertIsNone(outcomes[0].error)
        self.assertEqual(len(outcomes[0].value), 3, outcomes[0].value)
        for sentence in outcomes[0].value:
            self.assertIn("rank 1", sentence)
            self.assertIn("died", sentence)

    def test_calls_that_differ(self):
        for sentence in self.run_ranks(2, differ):
            self.assertIn(f"count={SMALL}", sentence)
            self.assertIn(f"count={LARGE}", sentence)


if __name__ == "__main__":
    unittest.main()
