#include "transports/shm/descriptors/descriptor_exchange.h"

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>

#include "base/all_gather.h"
#include "base/error.h"
#include "base/file_descriptor.h"
#include "transports/shm/descriptors/descriptor_door.h"
#include "transports/shm/descriptors/unix_messages.h"

namespace tutti::shm {
namespace {

constexpr std::size_t kMaxPerRank = 4;
// How many members are served at one time: enough that some prepare while others are served.
constexpr std::size_t kUnderWay = 3;

enum class Word : std::uint32_t { give, given, take, taken, done };

struct Letter {
  Word word{};
  std::uint32_t count = 0;  // ranks whose descriptors come with it, in this order
  std::array<std::int32_t, kMaxDescriptorsPerMessage> ranks{};
};

[[noreturn]] void ThrowLeft(int rank) {
  Throw(tuttiRemoteError, "rank {} of this host left while shared memory was exchanged: its process ended or gave up",
        rank);
}

[[noreturn]] void ThrowFull() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  Throw(tuttiSystemError,
        "this process cannot receive the file descriptors of its peers' shared memory: it has used up its limit of {} "
        "(raise it with ulimit -n)",
        limit.rlim_cur);
}

// One end of a connection between the lowest rank and a member.
class Line {
 public:
  Line(int peer, FileDescriptor socket, Deadline deadline)
      : peer_(peer), socket_(std::move(socket)), deadline_(deadline) {}

  int peer() const { return peer_; }
  bool gone() const { return gone_; }

  void Say(const Letter& letter, std::span<const int> fds = {}) {
    if (gone_) return;
    const auto body = std::as_bytes(std::span<const Letter, 1>(&letter, 1));
    const int error = SendMessage(socket_.get(), body, fds, deadline_);
    gone_ = error == ECONNRESET || error == EPIPE || error == ENOTCONN;
    if (error != 0 && !gone_) ThrowSystem(fmt::format("cannot send descriptors to rank {} of this host", peer_), error);
  }

  // Empty if the other rank has gone.
  std::optional<Letter> Hear(std::vector<FileDescriptor>& fds) {
    if (gone_) return std::nullopt;
    if (!AwaitReadable(socket_.get(), deadline_)) {
      Throw(tuttiTimeoutError, "rank {} of this host stopped exchanging shared memory: it does not answer", peer_);
    }
    Letter letter;
    const auto received = ReceiveMessage(socket_.get(), std::as_writable_bytes(std::span<Letter, 1>(&letter, 1)), fds);
    if (received == Received::no_descriptors_left) ThrowFull();
    if (received == Received::malformed || letter.count > letter.ranks.size()) ThrowMalformed();
    gone_ = received == Received::gone;
    return gone_ ? std::nullopt : std::optional(letter);
  }

  [[noreturn]] void ThrowMalformed() const {
    Throw(tuttiInternalError, "rank {} of this host sent a malformed message instead of its shared memory", peer_);
  }

 private:
  int peer_;
  FileDescriptor socket_;
  Deadline deadline_;
  bool gone_ = false;
};

class Exchange {
 public:
  Exchange(const Locality& locality, std::span<const int> mine, Deadline deadline, const TakeDescriptors& take)
      : locality_(locality), local_(locality.Local()), mine_(mine), deadline_(deadline), take_(take) {}

  // Skips a member that has died: the ranks' next exchange names it.
  void Lead(std::map<int, FileDescriptor> members) {
    std::map<int, Line> lines;
    for (auto& [rank, socket] : members) lines.emplace(rank, Line(rank, std::move(socket), deadline_));
    const std::size_t at_once = kMaxDescriptorsPerMessage / mine_.size();
    for (std::size_t first = 0; first < local_.size(); first += at_once) {
      Pass(lines, std::span(local_).subspan(first, std::min(at_once, local_.size() - first)));
    }
    for (auto& [rank, line] : lines) line.Say({Word::done});
  }

  void Follow(FileDescriptor socket) {
    Line line(local_.front(), std::move(socket), deadline_);
    for (;;) {
      std::vector<FileDescriptor> fds;
      const auto letter = line.Hear(fds);
      if (!letter || letter->word == Word::done) return;
      if (letter->word == Word::give) {
        line.Say({Word::given}, mine_);
        continue;
      }
      if (letter->word != Word::take || fds.size() != letter->count * mine_.size()) line.ThrowMalformed();
      for (std::uint32_t i = 0; i < letter->count; ++i) {
        const auto begin = fds.begin() + static_cast<std::ptrdiff_t>(i * mine_.size());
        Take(letter->ranks[i],
             {std::move_iterator(begin), std::move_iterator(begin + static_cast<std::ptrdiff_t>(mine_.size()))});
      }
      line.Say({Word::taken});
    }
  }

  // A rank whose descriptors have not come.
  std::optional<int> Missing() const {
    for (const int rank : local_) {
      if (!locality_.SameProcess(rank, locality_.rank) && !taken_.contains(rank)) return rank;
    }
    return std::nullopt;
  }

 private:
  // Passes the descriptors of some ranks (`sources`) on to every rank that needs them.
  void Pass(std::map<int, Line>& lines, std::span<const int> sources) {
    std::map<int, std::vector<FileDescriptor>> held;
    for (const int source : sources) {
      if (const auto line = lines.find(source); line != lines.end()) line->second.Say({Word::give});
    }
    for (const int source : sources) {
      const auto line = lines.find(source);
      if (line == lines.end()) continue;
      std::vector<FileDescriptor> fds;
      const auto letter = line->second.Hear(fds);
      if (!letter) continue;
      if (letter->word != Word::given || fds.size() != mine_.size()) line->second.ThrowMalformed();
      held.emplace(source, std::move(fds));
    }
    std::deque<Line*> under_way;
    for (auto& [rank, line] : lines) {
      Letter letter{Word::take};
      std::vector<int> fds;
      for (const int source : sources) {
        if (locality_.SameProcess(source, rank)) continue;
        const auto found = held.find(source);
        if (found == held.end() && source != locality_.rank) continue;
        letter.ranks[letter.count++] = source;
        if (found == held.end()) {
          fds.insert(fds.end(), mine_.begin(), mine_.end());
        } else {
          for (const auto& fd : found->second) fds.push_back(fd.get());
        }
      }
      if (letter.count == 0) continue;
      if (under_way.size() == kUnderWay) AwaitTaken(under_way);
      line.Say(letter, fds);
      under_way.push_back(&line);
    }
    while (!under_way.empty()) AwaitTaken(under_way);
    for (auto& [rank, fds] : held) {
      if (!locality_.SameProcess(rank, locality_.rank)) Take(rank, std::move(fds));
    }
  }

  static void AwaitTaken(std::deque<Line*>& under_way) {
    std::vector<FileDescriptor> none;
    const auto letter = under_way.front()->Hear(none);
    if (letter && letter->word != Word::taken) under_way.front()->ThrowMalformed();
    under_way.pop_front();
  }

  void Take(int rank, std::vector<FileDescriptor> fds) {
    const bool expected = std::binary_search(local_.begin(), local_.end(), rank) &&
                          !locality_.SameProcess(rank, locality_.rank) && taken_.insert(rank).second;
    if (!expected) Throw(tuttiInternalError, "received unexpected descriptors for rank {}", rank);
    take_(rank, std::move(fds));
  }

  const Locality& locality_;
  std::vector<int> local_;
  std::span<const int> mine_;
  Deadline deadline_;
  const TakeDescriptors& take_;
  std::set<int> taken_;
};

// Whether some host has ranks of several processes.
bool AnybodyNeedsIt(const Locality& locality) {
  std::map<int, int> process_on;  // by host
  for (std::size_t r = 0; r < locality.process_of.size(); ++r) {
    const auto [first, fresh] = process_on.emplace(locality.hosts.host_of[r], locality.process_of[r]);
    if (!fresh && first->second != locality.process_of[r]) return true;
  }
  return false;
}

}  // namespace

void ExchangeDescriptors(const Locality& locality, std::span<const int> mine, const AllGather& all_gather,
                         Deadline deadline, const TakeDescriptors& take) {
  if (mine.empty() || mine.size() > kMaxPerRank)
    Throw(tuttiInternalError, "cannot exchange {} descriptors", mine.size());
  if (!AnybodyNeedsIt(locality)) return;
  const auto local = locality.Local();
  const bool several =
      std::any_of(local.begin(), local.end(), [&](int rank) { return !locality.SameProcess(rank, locality.rank); });
  const bool leads = local.front() == locality.rank;
  std::optional<DescriptorDoor> door;
  if (several && leads) door.emplace(std::vector<int>(local.begin() + 1, local.end()));
  const auto invitations = GatherValues(all_gather, door ? door->invitation() : Invitation{});

  FileDescriptor to_leader;
  if (several && !leads) {
    to_leader = Knock(invitations[static_cast<std::size_t>(local.front())], locality.rank, local.front(), deadline);
  }
  // No rank waits at the door for a rank that may have died. When the control plane has heard from all ranks, every
  // admitted rank is connected. If the leader has gone, the control plane knows why.
  all_gather({});
  Exchange exchange(locality, mine, deadline, take);
  if (several && leads) exchange.Lead(door->Close());
  if (several && !leads && to_leader) exchange.Follow(std::move(to_leader));
  all_gather({});
  if (const auto missing = exchange.Missing()) ThrowLeft(*missing);
}

}  // namespace tutti::shm
