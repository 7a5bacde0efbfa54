// A profiler plug-in of NCCL, of whatever version: one kind of event here becomes the descriptor of each version.
//
// Thread-safety: any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "interop/nccl/plug_ins/profiler_abi.h"
#include "tutti/extension.h"

namespace tutti::nccl {

// The data of an event. Its type decides which members count.
struct ProfilerEvent {
  std::uint64_t type = 0;  // of event::
  void* parent = nullptr;
  void* group = nullptr;  // of event::kGroup: the parent before version 5
  int rank = 0;
  const char* name = nullptr;  // the communicator's
  std::uint64_t communicator = 0;
  int depth = 0;  // of groups; 1: no group was open

  const char* function = nullptr;  // "AllReduce"
  int function_number = 0;
  std::uint64_t number = 0;  // of collectives by this function so far
  const void* send = nullptr;
  void* receive = nullptr;
  std::size_t count = 0, traffic = 0;
  int type_number = 0, op = 0;
  const char* datatype = nullptr;  // "ncclFloat32"
  int root = 0;                    // or the peer
  void* stream = nullptr;
  int channels = 0;
  const char* algorithm = nullptr;  // "RING"
  const char* protocol = nullptr;
  int algorithm_number = 0, protocol_number = 0;
};

struct ProfilerPlugIn {
  std::string name;          // with its version: "Example (v6)"
  bool knows_calls = false;  // has events for calls of the API: since version 5
  std::function<ncclResult_t(const tuttiCommFacts_t& facts, const char* name, int* mask, void** context)> init;
  // Returns the plug-in's handle; null: it does not want the event.
  std::function<void*(void* context, const ProfilerEvent& event)> start;
  ncclResult_t (*stop)(void* handle) = nullptr;
  ncclResult_t (*record)(void* handle, int state, void* arguments) = nullptr;
  ncclResult_t (*close)(void* context) = nullptr;
};

// The newest version that the library of NCCL_PROFILER_PLUGIN has. Null if there is none: the log says why.
const ProfilerPlugIn* TheProfilerPlugIn();

}  // namespace tutti::nccl
