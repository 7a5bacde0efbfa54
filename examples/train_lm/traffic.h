// How many bytes a step sends, by the papers' formulas: what the library's counters are compared with.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "config.h"

namespace train_lm {

// By group (as ParallelState::bytes_sent() names them), all ranks of the world together, with ring algorithms. An
// all-reduce of B bytes over n ranks is 2 (n - 1) B, a reduce-scatter to or an all-gather of B bytes in all (n - 1) B.
// `remote_choices`: of experts of other ranks, that all tokens of the step made.
std::map<std::string, std::uint64_t> expected_bytes(const TrainConfig& config, int world_size,
                                                    std::uint64_t remote_choices);

// By one rank of `ranks`, for `bytes` of gradients, of which it updates the parameters of `updated`: 2 (n - 1) / n for
// the ring, where the buckets' n blocks are equal; a worker of a parameter server sends its gradients up once, a server
// n - 1 copies of its share of the parameters down; with a broadcast everybody sends everything n - 1 times.
std::uint64_t expected_bytes_of_rank(GradientExchange exchange, int ranks, std::uint64_t bytes, std::uint64_t updated);

}  // namespace train_lm
