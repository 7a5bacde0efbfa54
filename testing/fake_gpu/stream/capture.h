// Streams that record their work instead of doing it, and the resulting graphs.
//
// A node is a piece of work that comes after others. Nodes are listed in call order, which is a valid order to run them
// in. Unordered nodes of different streams run at the same time, because kernels may wait for one another.
// Thread-safety: all of it.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <thread>
#include <vector>

#include "testing/fake_gpu/stream/stream.h"

namespace tutti::fake_gpu {

struct Node {
  Work work;
  std::size_t lane;             // one for each stream of the capture
  std::set<std::size_t> after;  // numbers of nodes
};

// Destroyed with the last graph that can use the data.
struct UserObject {
  UserObject(void* data, CUhostFn destroy) : data(data), destroy(destroy) {}
  ~UserObject();
  UserObject(const UserObject&) = delete;
  UserObject& operator=(const UserObject&) = delete;

  void* const data;
  const CUhostFn destroy;
};

struct Graph {
  std::vector<Node> nodes;
  std::size_t lanes = 0;
  std::vector<std::shared_ptr<UserObject>> objects;

  // Returns when all nodes are done.
  void Run() const;
};

// Nodes of a capture that a captured event stands for; a waiting stream's next node comes after them.
struct Captured {
  std::shared_ptr<Capture> capture;  // null: none
  std::set<std::size_t> nodes;
};

class Capture {
 public:
  Capture(Stream& origin, CUstreamCaptureMode mode);

  const std::uint64_t id;
  const CUstreamCaptureMode mode;
  const std::thread::id thread = std::this_thread::get_id();
  const std::shared_ptr<Graph> graph = std::make_shared<Graph>();
  const CUgraph handle;

  // REQUIRES for all below: the lock of captures is held.
  bool invalid = false;
  Stream* origin() const { return origin_; }  // may be gone once the capture has ended
  bool ended() const { return lanes_.empty(); }
  bool Has(Stream& stream) const { return lanes_.contains(&stream); }
  void Add(Stream& stream, Work work);
  std::set<std::size_t> Last(Stream& stream) const { return lanes_.at(&stream).last; }
  void ComeAfter(Stream& stream, const std::set<std::size_t>& nodes);
  // The same, with nodes as callers have them. The list lives until the stream's next such call.
  const std::vector<CUgraphNode>& LastAsHandles(Stream& stream);
  // Adds nodes to those that the stream's next work comes after, or replaces those.
  void ComeAfterHandles(Stream& stream, std::span<const CUgraphNode> nodes, bool replaces);
  // Whether every stream's work comes before the end of the origin's.
  bool Joined() const;
  // Releases its streams.
  void End();

 private:
  struct Lane {
    std::size_t number;
    std::set<std::size_t> last;
    std::shared_ptr<Stream> stream;
    std::vector<CUgraphNode> last_handles;
  };
  Stream* const origin_;
  std::map<Stream*, Lane> lanes_;
};

std::mutex& CaptureLock();

// Handles of nodes: their numbers, counted from 1.
inline CUgraphNode HandleOf(std::size_t node) { return reinterpret_cast<CUgraphNode>(node + 1); }

// Whether the stream is captured; if so, the work is now a node.
bool Recorded(Stream& stream, Work& work);
// Fails, and invalidates the capture, if the stream takes part in one.
void ForbidOnCaptured(Stream& stream);
// Fails, and invalidates the captures that the calling thread must not disturb, if there are any. For calls that wait,
// or that a graph cannot repeat.
void ForbidWhileCapturing();

}  // namespace tutti::fake_gpu
