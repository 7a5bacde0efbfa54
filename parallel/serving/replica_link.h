// A replica as its front sees it: requests that wait to be sent, and the reply that is awaited. Also the header, the
// streams and the groups that both sides share.
//
// Two communicators, each with a stream of its own, so that sending waits for no reply. The first has one request at a
// time, the second one receive.
//
// Thread-safety: one thread at a time.
#pragma once

#include <deque>
#include <map>

#include "tutti/parallel/replica_router.h"

namespace tutti::parallel {

// Precedes every request and reply.
struct ReplicaHeader {
  std::uint64_t id = 0;
  std::uint64_t bytes = 0;
  std::uint64_t last = 0;  // 1: no request, but the end
};

// Throws Error naming the rank that the layout has twice, or a replica without ranks.
void CheckLayout(const ReplicaLayout& layout);

struct DestroyStream {
  void operator()(void* stream) const { tuttiStreamDestroy(stream); }
};
using HostStream = std::unique_ptr<void, DestroyStream>;
HostStream NewStream();
// Nothing is under way on it. Throws Error if something on it, a call of the group, has failed.
bool IsIdle(const HostStream& stream, ProcessGroup& group);

// The ranks of a replica and the front.
struct ReplicaGroups {
  ReplicaGroups(ProcessGroup& world, const ReplicaLayout& layout, std::size_t replica, const tuttiConfig_t& given);

  // Makes the communicators: collective.
  void Join();
  // The rank that speaks for the replica: its lowest rank, in both groups.
  int speaker() const { return front == 0 ? 1 : 0; }
  // Broadcasts a part of a request, from the front.
  void Broadcast(void* data, std::size_t bytes, tuttiStream_t stream);
  // Ends both for good, on all ranks.
  void Revoke();

  tuttiConfig_t config;  // of this and the replica's other groups: a replica may be without requests for long
  ProcessGroup requests, replies;
  int front;  // in both groups
};

class ReplicaLink {
 public:
  ReplicaLink(ProcessGroup& world, const ReplicaLayout& layout, std::size_t replica, const tuttiConfig_t& config);
  ~ReplicaLink() { End(); }
  ReplicaLink(const ReplicaLink&) = delete;
  ReplicaLink& operator=(const ReplicaLink&) = delete;

  const ReplicaStatistics& statistics() const { return statistics_; }
  bool takes_requests() const { return statistics_.alive && !stopping_; }
  std::size_t outstanding() const { return costs_.size(); }
  bool all_sent() const { return queue_.empty(); }

  void Add(std::uint64_t id, Bytes request, std::uint64_t cost);
  // Nothing can be added after it.
  void AddStop();
  // Puts the work that is ready on the streams, and takes off what is done. Throws ReplicaError, once, if the replica
  // is gone.
  void Advance();
  // REQUIRES: has_reply().
  Reply TakeReply();
  // Ends its work for good, on all ranks. Any thread may call it.
  void Revoke() { groups_.Revoke(); }
  bool has_reply() const { return awaited_ == Awaited::nothing && arrived_; }

 private:
  struct Outgoing {
    ReplicaHeader header;
    Bytes bytes;
  };
  enum class Awaited { nothing, header, bytes };

  void Send();
  void Receive();
  void Receive(void* data, std::size_t bytes, Awaited awaited);
  // Ends the work on the streams, whichever rank it waits for.
  void End();
  [[noreturn]] void Lose(const Error& error);

  std::size_t replica_;
  ReplicaGroups groups_;
  HostStream request_stream_, reply_stream_;  // end before their communicators do
  std::deque<Outgoing> queue_;                // the first is on the stream while sending_
  bool sending_ = false, stopping_ = false;
  ReplicaHeader header_;  // of the reply that is awaited or has arrived
  Bytes bytes_;
  Awaited awaited_ = Awaited::nothing;
  bool arrived_ = false;
  std::map<std::uint64_t, std::uint64_t> costs_;  // of outstanding requests, by id
  ReplicaStatistics statistics_;
};

}  // namespace tutti::parallel
