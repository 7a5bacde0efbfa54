// Requests of inference to replicas of a model, each a group of ranks of its own: a front rank gives every request to
// one of them, and takes replies in whatever order they come.
//
//   front:    ReplicaRouter router(world, layout, ReplicaPolicy::least_outstanding);
//             router.submit(prompt, tokens); ... const Reply reply = router.wait(); ... router.stop();
//   replicas: Replica replica(world, layout);
//             replica.serve([&](const Bytes& prompt) { return model.generate(prompt); });
//
// A request is broadcast to all ranks of its replica, which compute it together; the lowest one's reply is sent back.
// Requests and replies are bytes, which mean nothing here. A replica works off its requests in the order given.
//
// Each replica has two communicators, so that a request need not wait for a reply, and the front has a stream for each:
// a receive is posted wherever a reply is due, and whichever stream is idle first has one. A replica is gone when its
// lowest rank is, or ends serving because another one is.
//
// Sources: vLLM's data-parallel front end (least outstanding work); Li et al. 2023, "AlpaServe" (why replicas).
//
// Thread-safety: one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tutti/parallel/error.h"
#include "tutti/parallel/process_group.h"

namespace tutti::parallel {

class ReplicaLink;
struct ReplicaGroups;

using Bytes = std::vector<std::byte>;

struct ReplicaLayout {
  int front = 0;                           // rank of the world
  std::vector<std::vector<int>> replicas;  // the ranks of each
};

// Of equal costs, in turn.
enum class ReplicaPolicy { round_robin, least_outstanding };

struct ReplicaStatistics {
  bool alive = true;
  std::uint64_t submitted = 0, replied = 0;  // requests
  std::uint64_t outstanding_cost = 0;
};

struct Reply {
  std::uint64_t id = 0;
  std::size_t replica = 0;
  Bytes bytes;
};

// A replica is gone. Its outstanding requests, by id and in the order given, can be submitted again: others take them.
class ReplicaError : public Error {
 public:
  ReplicaError(tuttiResult_t code, const std::string& message, std::size_t replica,
               std::vector<std::uint64_t> outstanding)
      : Error(code, message), replica_(replica), outstanding_(std::move(outstanding)) {}
  std::size_t replica() const { return replica_; }
  const std::vector<std::uint64_t>& outstanding() const { return outstanding_; }

 private:
  std::size_t replica_;
  std::vector<std::uint64_t> outstanding_;
};

// The front's side.
class ReplicaRouter {
 public:
  // Collective over the front and all replicas. Throws Error naming the rank for a layout in which one is twice, or
  // that this rank is not the front of. Waits of the groups last a day unless `config` says otherwise: that long a
  // replica may be without requests.
  ReplicaRouter(ProcessGroup& world, const ReplicaLayout& layout, ReplicaPolicy policy,
                const tuttiConfig_t& config = TUTTI_CONFIG_INITIALIZER);
  ~ReplicaRouter();  // revokes what is still going on
  ReplicaRouter(const ReplicaRouter&) = delete;
  ReplicaRouter& operator=(const ReplicaRouter&) = delete;

  // Queues it for a replica that lives; its id. `cost` counts as outstanding until the reply is taken: tokens, say.
  // Throws Error if no replica is left.
  std::uint64_t submit(Bytes request, std::uint64_t cost = 1);
  // A reply, if one is here. Throws ReplicaError once for each replica that is gone. Call it often: requests and
  // replies move only in here, in wait() and in stop().
  std::optional<Reply> poll();
  // Waits for one. Throws Error if none is outstanding.
  Reply wait();
  // Every serve() returns. Throws Error (tuttiInvalidUsage) while requests are outstanding.
  void stop();

  std::size_t outstanding() const;  // requests
  const ReplicaStatistics& statistics(std::size_t replica) const;

 private:
  ReplicaLink& Choose();

  ReplicaPolicy policy_;
  std::vector<std::unique_ptr<ReplicaLink>> links_;
  std::size_t next_ = 0;  // whose turn it is
  std::uint64_t next_id_ = 0;
};

// A replica's side, on each of its ranks.
class Replica {
 public:
  using Handler = std::function<Bytes(const Bytes& request)>;

  // As the router's.
  Replica(ProcessGroup& world, const ReplicaLayout& layout, const tuttiConfig_t& config = TUTTI_CONFIG_INITIALIZER);
  ~Replica();

  // Until the front stops: how many requests there were. All ranks get each of them, in the same order. Throws Error
  // where the front or a rank of this replica is gone. What the handler throws passes through; then destroy this, and
  // the front gets to know.
  std::size_t serve(const Handler& handler);

 private:
  std::unique_ptr<ReplicaGroups> groups_;
};

}  // namespace tutti::parallel
