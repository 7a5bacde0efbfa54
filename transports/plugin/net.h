// A network plug-in of NCCL, whatever the version of its table: one interface over versions 8 to 11. Functions have the
// names and meanings that NCCL's documentation gives them, for single receives and host memory.
//
// Thread-safety: any thread; a connection and its requests are for one thread at a time. Listen() and Connect() are for
// one thread of the process (control_thread.h).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/shared_library.h"
#include "transports/plugin/abi.h"

namespace tutti::plugin {

using abi::Result;

// What a plug-in says of one of its devices, as far as it matters here.
struct Device {
  int index = 0;
  std::string name;
  bool host_memory = false;    // it can send from and receive into host memory
  bool offloaded = false;      // a part of it runs in GPU kernels
  double speed = 0;            // Mbit/s
  double latency = 0;          // us; 0: unknown
  int most_connections = 0;    // of this process; 0: unknown
  std::size_t most_bytes = 0;  // of one send or receive
  // Connections that this process has.
  std::shared_ptr<std::atomic<int>> in_use = std::make_shared<std::atomic<int>>(0);
};

class Net {
 public:
  virtual ~Net() = default;

  virtual int version() const = 0;
  virtual std::string name() const = 0;
  // NCCL's name of the first function that a plug-in must have and this one lacks; "" if it has all.
  virtual std::string missing() const = 0;

  // Each context of `init` lasts until finalize(). Before version 11 there is one, nullptr, and `init` may be called
  // once only.
  virtual Result Init(void** context, std::uint64_t communicator) const = 0;
  virtual Result Finalize(void* context) const = 0;
  virtual Result Devices(int* count) const = 0;
  virtual Result GetProperties(int index, Device* device) const = 0;
  // `handle`: of abi::kHandleBytes. `connect` keeps its state there until it has a connection.
  virtual Result Listen(void* context, int device, void* handle, void** listening) const = 0;
  // A null connection from these two: not yet.
  virtual Result Connect(void* context, int device, void* handle, void** sending) const = 0;
  virtual Result Accept(void* listening, void** receiving) const = 0;
  virtual Result Register(void* connection, void* data, std::size_t bytes, void** memory) const = 0;
  virtual Result Deregister(void* connection, void* memory) const = 0;
  // A null request: not now.
  virtual Result Send(void* sending, void* data, std::size_t bytes, void* memory, void** request) const = 0;
  virtual Result Receive(void* receiving, void* data, std::size_t bytes, void* memory, void** request) const = 0;
  // *bytes: what was sent or received, once it is done.
  virtual Result Test(void* request, bool* done, std::size_t* bytes) const = 0;
  virtual Result CloseSending(void* sending) const = 0;
  virtual Result CloseReceiving(void* receiving) const = 0;
  virtual Result CloseListening(void* listening) const = 0;
};

// The newest table of a library that this code knows; null if it has none.
std::unique_ptr<const Net> FindNet(SharedLibrary& library);
// Names of the tables that FindNet looks for, and of those of other versions that the library has: for an error.
std::string TablesLookedFor();
std::string OtherTables(SharedLibrary& library);

// NCCL's phrase for a result: "2 (system error)".
std::string Describe(Result result);

}  // namespace tutti::plugin
