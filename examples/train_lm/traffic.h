// The bytes that a step sends, by the papers' formulas, for comparison with the library's counters.
//
// Thread-safety: pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "config.h"

namespace train_lm {

// Bytes by group (as ParallelState::bytes_sent() names them), for all ranks of the world together, with ring
// algorithms. An all-reduce of B bytes over n ranks is 2 (n - 1) B, a reduce-scatter to or an all-gather of B bytes in
// all (n - 1) B. `remote_choices`: how often the step's tokens chose experts of other ranks.
std::map<std::string, std::uint64_t> expected_bytes(const TrainConfig& config, int world_size,
                                                    std::uint64_t remote_choices);

// Bytes from one rank of `ranks` for `bytes` of gradients, if it updates the parameters of `updated` of them: for the
// ring 2 (n - 1) / n, if the buckets' n blocks are equal. A parameter server's worker sends its gradients up once, a
// server n - 1 copies of its share of parameters down. With a broadcast every rank sends all n - 1 times.
std::uint64_t expected_bytes_of_rank(GradientExchange exchange, int ranks, std::uint64_t bytes, std::uint64_t updated);

}  // namespace train_lm
