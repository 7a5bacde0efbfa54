"""Models split over ranks: tensor, sequence, context, expert, pipeline and sharded data parallelism, from Python.

    p = tutti.parallel.initialize(tensor_parallel_size=2, data_parallel_size=2)    # under torchrun or tutti run
    print(p.draw())                                                                # who is where

Calls take NumPy's arrays and PyTorch's tensors, which autograd differentiates. docs/parallel.md in Tutti's source tree
describes the package, which is thin over the C++ layer libtutti_parallel.
"""

from __future__ import annotations

from typing import Any

try:
    from .. import _parallel
except ImportError as error:
    raise ImportError("this installation of tutti has no parallel layer: it was built with a libtutti.so that has no "
                      "libtutti_parallel.so beside it") from error
from ._context import (ContextParallelAttention, context_parallel_attention, gather_sequence, mix_heads, positions,
                       scatter_heads_gather_sequence, scatter_sequence_gather_heads, split_sequence)
from ._experts import MoEAlltoAllTokenDispatcher, Routing, route
from ._layers import (column_parallel_linear, column_parallel_linear_backward, copy_to_tensor_model_parallel_region,
                      gather_from_sequence_parallel_region, gather_from_tensor_model_parallel_region,
                      reduce_from_tensor_model_parallel_region, reduce_scatter_to_sequence_parallel_region,
                      row_parallel_linear, row_parallel_linear_backward, scatter_to_sequence_parallel_region,
                      scatter_to_tensor_model_parallel_region, vocab_parallel_cross_entropy, vocab_parallel_embedding)
from ._plan import Plan, plan
from ._serving import Replica, ReplicaError, ReplicaRouter, any_replica_has_work
from ._state import Group, Parallel, current, initialize, initialize_model_parallel

# What needs PyTorch, which is imported when one of these is first used.
_OF_PYTORCH = {"ColumnParallelLinear": "_modules", "RowParallelLinear": "_modules",
               "VocabParallelEmbedding": "_modules", "LayerNorm": "_modules", "ParallelMLP": "_modules",
               "ParallelAttention": "_modules", "MoELayer": "_moe_layer", "Pipeline": "_pipeline",
               "DistributedDataParallel": "_data", "FullyShardedDataParallel": "_sharded",
               "KeyValueCache": "_inference", "forward_through": "_inference", "whole_state_dict": "_division",
               "load_whole_state_dict": "_division", "clip_grad_norm_": "_division"}

pipeline_schedule = _parallel.pipeline_schedule


def __getattr__(name: str) -> Any:
    if name not in _OF_PYTORCH:
        raise AttributeError(f"module {__name__} has no attribute {name}")
    import importlib
    return getattr(importlib.import_module(f"{__name__}.{_OF_PYTORCH[name]}"), name)


__all__ = ["ContextParallelAttention", "Group", "MoEAlltoAllTokenDispatcher", "Parallel", "Plan", "Replica", "ReplicaError",
           "ReplicaRouter", "Routing", "any_replica_has_work", "column_parallel_linear",
           "column_parallel_linear_backward", "context_parallel_attention", "copy_to_tensor_model_parallel_region",
           "current", "gather_from_sequence_parallel_region", "gather_from_tensor_model_parallel_region",
           "gather_sequence", "initialize", "initialize_model_parallel", "mix_heads", "pipeline_schedule", "plan",
           "positions", "reduce_from_tensor_model_parallel_region", "reduce_scatter_to_sequence_parallel_region", "route",
           "row_parallel_linear", "row_parallel_linear_backward", "scatter_heads_gather_sequence",
           "scatter_sequence_gather_heads", "scatter_to_sequence_parallel_region",
           "scatter_to_tensor_model_parallel_region", "split_sequence", "vocab_parallel_cross_entropy",
           "vocab_parallel_embedding", *_OF_PYTORCH]
