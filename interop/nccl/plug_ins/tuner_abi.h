// The interface of NCCL's tuner plug-ins, versions 2 to 5, as far as its layout in memory: a library exports one of
// these structs under the name of kTunerSymbol and the version.
//
// Thread-safety: types only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "interop/nccl/environment/choice_lists.h"
#include "interop/nccl/nccl.h"

namespace tutti::nccl {

inline constexpr char kTunerSymbol[] = "ncclTunerPlugin_v";

// A plug-in logs by this: level, subsystems, file, line, and a format of printf.
using PlugInLogger = void (*)(int level, unsigned long flags, const char* file, int line, const char* format, ...);

// In a table of costs, a plan that does not exist.
inline constexpr float kNoPlan = -1.0F;

struct TunerV2 {
  static constexpr int kVersion = 2;
  const char* name;
  ncclResult_t (*init)(std::size_t nranks, std::size_t nodes, PlugInLogger log, void** context);
  ncclResult_t (*choose)(void* context, int function, std::size_t bytes, int collnet_support, int nvls_support,
                         int operations, int* algorithm, int* protocol, int* channels);
  ncclResult_t (*close)(void* context);
};

struct TunerV3 {
  static constexpr int kVersion = 3;
  const char* name;
  ncclResult_t (*init)(std::size_t nranks, std::size_t nodes, PlugInLogger log, void** context);
  // `costs` is a matrix of algorithms by protocols, in us.
  ncclResult_t (*choose)(void* context, int function, std::size_t bytes, int operations, float** costs, int algorithms,
                         int protocols, int* channels);
  ncclResult_t (*close)(void* context);
};

struct TunerV4 {
  static constexpr int kVersion = 4;
  const char* name;
  ncclResult_t (*init)(std::size_t nranks, std::size_t nodes, PlugInLogger log, void** context);
  ncclResult_t (*choose)(void* context, int function, std::size_t bytes, int operations, float** costs, int algorithms,
                         int protocols, int registered, int* channels);
  ncclResult_t (*close)(void* context);
};

// Ranks that NVLink joins.
struct NvlinkDomains {
  int domains, fewest_ranks, most_ranks;
};

// The constants of NCCL's cost model, by algorithm and protocol, link, generation of GPU, and number of nodes. Tutti
// has another model, so all are zero, and what a plug-in writes has no effect.
struct TunerConstants {
  static constexpr std::size_t kLinks = 3, kGenerations = 4, kScales = 3;
  double base_latency[kAlgorithms][kProtocols];
  double link_latency[kLinks][kAlgorithms][kProtocols];
  double bandwidths[4][kGenerations][kScales];
};

struct TunerV5 {
  static constexpr int kVersion = 5;
  const char* name;
  ncclResult_t (*init)(void** context, std::uint64_t communicator, std::size_t nranks, std::size_t nodes,
                       PlugInLogger log, NvlinkDomains* domains, TunerConstants* constants);
  ncclResult_t (*choose)(void* context, int function, std::size_t bytes, int operations, float** costs, int algorithms,
                         int protocols, int registered, int* channels);
  ncclResult_t (*close)(void* context);
};

}  // namespace tutti::nccl
