// A communication library as seen by one measured rank: Tutti itself, an MPI, Gloo. The worker (worker.h) drives all of
// them through this interface, with the same loop, the same kind of buffers and the same pinning.
//
// Thread-safety: one thread per object.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/worker/collective.h"

namespace tutti::bench {

// How the calls are made; the same on every rank of a run.
struct CallSettings {
  bool pin = true;          // rank r stays on the (r mod cores)th core
  bool registered = false;  // library memory, registered with all ranks, instead of malloc's
  bool stream = false;      // calls go through a host stream ...
  bool blocking = false;    // ... which is waited for after each call, not after each batch
  int aggregate = 1;        // calls inside one group
  bool barriers = false;    // a barrier precedes each call, and does not count
  bool cpu_time = false;    // measure processor time instead of elapsed time
  bool device = false;      // buffers in GPU memory, calls on a CUDA stream; rank r has the (r mod devices)th device
  bool graph = false;       // on a device: a timed batch is a CUDA graph, captured once and replayed
  std::string nccl = "libnccl.so.2";  // which NCCL --vs nccl loads
};

using Blob = std::vector<std::uint8_t>;
// Sends the bench this rank's number and `mine`, and returns all ranks' blobs, by rank. A library calls it exactly
// once, in its constructor, so that its ranks find each other.
using Exchange = std::function<std::vector<Blob>(int rank, int ranks, Blob mine)>;

struct Buffers {
  std::byte* send = nullptr;
  std::byte* recv = nullptr;
};

struct BoundCall {
  std::function<void()> run;     // one call
  std::function<void()> finish;  // waits for the calls made; empty if calls return when done
};

class Library {
 public:
  virtual ~Library() = default;

  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  virtual bool Supports(const Operation& operation) const = 0;
  // Where this library wants its buffers; differs from LayoutOf where "in place" means something else to the library.
  virtual Layout LayoutFor(const Operation& operation) const { return LayoutOf(operation, ranks(), rank()); }

  // Collective. `bytes` may differ between ranks and be 0.
  virtual std::byte* Allocate(std::size_t bytes) = 0;
  virtual void Free(std::byte* memory) = 0;

  // REQUIRES: Supports(operation). The buffers outlive the result. Throws std::runtime_error, as does the call.
  virtual BoundCall Bind(const Operation& operation, const Buffers& buffers) = 0;
  virtual void Barrier() = 0;
  // Copy into and out of memory from Allocate; used only if the settings put it on a device.
  virtual void Write(std::byte*, const std::byte*, std::size_t) {}
  virtual void Read(std::byte*, const std::byte*, std::size_t) {}
  // A call that replays `calls` of the given ones. For settings with graphs. Throws std::runtime_error.
  virtual BoundCall Capture(const BoundCall&, int) {
    throw std::runtime_error("this library is not measured in graphs");
  }
  // Calls between the two may run together; libraries without groups run them one after the other.
  virtual void GroupStart() {}
  virtual void GroupEnd() {}
  // The algorithm of the last call, "" if the library does not say.
  virtual std::string LastAlgorithm() const { return {}; }
  // The loaded library and its settings, if worth a line of output.
  virtual std::string About() const { return {}; }
};

// A rank's place, for libraries without a launcher of their own.
struct Place {
  int rank = 0;
  int ranks = 1;
  int threads = 1;  // ranks in this process
};

// Each worker executable links one of these. Throws std::runtime_error.
std::unique_ptr<Library> MakeLibrary(const Place& place, const CallSettings& settings, const Exchange& exchange);

// malloc's memory, as an application would use; never null.
std::byte* AllocateOrdinary(std::size_t bytes);

}  // namespace tutti::bench
