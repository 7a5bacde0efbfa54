// NCCL_ALGO and NCCL_PROTO: lists of algorithms and protocols, one for all functions and one for each function, as in
// "ring,tree;allreduce:^tree". They become the text of TUTTI_ALGO and TUTTI_PROTO.
//
// Thread-safety: pure functions.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "tutti/tutti.h"

namespace tutti::nccl {

// The numbers are those of NCCL's ABI.
enum Function { kBroadcast, kReduce, kAllGather, kReduceScatter, kAllReduce, kFunctions };
enum Algorithm { kTree, kRing, kCollnetDirect, kCollnetChain, kNvls, kNvlsTree, kPat, kAlgorithms };
enum Protocol { kLl, kLl128, kSimple, kProtocols };

inline constexpr std::array<std::string_view, kAlgorithms> kAlgorithmNames = {
    "TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT"};
inline constexpr std::array<std::string_view, kProtocols> kProtocolNames = {"LL", "LL128", "SIMPLE"};
// Tutti's names, by NCCL's number.
inline constexpr std::array<std::string_view, kFunctions> kTuttiFunctions = {"broadcast", "reduce", "all_gather",
                                                                             "reduce_scatter", "all_reduce"};
inline constexpr std::array<std::string_view, kProtocols> kTuttiProtocols = {"line", "inline", "bulk"};
inline constexpr std::array<std::string_view, kFunctions> kFunctionNames = {"Broadcast", "Reduce", "AllGather",
                                                                            "ReduceScatter", "AllReduce"};

// NCCL's number for an algorithm of Tutti; -1: NCCL has none like it.
int AlgorithmOf(tuttiAlgorithm_t algorithm);
// NCCL's number for a name of kTuttiFunctions or kTuttiProtocols; -1: it has none.
int FunctionOf(std::string_view collective);
int ProtocolOf(std::string_view protocol);

// These throw Refusal (ncclInvalidUsage, as NCCL) for words that NCCL does not know, and for choices that Tutti cannot
// make. "": anything is allowed.
std::string TuttiAlgorithms(std::string_view text);
std::string TuttiProtocol(std::string_view text);

}  // namespace tutti::nccl
