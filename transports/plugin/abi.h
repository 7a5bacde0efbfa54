// The binary interface of NCCL's network plug-ins, versions 8 to 11: a plug-in exports a table of functions for each
// version that it implements, under the name ncclNetPlugin_vN. Written after NCCL's documentation of that interface
// (plugins/net/README.md and the headers beside it, NCCL 2.30); the members and their order are NCCL's.
//
// Thread-safety: types only. A plug-in's functions may be called from any thread, each object from one at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace tutti::plugin::abi {

// What every function returns (ncclResult_t).
enum class Result : int {
  success = 0,
  unhandled_cuda_error = 1,
  system_error = 2,
  internal_error = 3,
  invalid_argument = 4,
  invalid_usage = 5,
  remote_error = 6,
  in_progress = 7,
};

inline constexpr std::size_t kHandleBytes = 128;  // of what `listen` writes and `connect` reads
inline constexpr int kHostMemory = 1;             // a bit of Properties::pointers, and the kind of registered memory
inline constexpr int kHostDevice = 0;             // Properties::device_type: no part of it runs in GPU kernels
inline constexpr int kNoTrafficClass = -1;
// Requests that a connection can handle at a time, for each function.
inline constexpr std::size_t kMostRequests = 32;
// `test` fills in a size for each receive of a group. Only single receives are made here; the room is for plug-ins that
// fill in more.
inline constexpr std::size_t kMostSizes = 32;

enum class LogLevel : int { none, version, warning, info, abort, trace };
using Logger = void (*)(LogLevel level, unsigned long subsystems, const char* file, int line, const char* format, ...);
using Profiler = Result (*)(void** event, int type, void* parent, std::int64_t plugin, void* data);

struct PropertiesV8 {
  char* name;
  char* pci_path;
  std::uint64_t guid;
  int pointers;
  int registration_is_global;
  int speed;  // Mbit/s
  int port;
  float latency;  // us; 0: unknown
  int most_connections;
  int most_grouped_receives;
  int device_type;
  int device_version;
};

struct VirtualDevice {
  int parts;
  std::array<int, 4> part;
};
struct PropertiesV9 {
  char* name;
  char* pci_path;
  std::uint64_t guid;
  int pointers;
  int registration_is_global;
  int force_flush;
  int speed;
  int port;
  float latency;
  int most_connections;
  int most_grouped_receives;
  int device_type;
  int device_version;
  VirtualDevice virtual_device;
  std::size_t most_bytes;             // of one send or receive
  std::size_t most_collective_bytes;  // not used here
};
struct PropertiesV11 {
  PropertiesV9 common;
  int most_grouped_requests;
};

struct ConnectionConfig {
  int traffic_class;
};

// What differs between the versions: the functions' types.
struct V8 {
  static constexpr int kVersion = 8;
  using Properties = PropertiesV8;
  using Init = Result(Logger logger);
  using Listen = Result(int device, void* handle, void** listening);
  using Connect = Result(int device, void* handle, void** sending, void** offload);
  using Send = Result(void* sending, void* data, int bytes, int tag, void* memory, void** request);
  using Receive = Result(void* receiving, int count, void** data, int* bytes, int* tags, void** memory, void** request);
};
struct V9 : V8 {
  static constexpr int kVersion = 9;
  using Properties = PropertiesV9;
  using Send = Result(void* sending, void* data, std::size_t bytes, int tag, void* memory, void** request);
  using Receive = Result(void* receiving, int count, void** data, std::size_t* bytes, int* tags, void** memory,
                         void** request);
};
struct V10 : V9 {
  static constexpr int kVersion = 10;
  using Init = Result(Logger logger, Profiler profiler);
  using Connect = Result(int device, ConnectionConfig* config, void* handle, void** sending, void** offload);
  using Send = Result(void* sending, void* data, std::size_t bytes, int tag, void* memory, void* event, void** request);
  using Receive = Result(void* receiving, int count, void** data, std::size_t* bytes, int* tags, void** memory,
                         void** events, void** request);
};
struct V11 : V10 {
  static constexpr int kVersion = 11;
  using Properties = PropertiesV11;
  using Init = Result(void** context, std::uint64_t communicator, ConnectionConfig* config, Logger logger,
                      Profiler profiler);
  using Listen = Result(void* context, int device, void* handle, void** listening);
  using Connect = Result(void* context, int device, void* handle, void** sending, void** offload);
};

// The table itself. Version 8 ends before make_virtual_device, versions 9 and 10 end before finalize.
template <typename V>
struct Table {
  const char* name;
  typename V::Init* init;
  Result (*devices)(int* count);
  Result (*get_properties)(int device, typename V::Properties* properties);
  typename V::Listen* listen;
  typename V::Connect* connect;
  Result (*accept)(void* listening, void** receiving, void** offload);
  Result (*register_memory)(void* connection, void* data, std::size_t bytes, int kind, void** memory);
  Result (*register_dma_buffer)(void* connection, void* data, std::size_t bytes, int kind, std::uint64_t offset, int fd,
                                void** memory);
  Result (*deregister_memory)(void* connection, void* memory);
  typename V::Send* send;
  typename V::Receive* receive;
  Result (*flush)(void* receiving, int count, void** data, int* bytes, void** memory, void** request);
  Result (*test)(void* request, int* done, int* bytes);
  Result (*close_sending)(void* sending);
  Result (*close_receiving)(void* receiving);
  Result (*close_listening)(void* listening);
  Result (*get_device_memory)(void* connection, void* memory, void** device_memory);
  Result (*receive_consumed)(void* receiving, int count, void* request);
  Result (*make_virtual_device)(int* device, VirtualDevice* parts);
  Result (*finalize)(void* context);
};

}  // namespace tutti::plugin::abi
