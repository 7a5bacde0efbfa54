// A replica's side: takes requests from the front, and sends replies.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "parallel/mesh/calls_from_user.h"
#include "parallel/serving/replica_link.h"

namespace tutti::parallel {
namespace {

std::size_t ReplicaOf(const ReplicaLayout& layout, int rank) {
  CheckLayout(layout);
  for (std::size_t i = 0; i < layout.replicas.size(); ++i) {
    if (std::ranges::count(layout.replicas[i], rank) > 0) return i;
  }
  throw Error(tuttiInvalidArgument,
              fmt::format("rank {} is not in any of the {} replicas", rank, layout.replicas.size()));
}

std::vector<int> MembersOf(const ReplicaLayout& layout, std::size_t replica) {
  auto ranks = layout.replicas[replica];
  std::ranges::sort(ranks);
  return ranks;
}

}  // namespace

// A poll must not wait for a request, and must end alike on all ranks. So on each rank the broadcast of the next header
// is on a stream, and the rank that speaks for the replica tells the others whether its own has ended: theirs then will.
class Replica::Requests {
 public:
  Requests(ProcessGroup& world, const ReplicaLayout& layout, std::size_t replica, const tuttiConfig_t& config)
      : groups_(world, layout, replica, config),
        members_(world, fmt::format("members of replica {}", replica), MembersOf(layout, replica), groups_.config),
        stream_(NewStream()) {
    groups_.Join();
    members_.comm();
  }
  ~Requests() {
    if (!awaited_) return;
    groups_.Revoke();
    tuttiStreamSynchronize(stream_.get());
  }
  Requests(const Requests&) = delete;
  Requests& operator=(const Requests&) = delete;

  bool stopped() const { return stopped_; }
  void Revoke() {
    groups_.Revoke();
    members_.revoke();
  }

  std::optional<Request> Poll() {
    if (stopped_) return std::nullopt;
    Await();
    return Arrived() ? Take() : std::nullopt;
  }
  // Nothing: the front has stopped.
  std::optional<Request> Wait() {
    if (stopped_) return std::nullopt;
    Await();
    return Take();
  }
  void Reply(std::uint64_t id, const Bytes& bytes) {
    if (open_.erase(id) == 0) {
      throw Error(tuttiInvalidUsage, fmt::format("reply() was called for request {}, which poll() has not returned, or "
                                                 "which has a reply",
                                                 id));
    }
    if (groups_.replies.rank() != groups_.speaker()) return;
    const ReplicaHeader header{.id = id, .bytes = bytes.size()};
    Send(&header, sizeof header);
    if (!bytes.empty()) Send(bytes.data(), bytes.size());
  }

 private:
  void Await() {
    if (std::exchange(awaited_, true)) return;
    groups_.Broadcast(&header_, sizeof header_, stream_.get());
  }
  // The same on all ranks of the replica.
  bool Arrived() {
    std::uint8_t arrived = 0;
    if (groups_.requests.rank() == groups_.speaker()) {
      try {
        arrived = IsIdle(stream_, groups_.requests) ? 1 : 0;
      } catch (const Error&) {
        members_.revoke();  // who wait for the answer
        throw;
      }
    }
    if (members_.size() == 1) return arrived != 0;
    const CallsFromUser user;
    const auto comm = members_.comm();
    check(tuttiBcast(&arrived, 1, tuttiUint8, 0, comm, nullptr), comm);
    return arrived != 0;
  }
  std::optional<Request> Take() {
    check(tuttiStreamSynchronize(stream_.get()), groups_.requests.comm());
    awaited_ = false;
    stopped_ = header_.last != 0;
    if (stopped_) return std::nullopt;
    Request request{header_.id, Bytes(header_.bytes)};
    open_.insert(request.id);
    groups_.Broadcast(request.bytes.data(), request.bytes.size(), nullptr);
    return request;
  }
  void Send(const void* data, std::size_t bytes) {
    const CallsFromUser user;
    const auto comm = groups_.replies.comm();
    check(tuttiSend(data, bytes, tuttiUint8, groups_.front, comm, nullptr), comm);
  }

  ReplicaGroups groups_;
  ProcessGroup members_;  // the replica's ranks, the one that speaks for them first
  HostStream stream_;     // ends before the communicators do
  ReplicaHeader header_;  // of the next request, which the stream receives while it is awaited
  bool awaited_ = false, stopped_ = false;
  std::set<std::uint64_t> open_;  // requests without a reply
};

Replica::Replica(ProcessGroup& world, const ReplicaLayout& layout, const tuttiConfig_t& config)
    : requests_(std::make_unique<Requests>(world, layout, ReplicaOf(layout, world.rank()), config)) {}

Replica::~Replica() = default;

std::size_t Replica::serve(const Handler& handler) {
  std::size_t served = 0;
  for (; const auto request = requests_->Wait(); ++served) reply(request->id, handler(request->bytes));
  return served;
}

std::optional<Request> Replica::poll() { return requests_->Poll(); }

void Replica::reply(std::uint64_t id, const Bytes& bytes) { requests_->Reply(id, bytes); }

void Replica::revoke() { requests_->Revoke(); }

bool Replica::stopped() const { return requests_->stopped(); }

}  // namespace tutti::parallel
