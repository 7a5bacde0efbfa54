"""The groups of a job whose model is split several ways at once."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Callable

from .. import _parallel
from .._communicator import Communicator, init
from .._errors import InvalidArgumentError, InvalidUsageError
from .._interrupts import WATCHER
from . import _draw

Group = _parallel.Group

class Parallel:
    """The groups of a job, by the axes along which its model is split. Made by initialize; `with` closes it at the end.

    Each of its groups has name, ranks (numbers of the job), rank (this one's place in it), size and bytes_sent, and
    collectives of its own. A group's communicator is made at its first call.

    Megatron's getters are methods: get_tensor_model_parallel_group(), get_data_parallel_rank(),
    get_expert_model_parallel_world_size() and so on.
    """

    def __init__(self, comm: Communicator, sizes: _parallel.Sizes, deterministic: bool | None, owns: bool) -> None:
        self.comm = comm
        self._owns = owns
        self._layouts = _parallel.layouts(sizes, comm.size)
        self._state = _parallel.State(comm, sizes, deterministic)
        WATCHER.add(self)

    @property
    def world(self) -> Group:
        """All ranks of the job."""
        return self.group("world")

    @property
    def tensor(self) -> Group:
        """The ranks that share each layer."""
        return self.group("tensor_model_parallel")

    @property
    def pipeline(self) -> Group:
        """The ranks that have the stages of one replica."""
        return self.group("pipeline_model_parallel")

    @property
    def data(self) -> Group:
        """The ranks that have the same part of the model and see different samples."""
        return self.group("data_parallel")

    @property
    def data_context(self) -> Group:
        """The ranks that hold the same parameters: the data- and the context-parallel ones."""
        return self.group("data_context_parallel")

    @property
    def context(self) -> Group:
        """The ranks that have parts of the same sequences."""
        return self.group("context_parallel")

    @property
    def ulysses(self) -> Group:
        """Those of the context-parallel ranks that exchange heads."""
        return self.group("ulysses_parallel")

    @property
    def ring(self) -> Group:
        """Those of the context-parallel ranks that are a ring."""
        return self.group("ring_parallel")

    @property
    def model(self) -> Group:
        """All ranks that hold a part of one replica."""
        return self.group("model_parallel")

    @property
    def expert(self) -> Group:
        """The ranks over which experts are divided."""
        return self.group("expert_model_parallel")

    @property
    def expert_tensor(self) -> Group:
        """The ranks that share each expert."""
        return self.group("expert_tensor_parallel")

    @property
    def expert_data(self) -> Group:
        """The ranks that hold the same experts."""
        return self.group("expert_data_parallel")

    @property
    def experts_join_replicas(self) -> bool:
        """Whether ranks of several replicas share this one's experts."""
        return len({self._layouts.dense.coordinate(rank, "dp") for rank in self.expert.ranks}) > 1

    def group(self, name: str) -> Group:
        """The group of a name of Megatron's, such as "tensor_model_parallel"."""
        return self._state.group(name)

    def __getattr__(self, name: str) -> Any:
        for ending, read in _GETTERS.items():
            axis = name[len("get_"):-len(ending)]
            if name.startswith("get_") and name.endswith(ending) and axis in _AXES:
                return lambda: read(self.group(axis))
        raise AttributeError(f"Parallel has no attribute {name}")

    def is_pipeline_first_stage(self) -> bool:
        """Whether this rank has the model's first stage."""
        return self.pipeline.rank == 0

    def is_pipeline_last_stage(self) -> bool:
        """Whether this rank has the model's last stage."""
        return self.pipeline.rank == self.pipeline.size - 1

    def draw(self, path: str | None = None) -> str:
        """Who is where, as text: the ranks by stage, replica and part of a layer. path: writes an SVG picture there, too."""
        if path is not None:
            _draw.write_svg(path, self._layouts, self.comm.hosts)
        return _draw.text(self._layouts, self.comm.rank, self.comm.hosts)

    def bytes_sent(self) -> dict[str, int]:
        """Payload that this rank has sent, by group."""
        return self._state.bytes_sent()

    def torch_group(self, name: str) -> Any:
        """The same ranks as a group of torch.distributed, of its default backend. Every rank calls it, in one order."""
        import torch.distributed
        layout, axes = _AXES[name]
        new_group: Any = torch.distributed.new_group
        mine = None
        for ranks in getattr(self._layouts, layout).groups(list(axes)):
            group = new_group(ranks)
            if self.comm.rank in ranks:
                mine = group
        return mine

    def _interrupt(self) -> None:
        _parallel.interrupt()

    def close(self) -> None:
        """Frees the groups, and the communicator if initialize made it. Every rank calls it. Twice does no harm."""
        global _current
        if _current is self:
            _current = None
        self._state.close()
        if self._owns:
            self.comm.close()

    def __enter__(self) -> Parallel:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        if kind is not None:
            self.comm.abort()
        self.close()


# Each group's layout (dense layers, experts, context) and axes there.
_AXES: dict[str, tuple[str, tuple[str, ...]]] = {
    "tensor_model_parallel": ("dense", ("tp",)),
    "pipeline_model_parallel": ("dense", ("pp",)),
    "data_parallel": ("dense", ("dp",)),
    "data_context_parallel": ("dense", ("dp", "cp")),
    "context_parallel": ("dense", ("cp",)),
    "ulysses_parallel": ("context", ("ulysses",)),
    "ring_parallel": ("context", ("ring",)),
    "model_parallel": ("dense", ("tp", "pp")),
    "expert_model_parallel": ("expert", ("ep",)),
    "expert_tensor_parallel": ("expert", ("tp",)),
    "expert_data_parallel": ("expert", ("dp",)),
}


# What Megatron's getters of these endings return. The longer one of two endings comes first.
_GETTERS: dict[str, Callable[[Group], Any]] = {
    "_group": lambda group: group,
    "_world_size": lambda group: group.size,
    "_src_rank": lambda group: group.ranks[0],
    "_rank": lambda group: group.rank,
}

_current: Parallel | None = None


def current() -> Parallel:
    """What initialize returned last, and is not closed: whose groups calls without `group=` use."""
    if _current is None:
        raise InvalidUsageError("there are no parallel groups yet: call tutti.parallel.initialize() first")
    return _current


def initialize(comm: Communicator | None = None, *, tensor_parallel_size: int = 1, pipeline_parallel_size: int = 1,
               data_parallel_size: int | None = None, context_parallel_size: int = 1, ulysses_size: int = 1,
               enable_expert_parallel: bool = False, expert_parallel_size: int | None = None,
               expert_tensor_parallel_size: int | None = None, order: str | None = None,
               deterministic: bool | None = None) -> Parallel:
    """Divides the job's ranks into groups. Every rank calls it with the same sizes, which multiply to the number of ranks.

    comm: the job's communicator; None: joins the job as tutti.init() does. The caller keeps a communicator of its own open
    until the groups are closed.
    Sizes, in vLLM's names: tensor_parallel_size ranks share each layer, pipeline_parallel_size groups of them have the
    layers one after the other, context_parallel_size have parts of each sequence (ulysses_size of these exchange heads,
    the others are a ring), and data_parallel_size replicas see different samples; None: what is left.
    enable_expert_parallel: experts are divided over all tensor-, context- and data-parallel ranks of a stage, each whole.
    Or expert_parallel_size says over how many, and expert_tensor_parallel_size how many ranks share each (None: as many as
    other layers). order: the axes from the fastest-varying rank to the slowest, as Megatron's. deterministic: as init's,
    for the groups.

    Raises InvalidArgumentError naming the quantity and both values where the sizes do not fit.
    """
    global _current
    given = comm
    comm = init() if given is None else given
    sizes = _parallel.Sizes()
    sizes.tensor_model_parallel_size = tensor_parallel_size
    sizes.pipeline_model_parallel_size = pipeline_parallel_size
    sizes.context_parallel_size = context_parallel_size
    sizes.ulysses_size = ulysses_size
    sizes.data_parallel_size = data_parallel_size or 0
    if order is not None:
        sizes.order = order
    if enable_expert_parallel:
        if expert_parallel_size is not None or expert_tensor_parallel_size is not None:
            raise InvalidArgumentError("enable_expert_parallel divides experts over all ranks of a stage: "
                                       "leave out expert_parallel_size and expert_tensor_parallel_size, or it")
        sizes.expert_model_parallel_size = max(1, comm.size // max(1, pipeline_parallel_size))
        sizes.expert_tensor_parallel_size = 1
    else:
        sizes.expert_model_parallel_size = expert_parallel_size or 1
        sizes.expert_tensor_parallel_size = expert_tensor_parallel_size or 0
    try:
        parallel = Parallel(comm, sizes, deterministic, given is None)
    except BaseException:
        if given is None:
            comm.close()
        raise
    _current = parallel
    return parallel


def initialize_model_parallel(tensor_model_parallel_size: int = 1, pipeline_model_parallel_size: int = 1, *,
                              expert_model_parallel_size: int = 1, **others: Any) -> Parallel:
    """initialize in Megatron's names; the others are initialize's own."""
    return initialize(tensor_parallel_size=tensor_model_parallel_size,
                      pipeline_parallel_size=pipeline_model_parallel_size,
                      expert_parallel_size=expert_model_parallel_size, **others)
