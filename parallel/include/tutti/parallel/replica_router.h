// Inference requests to replicas of a model, each a group of ranks of its own: a front rank gives every request to one
// replica, and takes replies in whatever order they come.
//
//   front:    ReplicaRouter router(world, layout, ReplicaPolicy::least_outstanding);
//             router.submit(prompt, tokens); ... const Reply reply = router.wait(); ... router.stop();
//   replicas: Replica replica(world, layout);
//             replica.serve([&](const Bytes& prompt) { return model.generate(prompt); });
//   or, several requests at a time:
//             while (!replica.stopped()) { if (auto request = replica.poll()) ...; model.step(); replica.reply(...); }
//
// A request is broadcast to all ranks of its replica, which compute it together; the lowest one sends the reply back.
// Requests and replies are bytes without a meaning here. A replica gets its requests in the order given.
//
// Each replica shares two communicators with the front, so that a request need not wait for a reply, and the front has a
// stream for each. It posts a receive wherever a reply is due; the stream that is idle first has one. A third one, of the
// replica's ranks alone, lets them agree whether a request has come. A replica is gone when its lowest rank is, or stops
// serving because another one is.
//
// Sources: vLLM's data-parallel front end (least outstanding work); Li et al. 2023, "AlpaServe" (why replicas).
//
// Thread-safety: one thread at a time, but revoke().
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

using Bytes = std::vector<std::byte>;

struct TUTTI_API ReplicaLayout {
  int front = 0;                           // rank of the world
  std::vector<std::vector<int>> replicas;  // the ranks of each
};

// Replicas of equal cost take turns.
enum class ReplicaPolicy { round_robin, least_outstanding };

struct TUTTI_API ReplicaStatistics {
  bool alive = true;
  std::uint64_t submitted = 0, replied = 0;  // requests
  std::uint64_t outstanding_cost = 0;
};

struct TUTTI_API Request {
  std::uint64_t id = 0;
  Bytes bytes;
};

struct TUTTI_API Reply {
  std::uint64_t id = 0;
  std::size_t replica = 0;  // its place in the layout
  Bytes bytes;
};

// A replica is gone. The caller can submit its outstanding requests (ids, in the order given) again, to the others.
class TUTTI_API ReplicaError : public Error {
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
class TUTTI_API ReplicaRouter {
 public:
  // Collective over the front and all replicas. Throws Error naming the rank if the layout has a rank twice, or another
  // front than this rank. Waits of the groups last a day unless `config` says otherwise: so long a replica may be
  // without requests.
  ReplicaRouter(ProcessGroup& world, const ReplicaLayout& layout, ReplicaPolicy policy,
                const tuttiConfig_t& config = TUTTI_CONFIG_INITIALIZER);
  ~ReplicaRouter();  // revokes what is under way
  ReplicaRouter(const ReplicaRouter&) = delete;
  ReplicaRouter& operator=(const ReplicaRouter&) = delete;

  // Queues the request for a live replica; returns its id. `cost`, such as tokens, counts as outstanding until the
  // reply is taken. Throws Error if no replica is left, or after stop().
  std::uint64_t submit(Bytes request, std::uint64_t cost = 1);
  // Returns a reply, if one is here. Throws ReplicaError once for each replica that is gone. Call it often: requests
  // and replies move only in poll(), wait() and stop().
  std::optional<Reply> poll();
  // Waits for a reply. Throws Error if none is outstanding.
  Reply wait();
  // Makes every serve() return; submit() then throws Error (tuttiInvalidUsage). Throws that while requests are
  // outstanding, and ReplicaError of the first replica that is gone, once all others have been told.
  void stop();

  // Ends what is under way, on all replicas, for good. Any thread may call it.
  void revoke();

  std::size_t outstanding() const;  // requests
  const ReplicaStatistics& statistics(std::size_t replica) const;

 private:
  ReplicaLink& Choose();

  ReplicaPolicy policy_;
  std::vector<std::unique_ptr<ReplicaLink>> links_;
  std::size_t next_ = 0;  // the replica whose turn it is
  std::uint64_t next_id_ = 0;
  bool stopped_ = false;
};

// A replica's side, on each of its ranks.
class TUTTI_API Replica {
 public:
  using Handler = std::function<Bytes(const Bytes& request)>;

  // As the router's.
  Replica(ProcessGroup& world, const ReplicaLayout& layout, const tuttiConfig_t& config = TUTTI_CONFIG_INITIALIZER);
  ~Replica();  // revokes what is under way
  Replica(const Replica&) = delete;
  Replica& operator=(const Replica&) = delete;

  // Serves one request after the other until the front stops; returns their number. All ranks get each of them, in the
  // same order. Throws Error if the front or a rank of this replica is gone. Exceptions of the handler pass through; then
  // destroy this, so that the front gets an error.
  std::size_t serve(const Handler& handler);

  // The next request, if one has come. Collective over the replica's ranks, which all get the same. Throws as serve().
  std::optional<Request> poll();
  // Answers a request that poll() has returned, once; in any order. Called on each of the replica's ranks. Waits until
  // the front polls, if the reply is large. Throws Error (tuttiInvalidUsage) for another id.
  void reply(std::uint64_t id, const Bytes& bytes);
  // The front has stopped: no request comes any more.
  bool stopped() const;
  // Ends what is under way, on the front and the replica's other ranks, for good. Any thread may call it.
  void revoke();

 private:
  class Requests;
  std::unique_ptr<Requests> requests_;
};

}  // namespace tutti::parallel
