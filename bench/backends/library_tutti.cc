#include "bench/backends/library_tutti.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <stdexcept>

#include "base/numbers/datatype.h"
#include "bench/backends/capture.h"
#include "bench/backends/gpu.h"

namespace tutti::bench {
namespace {

struct Blocks {
  std::vector<std::size_t> send_counts, send_displacements, recv_counts, recv_displacements;
};

Blocks BlocksOf(const Operation& operation, int ranks, int rank) {
  Blocks blocks;
  std::size_t sent = 0;
  std::size_t received = 0;
  for (int peer = 0; peer < ranks; ++peer) {
    blocks.send_counts.push_back(BlockElements(operation, rank, peer));
    blocks.recv_counts.push_back(BlockElements(operation, peer, rank));
    blocks.send_displacements.push_back(sent);
    blocks.recv_displacements.push_back(received);
    sent += blocks.send_counts.back();
    received += blocks.recv_counts.back();
  }
  return blocks;
}

class Tutti final : public Library {
 public:
  // `gpu`: holds the buffers, null for host memory. `threads`: ranks of this process.
  Tutti(tuttiComm_t comm, const CallSettings& settings, std::unique_ptr<Gpu> gpu, int threads)
      : gpu_(std::move(gpu)), comm_(comm), settings_(settings), threads_(threads) {
    Check(tuttiCommUserRank(comm_, &rank_), "tuttiCommUserRank");
    Check(tuttiCommCount(comm_, &ranks_), "tuttiCommCount");
    if (gpu_ != nullptr) {
      stream_ = gpu_->stream();
    } else if (settings.stream) {
      Check(tuttiStreamCreate(&stream_), "tuttiStreamCreate");
    }
  }
  ~Tutti() override {
    if (stream_ != nullptr && gpu_ == nullptr) tuttiStreamDestroy(stream_);
    tuttiCommDestroy(comm_);
  }

  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }
  bool Supports(const Operation&) const override { return true; }

  std::byte* Allocate(std::size_t bytes) override {
    if (!settings_.registered) return gpu_ != nullptr ? gpu_->Allocate(bytes) : AllocateOrdinary(bytes);
    void* memory = nullptr;
    const std::size_t size = std::max<std::size_t>(1, bytes);
    Check(tuttiMemAlloc(&memory, size), "tuttiMemAlloc");
    tuttiWindow_t window = nullptr;
    Check(tuttiCommWindowRegister(comm_, memory, size, &window, TUTTI_WIN_DEFAULT), "tuttiCommWindowRegister");
    windows_[memory] = window;
    return static_cast<std::byte*>(memory);
  }

  void Free(std::byte* memory) override {
    const auto window = windows_.find(memory);
    if (window == windows_.end()) return gpu_ != nullptr ? gpu_->Free(memory) : std::free(memory);
    // A failed communicator cannot deregister; errors are reported where they matter.
    tuttiCommWindowDeregister(comm_, window->second);
    tuttiMemFree(memory);
    windows_.erase(window);
  }

  BoundCall Bind(const Operation& operation, const Buffers& buffers) override {
    std::function<void()> call = CallOf(operation, buffers);
    if (stream_ == nullptr) return {std::move(call), {}};
    const auto synchronize = [this] { Synchronize(); };
    if (!settings_.blocking) return {std::move(call), synchronize};
    return {[call, synchronize] {
              call();
              synchronize();
            },
            {}};
  }

  void Barrier() override {
    if (gpu_ == nullptr) return Check(tuttiBarrier(comm_, nullptr), "tuttiBarrier");
    Check(tuttiBarrier(comm_, stream_), "tuttiBarrier");
    Synchronize();
    // One thread launches the graph of all: not before the barrier's kernel has ended on every rank's GPU.
    if (captured_) MeetThreads(threads_);
  }
  void Write(std::byte* to, const std::byte* from, std::size_t bytes) override { gpu_->Write(to, from, bytes); }
  void Read(std::byte* to, const std::byte* from, std::size_t bytes) override { gpu_->Read(to, from, bytes); }
  BoundCall Capture(const BoundCall& call, int calls) override {
    captured_ = true;
    return CaptureTogether(*gpu_, call.run, calls, threads_);
  }
  void GroupStart() override { Check(tuttiGroupStart(), "tuttiGroupStart"); }
  void GroupEnd() override { Check(tuttiGroupEnd(), "tuttiGroupEnd"); }

  std::string LastAlgorithm() const override {
    tuttiAlgorithm_t algorithm = tuttiAlgorithmNone;
    if (tuttiCommGetLastAlgorithm(comm_, &algorithm) != tuttiSuccess) return {};
    return algorithm == tuttiAlgorithmNone ? "" : tuttiAlgorithmName(algorithm);
  }

 private:
  void Check(tuttiResult_t result, const char* call) const { CheckTutti(result, comm_, call); }

  void Synchronize() const {
    if (gpu_ == nullptr) return Check(tuttiStreamSynchronize(stream_), "tuttiStreamSynchronize");
    gpu_->Synchronize();
    // A kernel that is told to stop ends like any other; the error is available here.
    tuttiResult_t failure = tuttiSuccess;
    Check(tuttiCommGetAsyncError(comm_, &failure), "tuttiCommGetAsyncError");
    Check(failure, "on the GPU");
  }

  std::function<void()> CallOf(const Operation& operation, const Buffers& buffers) const {
    const std::size_t count = operation.count;
    const tuttiDataType_t type = operation.type;
    const tuttiRedOp_t op = operation.op;
    const int root = operation.root;
    void* const send = buffers.send;
    void* const recv = buffers.recv;
    const tuttiComm_t comm = comm_;
    const tuttiStream_t stream = stream_;
    const auto bind = [this](const char* name, auto call) { return [this, name, call] { Check(call(), name); }; };
    switch (operation.collective) {
      case Collective::all_reduce:
        return bind("tuttiAllReduce", [=] { return tuttiAllReduce(send, recv, count, type, op, comm, stream); });
      case Collective::reduce:
        return bind("tuttiReduce", [=] { return tuttiReduce(send, recv, count, type, op, root, comm, stream); });
      case Collective::reduce_scatter:
        return bind("tuttiReduceScatter",
                    [=] { return tuttiReduceScatter(send, recv, count, type, op, comm, stream); });
      case Collective::all_gather:
        return bind("tuttiAllGather", [=] { return tuttiAllGather(send, recv, count, type, comm, stream); });
      case Collective::all_to_all:
        return bind("tuttiAlltoAll", [=] { return tuttiAlltoAll(send, recv, count, type, comm, stream); });
      case Collective::all_to_all_v:
        return bind("tuttiAlltoAllV", [=, blocks = BlocksOf(operation, ranks_, rank_)] {
          return tuttiAlltoAllV(send, blocks.send_counts.data(), blocks.send_displacements.data(), recv,
                                blocks.recv_counts.data(), blocks.recv_displacements.data(), type, comm, stream);
        });
      case Collective::broadcast:
        if (operation.in_place) {
          return bind("tuttiBcast", [=] { return tuttiBcast(recv, count, type, root, comm, stream); });
        }
        return bind("tuttiBroadcast", [=] { return tuttiBroadcast(send, recv, count, type, root, comm, stream); });
      case Collective::gather:
        return bind("tuttiGather", [=] { return tuttiGather(send, recv, count, type, root, comm, stream); });
      case Collective::scatter:
        return bind("tuttiScatter", [=] { return tuttiScatter(send, recv, count, type, root, comm, stream); });
      case Collective::send_recv: {
        const int next = (rank_ + 1) % ranks_;
        const int previous = (rank_ + ranks_ - 1) % ranks_;
        return [=, this] {
          Check(tuttiGroupStart(), "tuttiGroupStart");
          Check(tuttiSend(send, count, type, next, comm, stream), "tuttiSend");
          Check(tuttiRecv(recv, count, type, previous, comm, stream), "tuttiRecv");
          Check(tuttiGroupEnd(), "tuttiGroupEnd");
        };
      }
      case Collective::barrier: return bind("tuttiBarrier", [=] { return tuttiBarrier(comm, stream); });
    }
    throw std::runtime_error("no such collective");
  }

  const std::unique_ptr<Gpu> gpu_;
  const tuttiComm_t comm_;
  const CallSettings settings_;
  const int threads_;
  bool captured_ = false;
  tuttiStream_t stream_ = nullptr;
  int rank_ = 0;
  int ranks_ = 1;
  std::map<void*, tuttiWindow_t> windows_;
};

}  // namespace

void CheckTutti(tuttiResult_t result, tuttiComm_t comm, const char* call) {
  if (result == tuttiSuccess) return;
  throw std::runtime_error(fmt::format("{}: {}: {}", call, tuttiGetErrorString(result), tuttiGetLastError(comm)));
}

std::unique_ptr<Library> WrapCommunicator(tuttiComm_t comm, const CallSettings& settings) {
  return std::make_unique<Tutti>(comm, settings, nullptr, 1);
}

std::unique_ptr<Library> MakeLibrary(const Place& place, const CallSettings& settings, const Exchange& exchange) {
  tuttiUniqueId id{};
  Blob mine;
  if (place.rank == 0) {
    CheckTutti(tuttiGetUniqueId(&id), nullptr, "tuttiGetUniqueId");
    mine.assign(id.internal, id.internal + sizeof id.internal);
  }
  const std::vector<Blob> blobs = exchange(place.rank, place.ranks, mine);
  if (blobs.at(0).size() != sizeof id.internal) throw std::runtime_error("rank 0 did not send a unique id");
  std::memcpy(id.internal, blobs[0].data(), sizeof id.internal);
  // Made current in this thread, so that the communicator is for this GPU's memory.
  std::unique_ptr<Gpu> gpu = settings.device ? std::make_unique<Gpu>(place.rank) : nullptr;
  tuttiComm_t comm = nullptr;
  CheckTutti(tuttiCommInitRank(&comm, place.ranks, id, place.rank), nullptr, "tuttiCommInitRank");
  return std::make_unique<Tutti>(comm, settings, std::move(gpu), place.threads);
}

}  // namespace tutti::bench
