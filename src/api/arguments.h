// Checks a call's arguments and turns them into an Operation. Finds every argument that is wrong on its own before
// anything is sent; the message names the argument.
//
// Thread-safety: pure functions. All throw tuttiInvalidArgument.
#pragma once

#include "src/plan/operation.h"

namespace tutti::api {

// The calling rank.
struct Caller {
  int rank;
  int nranks;
};

struct Buffers {
  const void* send;
  void* receive;
  std::size_t count;
  tuttiDataType_t type;
};

// A collective without vectors or tensors; what a rank other than the root passes for a side of the root is ignored.
plan::Operation CheckedCollective(const Caller& caller, const plan::PlainCall& call);
plan::Operation CheckedSend(const Caller& caller, const Buffers& buffers, int peer);
plan::Operation CheckedReceive(const Caller& caller, const Buffers& buffers, int peer);

// The v-forms; buffers.count is this rank's own (all_gather) or unused.
plan::Operation CheckedAllGatherV(const Caller& caller, const Buffers& buffers, const std::size_t* counts,
                                  const std::size_t* places);
plan::Operation CheckedReduceScatterV(const Caller& caller, const Buffers& buffers, const std::size_t* counts,
                                      tuttiRedOp_t op);
plan::Operation CheckedAllToAllV(const Caller& caller, const Buffers& buffers, const std::size_t* send_counts,
                                 const std::size_t* send_places, const std::size_t* receive_counts,
                                 const std::size_t* receive_places);

// The tensor forms; src/api/tensor_arguments.cc.
struct TensorBuffers {
  const void* send;
  const tuttiTensorLayout_t* send_layout;
  void* receive;
  const tuttiTensorLayout_t* receive_layout;
  tuttiDataType_t type;
};
plan::Operation CheckedAllGatherTensor(const Caller& caller, const TensorBuffers& buffers, int dim);
plan::Operation CheckedReduceScatterTensor(const Caller& caller, const TensorBuffers& buffers, int dim,
                                           tuttiRedOp_t op);
plan::Operation CheckedAllToAllTensor(const Caller& caller, const TensorBuffers& buffers, int send_dim,
                                      int receive_dim);

}  // namespace tutti::api
