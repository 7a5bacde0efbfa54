// The control line between the bench and one rank: whole messages (JSON values, as CBOR) over a Unix socket in the
// abstract name space. It leaves nothing in the file system, and each side sees at once that the other died, however it
// died. Only processes of the same user may connect. Ranks of other hosts connect by TCP, and show that they know a
// number that only the job's ranks have been told. Nothing is encrypted there: whoever reads the network's packets learns
// the number. However many strangers connect and stay silent, a rank that says the number is accepted at once.
//
// Thread-safety: one thread per ControlSocket, except that any thread may wait for the hang-up.
#pragma once

#include <poll.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace tutti::bench {

using Json = nlohmann::json;
using Milliseconds = std::chrono::milliseconds;

class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(other.Release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor();

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int Release();

 private:
  int fd_;
};

class ControlSocket {
 public:
  // `whole`: the socket keeps messages whole; otherwise each message is preceded by its length.
  explicit ControlSocket(Descriptor socket, bool whole = true) : socket_(std::move(socket)), whole_(whole) {}
  // Throws std::runtime_error.
  static ControlSocket Connect(const std::string& name);

  // Throws std::runtime_error if the other side is gone.
  void Send(const Json& message);
  // Blocks. nullopt: the other side hung up.
  std::optional<Json> Receive();
  // Blocks until the other side hangs up.
  void WaitForHangUp() const;

  int fd() const { return socket_.get(); }

 private:
  bool ReceiveExactly(void* data, std::size_t bytes);

  Descriptor socket_;
  bool whole_;
};

class Listener {
 public:
  enum class Place {
    name,    // in the abstract name space of this network namespace
    file,    // a socket in the temporary folder, removed with the listener
    network  // an abstract name, and a TCP port for ranks that the name cannot reach
  };
  // Picks an unguessable name.
  explicit Listener(Place place = Place::name);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  // For Connect. With Place::network: the abstract name, the host, the port and the number, separated by spaces.
  const std::string& name() const { return name_; }
  // nullopt: no rank connected in time.
  std::optional<ControlSocket> Accept(Milliseconds timeout);

 private:
  using Clock = std::chrono::steady_clock;
  struct Stranger {
    Descriptor socket;
    std::string token;  // what it has said of it
    Clock::time_point until;
  };

  std::optional<ControlSocket> AcceptNeighbour();
  void AcceptStranger();
  std::optional<ControlSocket> HearStrangers(const std::vector<pollfd>& entries);
  void ListenToNetwork();

  std::string name_;
  Descriptor socket_;
  Descriptor network_;  // with Place::network
  std::string token_;   // that a rank sends first
  std::vector<Stranger> strangers_;
};

// Indices of the sockets that have a message or hung up; empty: timed out.
std::vector<std::size_t> WaitForAny(const std::vector<const ControlSocket*>& sockets, Milliseconds timeout);

}  // namespace tutti::bench
