// A network plug-in for tests, over Unix sockets of this machine. It is strict about how it is used: it refuses more
// requests than it must take, memory that is not registered, groups of receives, and calls of listen and connect from
// more than one thread of a process (as some plug-ins would mix up the threads' connections), and it ends the process if
// a connection is closed before its memory is deregistered.
//
// TUTTI_TEST_NET makes it misbehave: a list like "polls=20,isend_fails=100".
//   load_crashes=1, load_exits=3, load_hangs=1    when the library is loaded
//   lacks=1                the table has no isend
//   init_fails=2           the result of init; init_hangs=1, init_throws=1: what it does instead
//   devices=0              the number of devices; devices_fail=2, properties_fail=2: results
//   pointers=2             the kinds of memory that its devices take, as bits
//   most_bytes=5000, most_connections=3    limits of its devices
//   name=7                 a part of its name
//   polls=20               connect and accept need so many calls
//   nulls=3                only each third isend and irecv is taken
//   tidy=1                 it ends the process if a connection is closed whose requests are not done
//   piece=100              a send or receive moves so many bytes in a call
//   listen_fails=2, connect_fails=2, accept_fails=2, register_fails=2    results
//   isend_fails=100, irecv_fails=100, test_fails=100    the number of the call that fails, in each process
#pragma once

#include <cstdint>

#include "transports/plugin/abi.h"

namespace tutti::testing::net {

using plugin::abi::Result;

// The functions, as in version 11, whose sizes and arguments hold those of the others.
Result Init(void** context);
Result Finalize(void* context);
Result Devices(int* count);
Result GetProperties(int index, plugin::abi::PropertiesV9* properties);
Result Listen(int device, void* handle, void** listening);
Result Connect(int device, void* handle, void** sending);
Result Accept(void* listening, void** receiving, void** offload);
Result Register(void* connection, void* data, std::size_t bytes, int kind, void** memory);
Result Deregister(void* connection, void* memory);
Result Send(void* sending, void* data, std::size_t bytes, void* memory, void** request);
Result Receive(void* receiving, int count, void** data, const std::size_t* bytes, void** memory, void** request);
Result Test(void* request, int* done, int* bytes);
Result CloseSending(void* sending);
Result CloseReceiving(void* receiving);
Result CloseListening(void* listening);
// What happens when the library is loaded. False: the table is to have no isend.
bool Loaded();
const char* Name();

// The functions with the types of version V.
template <typename V>
struct Adapted {
  using Table = plugin::abi::Table<V>;

  static Result GetProperties(int index, typename V::Properties* properties) {
    plugin::abi::PropertiesV9 all{};
    const auto result = net::GetProperties(index, &all);
    if constexpr (V::kVersion >= 11) {
      *properties = {all, 1};
    } else if constexpr (V::kVersion >= 9) {
      *properties = all;
    } else {
      *properties = {all.name,        all.pci_path,      all.guid,    all.pointers,         all.registration_is_global,
                     all.speed,       all.port,          all.latency, all.most_connections, all.most_grouped_receives,
                     all.device_type, all.device_version};
    }
    return result;
  }
};

template <typename V>
plugin::abi::Table<V> TableOf() {
  namespace abi = plugin::abi;
  abi::Table<V> table{};
  table.name = Name();
  if constexpr (V::kVersion >= 11) {
    table.init = [](void** context, std::uint64_t, abi::ConnectionConfig*, abi::Logger, abi::Profiler) {
      return Init(context);
    };
    table.listen = [](void* context, int device, void* handle, void** listening) {
      return context == nullptr ? Result::internal_error : Listen(device, handle, listening);
    };
    table.connect = [](void* context, int device, void* handle, void** sending, void**) {
      return context == nullptr ? Result::internal_error : Connect(device, handle, sending);
    };
    table.finalize = &Finalize;
  } else {
    table.listen = &Listen;
  }
  if constexpr (V::kVersion == 10) {
    table.init = [](abi::Logger, abi::Profiler) { return Init(nullptr); };
    table.connect = [](int device, abi::ConnectionConfig* config, void* handle, void** sending, void**) {
      return config == nullptr ? Result::internal_error : Connect(device, handle, sending);
    };
  }
  if constexpr (V::kVersion < 10) {
    table.init = [](abi::Logger) { return Init(nullptr); };
    table.connect = [](int device, void* handle, void** sending, void**) { return Connect(device, handle, sending); };
    table.send = [](void* sending, void* data, auto bytes, int, void* memory, void** request) {
      return Send(sending, data, static_cast<std::size_t>(bytes), memory, request);
    };
  } else {
    table.send = [](void* sending, void* data, std::size_t bytes, int, void* memory, void*, void** request) {
      return Send(sending, data, bytes, memory, request);
    };
    table.receive = [](void* receiving, int count, void** data, std::size_t* bytes, int*, void** memory, void**,
                       void** request) { return Receive(receiving, count, data, bytes, memory, request); };
  }
  if constexpr (V::kVersion == 9) {
    table.receive = [](void* receiving, int count, void** data, std::size_t* bytes, int*, void** memory,
                       void** request) { return Receive(receiving, count, data, bytes, memory, request); };
  }
  if constexpr (V::kVersion == 8) {
    table.receive = [](void* receiving, int count, void** data, int* bytes, int*, void** memory, void** request) {
      const auto wide = static_cast<std::size_t>(*bytes);
      return Receive(receiving, count, data, &wide, memory, request);
    };
  }
  table.devices = &Devices;
  table.get_properties = &Adapted<V>::GetProperties;
  table.accept = &Accept;
  table.register_memory = &Register;
  table.deregister_memory = &Deregister;
  table.test = &Test;
  table.close_sending = &CloseSending;
  table.close_receiving = &CloseReceiving;
  table.close_listening = &CloseListening;
  if (!Loaded()) table.send = nullptr;
  return table;
}

}  // namespace tutti::testing::net
