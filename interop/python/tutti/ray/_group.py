"""The group of ray.util.collective, as one actor sees it."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from ray.util.collective.collective_group.base_collective_group import BaseGroup
from ray.util.collective.types import (AllGatherOptions, AllReduceOptions, BarrierOptions, BroadcastOptions, RecvOptions,
                                       ReduceOp, ReduceOptions, ReduceScatterOptions, SendOptions)

import tutti

from ._meeting import meeting

_OPS = {ReduceOp.SUM: tutti.Op.SUM, ReduceOp.PRODUCT: tutti.Op.PROD, ReduceOp.MIN: tutti.Op.MIN,
        ReduceOp.MAX: tutti.Op.MAX}
_HOST_MEMORY = -1  # as a device
# Above this, what the kernel takes for fresh memory is small beside the call, and memory is dear.
_KEPT_BYTES = 64 << 20


def _alone(tensors: list[Any]) -> Any:
    """The tensor of a call. Ray passes it in a list, because an actor may have several GPUs."""
    if len(tensors) != 1:
        raise tutti.InvalidArgumentError(f"{len(tensors)} tensors were given: Tutti takes one for each actor. "
                                         "The calls named ..._multigpu are for the backend nccl")
    return _plain(tensors[0])


def _plain(tensor: Any) -> Any:
    """What the tensor's memory can be reached by, without the history that PyTorch keeps for gradients."""
    if getattr(tensor, "is_cuda", False) or type(tensor).__module__.startswith("cupy"):
        raise tutti.InvalidArgumentError("a tensor on a GPU was given: Tutti's groups of actors are for host memory. "
                                         "The backend nccl takes it")
    if hasattr(tensor, "_mask"):  # a list's tensors are copied by NumPy, which ignores masks
        raise tutti.InvalidArgumentError("a masked array was given: pass its data, e.g. after filled()")
    return tensor.detach() if hasattr(tensor, "detach") else tensor


class TuttiGroup(BaseGroup):
    """A group of actors that Ray makes; programs call ray.util.collective's functions.

    Tensors are contiguous arrays of NumPy or tensors of PyTorch, in host memory. Results are in place, as Ray defines.
    Errors are Tutti's exceptions (docs/python.md); ray.get on the driver raises them, too.

    Thread-safety: as a tutti.Communicator, one call at a time.
    """

    options: ClassVar[dict[str, Any]] = {}

    def __init__(self, world_size: int, rank: int, group_name: str) -> None:
        super().__init__(world_size, rank, group_name)
        options = {"name": group_name, "device": _HOST_MEMORY, **self.options}
        seconds = options.get("init_timeout")
        if seconds is None:
            seconds = int(tutti.settings()["TUTTI_INIT_TIMEOUT_MS"]) / 1000
        with meeting(group_name, rank, seconds) as comm_id:
            self.communicator = tutti.init(rank, world_size, comm_id, **options)
        self._scratch: dict[Any, Any] = {}

    @classmethod
    def backend(cls) -> str:
        return "TUTTI"

    @classmethod
    def check_backend_availability(cls) -> bool:
        return True

    def destroy_group(self) -> None:
        """Leaves the group. The other actors' later calls fail, and name this one."""
        self.communicator.close()

    def shrink(self) -> None:
        """See tutti.ray.shrink."""
        before = self.communicator
        self.communicator = before.shrink()
        before.close()
        self._rank, self._world_size = self.communicator.rank, self.communicator.size

    def allreduce(self, tensor: list[Any], allreduce_options: AllReduceOptions = AllReduceOptions()) -> None:
        array = _alone(tensor)
        self.communicator.all_reduce(array, array, op=_OPS[allreduce_options.reduceOp])

    def barrier(self, barrier_options: BarrierOptions = BarrierOptions()) -> None:
        self.communicator.barrier()

    def reduce(self, tensor: list[Any], reduce_options: ReduceOptions = ReduceOptions()) -> None:
        """Other actors' tensors than the root's stay as they are."""
        array, root = _alone(tensor), reduce_options.root_rank
        self.communicator.reduce(array, array if self.rank == root else None, op=_OPS[reduce_options.reduceOp], root=root)

    def broadcast(self, tensor: list[Any], broadcast_options: BroadcastOptions = BroadcastOptions()) -> None:
        self.communicator.broadcast(_alone(tensor), root=broadcast_options.root_rank)

    def allgather(self, tensor_list: list[list[Any]], tensor: list[Any],
                  allgather_options: AllGatherOptions = AllGatherOptions()) -> None:
        array, outputs = _alone(tensor), self._list(tensor_list, _alone(tensor))
        together = self._together(array)
        self.communicator.all_gather(array, together)
        for output, part in zip(outputs, together):
            output[...] = part

    def reducescatter(self, tensor: list[Any], tensor_list: list[list[Any]],
                      reducescatter_options: ReduceScatterOptions = ReduceScatterOptions()) -> None:
        """The tensors of the list stay as they are."""
        array, inputs = _alone(tensor), self._list(tensor_list, _alone(tensor))
        together = self._together(array)
        for part, each in zip(together, inputs):
            part[...] = each
        self.communicator.reduce_scatter(together, array, op=_OPS[reducescatter_options.reduceOp])

    def send(self, tensor: list[Any], send_options: SendOptions) -> None:
        self.communicator.send(_alone(tensor), send_options.dst_rank)

    def recv(self, tensor: list[Any], recv_options: RecvOptions) -> None:
        self.communicator.recv(_alone(tensor), recv_options.src_rank)

    def _list(self, tensors: list[list[Any]], like: Any) -> list[Any]:
        """The list of a call: one tensor for each rank, alike."""
        if len(tensors) != 1:
            raise tutti.InvalidArgumentError(f"{len(tensors)} lists of tensors were given: Tutti takes one for each actor")
        if len(tensors[0]) != self.world_size:
            raise tutti.InvalidArgumentError(f"a list of {len(tensors[0])} tensors was given to a group of "
                                             f"{self.world_size} actors")
        plain = [_plain(each) for each in tensors[0]]
        for index, each in enumerate(plain):
            if each.shape != like.shape or each.dtype != like.dtype:
                raise tutti.InvalidArgumentError(
                    f"the list's tensor {index} has the shape {tuple(each.shape)} and the type {each.dtype}, but this "
                    f"actor's tensor has {tuple(like.shape)} and {like.dtype}")
        return plain

    def _together(self, array: Any) -> Any:
        """Memory for as many arrays like this as there are ranks, side by side; the first dimension counts them.

        It is kept for the next call: for the kernel, fresh memory is more work than the copy.
        """
        key = (type(array), array.dtype)
        count = self.world_size * int(np.prod(array.shape, dtype=np.int64))
        flat = self._scratch.get(key)
        if flat is None or len(flat) < count:
            flat = np.empty(count, array.dtype) if isinstance(array, np.ndarray) else array.new_empty(count)
            item = array.itemsize if isinstance(array, np.ndarray) else array.element_size()
            if count * item <= _KEPT_BYTES:
                self._scratch[key] = flat
        return flat[:count].reshape((self.world_size, *array.shape))
