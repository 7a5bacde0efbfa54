// A connection through a plug-in, which goes one way, and memory that is registered for it.
//
// A plug-in cannot be waited for: it is asked again and again whether it has a connection, takes a message, or is done
// with one. None of these functions blocks or throws; after a failure, why() has the sentence, and the connection is of
// no more use.
//
// Thread-safety: one thread at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "transports/plugin/library.h"
#include "transports/plugin/messages.h"

namespace tutti::plugin {

// Memory that a connection may send from or receive into. REQUIRES: gone before its connection is.
class Memory {
 public:
  Memory() = default;
  Memory(const Library& library, void* connection, void* handle)
      : library_(&library), connection_(connection), handle_(handle) {}
  Memory(Memory&& other) noexcept { *this = std::move(other); }
  Memory& operator=(Memory&& other) noexcept {
    std::swap(library_, other.library_);
    std::swap(connection_, other.connection_);
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Memory();

  explicit operator bool() const { return library_ != nullptr; }
  void* handle() const { return handle_; }  // may be null: a plug-in may need none

 private:
  const Library* library_ = nullptr;
  void* connection_ = nullptr;
  void* handle_ = nullptr;
};

// The part that both directions share: requests are asked after in the order in which they were made.
class Connection {
 public:
  // Half of what every plug-in must be able to handle at a time: older ones could handle fewer.
  static constexpr std::size_t kMost = abi::kMostRequests / 2;
  enum class Posted { taken, not_now, failed };
  enum class Oldest { none, pending, done, failed };

  explicit Connection(const Library& library) : library_(library) {}
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  bool open() const { return connection_ != nullptr; }
  // Whether another request may be made.
  bool room() const { return open() && in_flight_ < kMost; }
  bool idle() const { return in_flight_ == 0; }
  // The state of the oldest request. Done: it counts no more, and *bytes is the number of bytes sent or received.
  Oldest TakeOldest(std::size_t* bytes);
  // Takes all that are done. True: none is left.
  bool FinishAll();
  // REQUIRES: open(). False: it failed.
  bool Register(std::byte* begin, std::size_t bytes, Memory& memory);
  const std::string& why() const { return why_; }

 protected:
  ~Connection() = default;

  bool Check(std::string_view function, Result result);
  Posted Took(std::string_view function, Result result, void* request);

  const Library& library_;
  void* connection_ = nullptr;

 private:
  std::array<void*, kMost> requests_{};
  std::size_t first_ = 0;  // the oldest one's place
  std::size_t in_flight_ = 0;
  std::string why_;
};

class SendingConnection final : public Connection {
 public:
  using Connection::Connection;
  ~SendingConnection();

  // Asks for a connection to whoever listens there. False: it failed. The plug-in keeps its state in `handle`, so it is
  // the same one in each call, until open().
  bool Connect(void* context, int device, Handle& handle);
  // REQUIRES: room(). `data` must not change until the request is done.
  Posted Send(const std::byte* data, std::size_t bytes, const Memory& memory);
};

class ReceivingConnection final : public Connection {
 public:
  using Connection::Connection;
  ~ReceivingConnection();

  // These two: false, it failed.
  bool Listen(void* context, int device, Handle& handle);
  bool Accept();
  // REQUIRES: room(). Requests receive messages in the order in which these were sent.
  Posted Receive(std::byte* data, std::size_t bytes, const Memory& memory);

 private:
  void StopListening();

  void* listening_ = nullptr;
};

}  // namespace tutti::plugin
