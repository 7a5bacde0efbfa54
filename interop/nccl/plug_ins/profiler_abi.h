// The interface of NCCL's profiler plug-ins, versions 1 to 6, as far as its layout in memory: a library exports one of
// these structs under the name of kProfilerSymbol and the version. Only the events that Tutti makes are declared; `room`
// stands for the others.
//
// Thread-safety: types only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "interop/nccl/nccl.h"
#include "interop/nccl/plug_ins/tuner_abi.h"

namespace tutti::nccl {

inline constexpr char kProfilerSymbol[] = "ncclProfiler_v";

// Kinds of events, as bits of a plug-in's mask.
namespace event {
inline constexpr std::uint64_t kGroup = 1, kCollective = 2, kMessage = 4, kProxyOperation = 8, kProxyStep = 16,
                               kKernelChannel = 64, kNetwork = 128, kGroupCall = 256, kCollectiveCall = 512,
                               kMessageCall = 1024, kLaunch = 2048;
}  // namespace event

// States of a group's call.
inline constexpr int kGroupStartEnds = 23, kGroupEndBegins = 24;

struct CollectiveV4 {
  std::uint64_t number;
  const char* function;
  const void* send;
  void* receive;
  std::size_t count;
  int root;
  const char* type;
  std::uint8_t channels, warps;
  const char* algorithm;
  const char* protocol;
};
struct MessageV4 {
  const char* function;
  void* buffer;
  const char* type;
  std::size_t count;
  int peer;
  std::uint8_t channels;
};
// Version 5 appends to those of version 4, and version 6 has the same.
struct CollectiveV6 : CollectiveV4 {
  void* group;
};
struct MessageV6 : MessageV4 {
  void* group;
};
// A base's padding at its end holds nothing of what follows, as in C.
static_assert(sizeof(CollectiveV6) == sizeof(CollectiveV4) + sizeof(void*));
static_assert(sizeof(MessageV6) == sizeof(MessageV4) + sizeof(void*));

struct EventV6 {
  std::uint64_t type;
  void* parent;
  int rank;
  union {
    struct {
      bool captured;
      int depth;
    } group_call;
    struct {
      const char* function;
      std::size_t count;
      const char* type;
      int root;
      void* stream;
      bool captured;
    } collective_call;
    struct {
      const char* function;
      std::size_t count;
      const char* type;
      void* stream;
      bool captured;
    } message_call;
    CollectiveV6 collective;
    MessageV6 message;
    std::uint8_t room[96];
  };
};

struct EventV4 {
  std::uint8_t type;
  void* parent;
  int rank;
  union {
    CollectiveV4 collective;
    MessageV4 message;
    std::uint8_t room[96];
  };
};

struct MessageV2 {  // and V3
  const char* name;
  std::uint64_t communicator;
  const char* function;
  void* buffer;
  const char* type;
  std::size_t count;
  int peer;
};

struct EventV3 {
  std::uint8_t type;
  void* parent;
  int rank;
  union {
    struct {
      const char* name;
      std::uint64_t communicator, number;
      const char* function;
      const void* send;
      void* receive;
      std::size_t count;
      int root;
      const char* type;
      std::uint8_t channels, warps;
      const char* algorithm;
      const char* protocol;
    } collective;
    MessageV2 message;
    std::uint8_t room[128];
  };
};

struct EventV2 {
  std::uint8_t type;
  void* parent;
  int rank;
  union {
    struct {
      const char* name;
      std::uint64_t communicator, number;
      const char* function;
      const void* send;
      void* receive;
      std::size_t count;
      int root;
      const char* type;
      std::size_t traffic;
      std::uint8_t channels, warps;
      const char* algorithm;
      const char* protocol;
    } collective;
    MessageV2 message;
    std::uint8_t room[128];
  };
};

struct EventV1 {
  std::uint8_t type;
  void* parent;
  int rank;
  union {
    struct {
      const char* name;
      std::uint64_t communicator, number;
      std::uint8_t function;
      const void* send;
      void* receive;
      std::size_t count;
      int root;
      std::uint8_t type;
      std::uint32_t op;
      std::size_t traffic;
      std::uint8_t channels, warps, algorithm, protocol;
      int collnet, nvls;
    } collective;
    struct {
      const char* name;
      std::uint64_t communicator;
      std::uint8_t function;
      void* buffer;
      std::uint8_t type;
      std::size_t count;
      int peer;
    } message;
    std::uint8_t room[128];
  };
};

// The functions that all versions have.
template <typename EventType>
struct ProfilerFunctions {
  ncclResult_t (*start)(void* context, void** handle, EventType* event);
  ncclResult_t (*stop)(void* handle);
  ncclResult_t (*record)(void* handle, int state, void* arguments);
  ncclResult_t (*close)(void* context);
};
using ProfilerInit = ncclResult_t (*)(void** context, int* mask);
using ProfilerInitV4 = ncclResult_t (*)(void** context, int* mask, const char* name, std::uint64_t communicator,
                                        int nodes, int nranks, int rank, PlugInLogger log);
using ProfilerInitV5 = ncclResult_t (*)(void** context, std::uint64_t communicator, int* mask, const char* name,
                                        int nodes, int nranks, int rank, PlugInLogger log);

template <int Version, typename InitFunction, typename EventType>
struct Profiler {
  static constexpr int kVersion = Version;
  using Event = EventType;
  const char* name;
  InitFunction init;
  ProfilerFunctions<EventType> functions;
};
using ProfilerV1 = Profiler<1, ProfilerInit, EventV1>;
using ProfilerV2 = Profiler<2, ProfilerInit, EventV2>;
using ProfilerV3 = Profiler<3, ProfilerInit, EventV3>;
using ProfilerV4 = Profiler<4, ProfilerInitV4, EventV4>;
using ProfilerV5 = Profiler<5, ProfilerInitV5, EventV6>;  // an event of version 5 is the beginning of one of version 6
using ProfilerV6 = Profiler<6, ProfilerInitV5, EventV6>;

}  // namespace tutti::nccl
