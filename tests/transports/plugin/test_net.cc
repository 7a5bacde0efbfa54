#include "tests/transports/plugin/test_net.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>

namespace tutti::testing::net {
namespace {

constexpr std::size_t kPlenty = std::size_t{1} << 40;

// The value of a word of TUTTI_TEST_NET.
std::optional<int> Option(std::string_view word) {
  const char* const variable = std::getenv("TUTTI_TEST_NET");
  std::string_view list = variable == nullptr ? "" : variable;
  while (!list.empty()) {
    const auto item = list.substr(0, list.find(','));
    list.remove_prefix(std::min(list.size(), item.size() + 1));
    const auto equals = item.find('=');
    if (item.substr(0, equals) != word || equals == std::string_view::npos) continue;
    int value = 0;
    std::from_chars(item.data() + equals + 1, item.data() + item.size(), value);
    return value;
  }
  return std::nullopt;
}

Result ResultOf(std::string_view word) {
  const auto code = Option(word);
  return code ? static_cast<Result>(*code) : Result::success;
}

// Counts the calls of a function, and fails the one that the option names.
class Calls {
 public:
  explicit Calls(const char* fails) : fails_(fails) {}
  bool NextFails() { return ++count_ == Option(fails_).value_or(-1); }

 private:
  const char* fails_;
  std::atomic<int> count_{0};
};

struct Connection;

struct Request {
  Connection* connection;
  std::byte* data;
  std::size_t bytes;                  // to send, or the most to receive
  std::array<std::byte, 8> prefix{};  // the message's length
  std::size_t moved = 0;              // of the prefix and the data
  bool done = false;
};

struct Range {
  std::byte* begin;
  std::size_t bytes;
};

// One direction of a socket: each message is its length and its bytes.
struct Connection {
  Connection(int socket, bool sends) : fd(socket), sending(sends) {}
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection() {
    if (!memory.empty()) {
      std::fprintf(stderr, "test plug-in: a connection is closed that has registered memory\n");
      std::abort();
    }
    if (!requests.empty() && Option("tidy")) {
      std::fprintf(stderr, "test plug-in: a connection is closed whose requests are not done\n");
      std::abort();
    }
    close(fd);
  }

  int fd;
  bool sending;
  int nulls = Option("nulls").value_or(1);
  std::size_t piece = static_cast<std::size_t>(Option("piece").value_or(1 << 30));
  int asked = 0;
  std::set<std::unique_ptr<Range>> memory;
  std::deque<std::unique_ptr<Request>> requests;  // the oldest first, until Test() has reported them
};

struct Listening {
  int fd;
  int polls = Option("polls").value_or(0);
};

// What a handle holds: where to connect to, and how far that has come.
struct Place {
  std::array<char, 64> name;
  std::int32_t socket;  // plus 1; 0: none yet
  std::int32_t polls;
};
static_assert(sizeof(Place) <= plugin::abi::kHandleBytes);

std::atomic<int> connections{0};
std::atomic<int> inits{0};
Calls isend_calls("isend_fails");
Calls irecv_calls("irecv_fails");
Calls test_calls("test_fails");

sockaddr_un AddressOf(const Place& place, socklen_t& bytes) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  // The first character is 0: no file, and the name goes with the socket.
  std::memcpy(address.sun_path + 1, place.name.data(), place.name.size());
  bytes = offsetof(sockaddr_un, sun_path) + 1 + place.name.size();
  return address;
}

std::size_t LengthIn(const Request& request) {
  std::uint64_t length = 0;
  std::memcpy(&length, request.prefix.data(), sizeof length);
  return length;
}

// Moves what the socket takes or has; the oldest unfinished request first.
Result Progress(Connection& connection) {
  for (const auto& each : connection.requests) {
    auto& request = *each;
    while (!request.done) {
      const bool in_prefix = request.moved < request.prefix.size();
      std::byte* const at =
          in_prefix ? request.prefix.data() + request.moved : request.data + (request.moved - request.prefix.size());
      const std::size_t length = connection.sending || !in_prefix ? LengthIn(request) : 0;
      const std::size_t end = in_prefix ? request.prefix.size() : request.prefix.size() + length;
      const std::size_t want = std::min(end - request.moved, connection.piece);
      if (want > 0) {
        const auto moved = connection.sending ? send(connection.fd, at, want, MSG_NOSIGNAL | MSG_DONTWAIT)
                                              : recv(connection.fd, at, want, MSG_DONTWAIT);
        if (moved < 0 && (errno == EAGAIN || errno == EINTR)) return Result::success;
        if (moved <= 0) return Result::remote_error;
        request.moved += static_cast<std::size_t>(moved);
      }
      if (request.moved < request.prefix.size()) continue;
      if (LengthIn(request) > request.bytes) return Result::invalid_usage;
      request.done = request.moved == request.prefix.size() + LengthIn(request);
      if (!request.done && connection.piece < request.bytes) return Result::success;
    }
  }
  return Result::success;
}

bool Holds(const Connection& connection, const void* memory, const std::byte* data, std::size_t bytes) {
  const auto found = std::ranges::find(connection.memory, memory, [](const auto& each) { return each.get(); });
  return found != connection.memory.end() && data >= (*found)->begin &&
         data + bytes <= (*found)->begin + (*found)->bytes;
}

Result Post(Connection& connection, std::byte* data, std::size_t bytes, void* memory, void** request) {
  *request = nullptr;
  const auto limit = static_cast<std::size_t>(Option("most_bytes").value_or(1 << 30));
  if (!Holds(connection, memory, data, bytes) || bytes > limit) return Result::internal_error;
  if (connection.requests.size() >= plugin::abi::kMostRequests) return Result::internal_error;
  if (++connection.asked % connection.nulls != 0) return Result::success;
  auto& made = connection.requests.emplace_back(std::make_unique<Request>(Request{&connection, data, bytes}));
  const std::uint64_t length = bytes;
  if (connection.sending) std::memcpy(made->prefix.data(), &length, sizeof length);
  *request = made.get();
  return Result::success;
}

bool TakeConnection() {
  if (connections.fetch_add(1) < Option("most_connections").value_or(1 << 20)) return true;
  connections.fetch_sub(1);
  return false;
}

// Whether this thread is the first one of its process that asks.
bool IsTheOneThread() {
  struct One {
    pid_t process;
    std::thread::id thread;
  };
  static std::mutex mutex;
  static One one{-1, {}};
  const std::lock_guard lock(mutex);
  if (one.process != getpid()) one = {getpid(), std::this_thread::get_id()};
  return one.thread == std::this_thread::get_id();
}

Result Close(void* connection) {
  delete static_cast<Connection*>(connection);
  connections.fetch_sub(1);
  return Result::success;
}

}  // namespace

bool Loaded() {
  if (Option("load_crashes")) {
    std::signal(SIGSEGV, SIG_DFL);  // a sanitizer's handler would end the process in another way
    std::raise(SIGSEGV);
  }
  if (const auto status = Option("load_exits")) _exit(*status);
  while (Option("load_hangs")) pause();
  return !Option("lacks");
}

const char* Name() {
  static const std::string name = "Test" + std::to_string(Option("name").value_or(0));
  return name.c_str();
}

Result Init(void** context) {
  while (Option("init_hangs")) pause();
  if (Option("init_throws")) throw std::runtime_error("a plug-in should not do this");
  if (const auto result = ResultOf("init_fails"); result != Result::success) return result;
  // Before version 11, NCCL calls it once.
  if (inits++ > 0 && context == nullptr) return Result::internal_error;
  if (context != nullptr) *context = new int(1);
  return Result::success;
}

Result Finalize(void* context) {
  delete static_cast<int*>(context);
  return Result::success;
}

Result Devices(int* count) {
  *count = Option("devices").value_or(2);
  return ResultOf("devices_fail");
}

Result GetProperties(int index, plugin::abi::PropertiesV9* properties) {
  static std::array<std::string, 2> names = {"slow", "fast"};
  *properties = {};
  properties->name = names[static_cast<std::size_t>(index) % 2].data();
  properties->pointers = Option("pointers").value_or(plugin::abi::kHostMemory);
  properties->speed = index == 0 ? 1'000 : 40'000;
  properties->most_connections = Option("most_connections").value_or(1 << 20);
  properties->most_grouped_receives = 1;
  properties->most_bytes = static_cast<std::size_t>(Option("most_bytes").value_or(0));
  if (properties->most_bytes == 0) properties->most_bytes = kPlenty;
  return ResultOf("properties_fail");
}

Result Listen(int device, void* handle, void** listening) {
  if (!IsTheOneThread()) return Result::invalid_usage;
  if (device != 1) return Result::internal_error;  // the fast one is to be used
  if (const auto result = ResultOf("listen_fails"); result != Result::success) return result;
  static std::atomic<int> count{0};
  Place place{};
  std::random_device random;
  std::snprintf(place.name.data(), place.name.size(), "tutti-test-net-%d-%d-%u", getpid(), ++count, random());
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  socklen_t bytes = 0;
  const auto address = AddressOf(place, bytes);
  if (fd < 0 || bind(fd, reinterpret_cast<const sockaddr*>(&address), bytes) != 0 || listen(fd, 8) != 0)
    return Result::system_error;
  std::memcpy(handle, &place, sizeof place);
  *listening = new Listening{fd};
  return Result::success;
}

Result Connect(int /*device*/, void* handle, void** sending) {
  *sending = nullptr;
  if (!IsTheOneThread()) return Result::invalid_usage;
  if (const auto result = ResultOf("connect_fails"); result != Result::success) return result;
  Place place;
  std::memcpy(&place, handle, sizeof place);
  if (place.socket == 0) {
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return Result::system_error;
    place.socket = fd + 1;
    place.polls = Option("polls").value_or(0);
    socklen_t bytes = 0;
    const auto address = AddressOf(place, bytes);
    if (connect(fd, reinterpret_cast<const sockaddr*>(&address), bytes) != 0) return Result::remote_error;
  }
  const bool ready = place.polls-- <= 0;
  std::memcpy(handle, &place, sizeof place);
  if (!ready) return Result::success;
  if (!TakeConnection()) return Result::internal_error;
  *sending = new Connection(place.socket - 1, true);
  return Result::success;
}

Result Accept(void* listening, void** receiving, void** /*offload*/) {
  *receiving = nullptr;
  auto& listener = *static_cast<Listening*>(listening);
  if (const auto result = ResultOf("accept_fails"); result != Result::success) return result;
  if (listener.polls-- > 0) return Result::success;
  const int fd = accept4(listener.fd, nullptr, nullptr, SOCK_CLOEXEC);
  if (fd < 0) return errno == EAGAIN ? Result::success : Result::system_error;
  if (!TakeConnection()) return Result::internal_error;
  *receiving = new Connection(fd, false);
  return Result::success;
}

Result Register(void* connection, void* data, std::size_t bytes, int kind, void** memory) {
  if (const auto result = ResultOf("register_fails"); result != Result::success) return result;
  if (kind != plugin::abi::kHostMemory) return Result::internal_error;
  auto range = std::make_unique<Range>(Range{static_cast<std::byte*>(data), bytes});
  *memory = range.get();
  static_cast<Connection*>(connection)->memory.insert(std::move(range));
  return Result::success;
}

Result Deregister(void* connection, void* memory) {
  auto& ranges = static_cast<Connection*>(connection)->memory;
  const auto found = std::ranges::find(ranges, memory, [](const auto& each) { return each.get(); });
  if (found == ranges.end()) return Result::internal_error;
  ranges.erase(found);
  return Result::success;
}

Result Send(void* sending, void* data, std::size_t bytes, void* memory, void** request) {
  auto& connection = *static_cast<Connection*>(sending);
  if (isend_calls.NextFails()) return Result::system_error;
  return Post(connection, static_cast<std::byte*>(data), bytes, memory, request);
}

Result Receive(void* receiving, int count, void** data, const std::size_t* bytes, void** memory, void** request) {
  auto& connection = *static_cast<Connection*>(receiving);
  if (irecv_calls.NextFails()) return Result::system_error;
  if (count != 1) return Result::internal_error;
  return Post(connection, static_cast<std::byte*>(*data), *bytes, *memory, request);
}

Result Test(void* request, int* done, int* bytes) {
  auto& asked = *static_cast<Request*>(request);
  auto& connection = *asked.connection;
  *done = 0;
  if (test_calls.NextFails()) return Result::system_error;
  if (const auto result = Progress(connection); result != Result::success && !asked.done) return result;
  if (!asked.done) return Result::success;
  *done = 1;
  if (bytes != nullptr) *bytes = static_cast<int>(LengthIn(asked));
  std::erase_if(connection.requests, [&](const auto& each) { return each.get() == &asked; });
  return Result::success;
}

Result CloseSending(void* sending) { return Close(sending); }
Result CloseReceiving(void* receiving) { return Close(receiving); }

Result CloseListening(void* listening) {
  auto* const listener = static_cast<Listening*>(listening);
  close(listener->fd);
  delete listener;
  return Result::success;
}

}  // namespace tutti::testing::net
