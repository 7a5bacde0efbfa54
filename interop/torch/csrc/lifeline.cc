#include "interop/torch/csrc/lifeline.h"

#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <sstream>
#include <utility>

namespace tutti::pytorch {
namespace {

constexpr std::size_t kMostCallers = 16;  // that have not said who they are

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

Addresses Lookup(const std::string& host, const char* port, int type, int flags) {
  addrinfo hints{};
  hints.ai_socktype = type;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), port, &hints, &found) != 0) found = nullptr;
  return {found, &freeaddrinfo};
}

std::unique_ptr<Descriptor> NewSocket(const addrinfo& address) {
  return std::make_unique<Descriptor>(
      socket(address.ai_family, address.ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, address.ai_protocol));
}

// "address port" of this end. Empty: the socket has neither.
std::string OwnEnd(const Descriptor& socket) {
  sockaddr_storage own{};
  socklen_t length = sizeof own;
  char host[NI_MAXHOST], port[NI_MAXSERV];
  auto* const address = reinterpret_cast<sockaddr*>(&own);
  if (getsockname(socket.number(), address, &length) != 0 ||
      getnameinfo(address, length, host, sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return {};
  }
  return std::string(host) + " " + port;
}

// The source address of packets to the store's host. Finding it sends nothing.
std::string OwnAddress() {
  char name[256] = {};
  const char* const store = std::getenv("MASTER_ADDR");
  if (store == nullptr && gethostname(name, sizeof name - 1) != 0) return {};
  const auto addresses = Lookup(store != nullptr ? store : name, "9", SOCK_DGRAM, 0);
  if (addresses == nullptr) return {};
  const auto probe = NewSocket(*addresses);
  if (!probe->IsOpen() || connect(probe->number(), addresses->ai_addr, addresses->ai_addrlen) != 0) return {};
  const auto end = OwnEnd(*probe);
  return end.substr(0, end.find(' '));
}

// Null: other hosts cannot connect to this one.
std::unique_ptr<Descriptor> Listen() {
  const auto host = OwnAddress();
  if (host.empty()) return nullptr;
  const auto addresses = Lookup(host, "0", SOCK_STREAM, AI_NUMERICHOST | AI_PASSIVE);
  if (addresses == nullptr) return nullptr;
  auto listener = NewSocket(*addresses);
  if (!listener->IsOpen() || bind(listener->number(), addresses->ai_addr, addresses->ai_addrlen) != 0 ||
      listen(listener->number(), static_cast<int>(kMostCallers)) != 0) {
    return nullptr;
  }
  return listener;
}

// The rank that watches `rank`. The n-th later rank on another host watches the n-th rank of a host.
int WatcherOf(int rank, const std::vector<Process>& processes) {
  const auto ranks = static_cast<int>(processes.size());
  const auto& system = processes[static_cast<std::size_t>(rank)].system;
  const auto is_near = [&](int other) { return processes[static_cast<std::size_t>(other)].system == system; };
  int place = 0;
  for (int other = 0; other < rank; ++other) place += is_near(other) ? 1 : 0;
  std::vector<int> far;
  for (int step = 1; step < ranks; ++step) {
    if (const auto other = (rank + step) % ranks; !is_near(other)) far.push_back(other);
  }
  return far.empty() ? -1 : far[static_cast<std::size_t>(place) % far.size()];
}

std::string LineKey(const std::string& base, int rank) { return base + "line/" + std::to_string(rank); }
std::string EndedKey(const std::string& base, int rank) { return base + "ended/" + std::to_string(rank); }
// Set once any rank has ended, so that one lookup covers all ranks.
std::string AnyEndedKey(const std::string& base) { return base + "ended"; }

// What the watcher says, and what it is answered. Echoing the one does not give the other.
std::pair<std::string, std::string> HalvesOf(const std::string& word) {
  return {word.substr(0, word.size() / 2), word.substr(word.size() / 2)};
}

}  // namespace

bool AreOfSeveralHosts(const std::vector<Process>& processes) {
  return std::any_of(processes.begin(), processes.end(),
                     [&](const Process& process) { return process.system != processes[0].system; });
}

bool HasBeenSeenToEnd(const std::string& base, int rank, Board& board) {
  return board.Has(AnyEndedKey(base)) && board.Has(EndedKey(base, rank));
}

Descriptor::~Descriptor() {
  if (number_ >= 0) close(number_);
}

Lifeline::Lifeline(std::string base, int rank, const std::vector<Process>& processes, std::string word,
                   std::shared_ptr<Board> board)
    : base_(std::move(base)), word_(std::move(word)), board_(std::move(board)), listener_(Listen()) {
  if (listener_ != nullptr) board_->Write(LineKey(base_, rank), OwnEnd(*listener_) + " " + word_);
  for (int other = 0; other < static_cast<int>(processes.size()); ++other) {
    if (WatcherOf(other, processes) == rank) watched_.push_back({other, nullptr, {}, {}});
  }
}

void Lifeline::Tend() {
  Accept();
  Answer();
  for (auto& watched : watched_) {
    if (!watched.over) Look(watched);
  }
}

void Lifeline::Accept() {
  while (listener_ != nullptr) {
    Descriptor caller(accept4(listener_->number(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!caller.IsOpen()) return;
    callers_.push_back({std::move(caller), {}});
    Answer();
    if (callers_.size() > kMostCallers) callers_.pop_front();
  }
}

void Lifeline::Answer() {
  const auto [question, answer] = HalvesOf(word_);
  for (auto caller = callers_.begin(); caller != callers_.end();) {
    auto& [connection, said] = *caller;
    char bytes[64];
    const auto got = recv(connection.number(), bytes, std::min(sizeof bytes, question.size() - said.size()), 0);
    if (got > 0) said.append(bytes, static_cast<std::size_t>(got));
    const bool gone = got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
    if (!gone && said != question && question.compare(0, said.size(), said) == 0) {
      ++caller;
      continue;
    }
    // A new connection's send buffer always has room for so short a word.
    if (!gone && said == question &&
        send(connection.number(), answer.data(), answer.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(answer.size())) {
      watchers_.push_back(std::move(connection));
    }
    caller = callers_.erase(caller);
  }
}

void Lifeline::Connect(Watched& watched) {
  if (!board_->Has(LineKey(base_, watched.rank))) return;
  std::istringstream line(board_->Read(LineKey(base_, watched.rank)));
  std::string host, port;
  line >> host >> port >> watched.word;
  const auto addresses = Lookup(host, port.c_str(), SOCK_STREAM, AI_NUMERICHOST | AI_NUMERICSERV);
  watched.over = addresses == nullptr || watched.word.empty();
  if (watched.over) return;
  watched.said.clear();
  watched.asked = false;
  watched.connection = NewSocket(*addresses);
  const auto refused =
      connect(watched.connection->number(), addresses->ai_addr, addresses->ai_addrlen) != 0 && errno != EINPROGRESS;
  watched.over = refused;
}

void Lifeline::Look(Watched& watched) {
  if (watched.connection == nullptr) Connect(watched);
  if (watched.connection == nullptr || watched.over) return;
  const auto [question, answer] = HalvesOf(watched.word);
  if (!watched.asked) {
    const auto sent = send(watched.connection->number(), question.data(), question.size(), MSG_NOSIGNAL);
    if (sent < 0 && (errno == EAGAIN || errno == EINTR)) return;  // not connected yet
    watched.asked = true;                                         // if it failed, receiving tells why
  }
  char bytes[64];
  const auto got = recv(watched.connection->number(), bytes, sizeof bytes, 0);
  if (got > 0) {
    watched.said.append(bytes, static_cast<std::size_t>(got));
    watched.over = watched.said.size() > answer.size();
    return;
  }
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  const bool was_closed = got == 0 || errno == ECONNRESET;
  if (was_closed && watched.said.empty()) {  // strangers have pushed this rank out
    watched.connection.reset();
    return;
  }
  watched.over = true;
  if (!was_closed || watched.said != answer) return;
  board_->Write(EndedKey(base_, watched.rank), "");
  board_->Write(AnyEndedKey(base_), "");
}

}  // namespace tutti::pytorch
