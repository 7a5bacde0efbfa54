// NVIDIA's NCCL as the measured library, loaded at run time. The few functions needed from its documented interface are
// declared here; types, operators and result codes have the same numbers as in tutti.h.
#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <optional>
#include <stdexcept>

#include "base/numbers/datatype.h"
#include "bench/backends/capture.h"
#include "bench/backends/gpu.h"
#include "bench/backends/library.h"

namespace tutti::bench {
namespace {

constexpr int kSuccess = 0;
constexpr int kFirstWithMultiRankGpus = 23000;  // 2.30, as NCCL encodes versions since 2.9

// Set by tests, to measure Tutti's own libnccl.so.2 as if it were NCCL.
constexpr char kOwnAllowed[] = "TUTTI_BENCH_OWN_NCCL";

struct NcclComm;
using Comm = NcclComm*;
struct UniqueId {
  char internal[128];
};

struct Nccl {
  int (*ncclGetVersion)(int*) = nullptr;
  int (*ncclGetUniqueId)(UniqueId*) = nullptr;
  int (*ncclCommInitRank)(Comm*, int, UniqueId, int) = nullptr;
  int (*ncclCommDestroy)(Comm) = nullptr;
  int (*ncclCommGetAsyncError)(Comm, int*) = nullptr;
  const char* (*ncclGetErrorString)(int) = nullptr;
  const char* (*ncclGetLastError)(Comm) = nullptr;
  int (*ncclAllReduce)(const void*, void*, std::size_t, int, int, Comm, GpuStream) = nullptr;
  int (*ncclReduce)(const void*, void*, std::size_t, int, int, int, Comm, GpuStream) = nullptr;
  int (*ncclReduceScatter)(const void*, void*, std::size_t, int, int, Comm, GpuStream) = nullptr;
  int (*ncclAllGather)(const void*, void*, std::size_t, int, Comm, GpuStream) = nullptr;
  int (*ncclBroadcast)(const void*, void*, std::size_t, int, int, Comm, GpuStream) = nullptr;
  int (*ncclSend)(const void*, std::size_t, int, int, Comm, GpuStream) = nullptr;
  int (*ncclRecv)(void*, std::size_t, int, int, Comm, GpuStream) = nullptr;
  int (*ncclGroupStart)() = nullptr;
  int (*ncclGroupEnd)() = nullptr;
  int version = 0;
  std::string file;
  std::string set;  // variables that decide how ranks share a GPU
};

std::string VersionText(int version) {
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

// NCCL refuses two ranks on one GPU. Since 2.30 a variable allows them; before, ranks pass if they believe that they
// are on different hosts, and then use sockets.
std::string AllowSharedGpus(int version, const Place& place, int devices) {
  if (place.ranks <= devices) return {};
  const bool by_host = version < kFirstWithMultiRankGpus;
  if (by_host && place.threads > 1) {
    throw std::runtime_error(
        fmt::format("NCCL {} runs one rank per GPU in a process: {} ranks on {} devices must be processes (no -t)",
                    VersionText(version), place.ranks, devices));
  }
  const char* const name = by_host ? "NCCL_HOSTID" : "NCCL_MULTI_RANK_GPU_ENABLE";
  const std::string value = by_host ? fmt::format("tutti-bench-{}", place.rank) : "1";
  ::setenv(name, value.c_str(), /*overwrite=*/0);
  return fmt::format("; {}={}", name, by_host ? "a rank" : std::getenv(name));
}

Nccl Load(const std::string& file, const Place& place, int devices) {
  Nccl nccl;
  void* const library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error(::dlerror());
  const auto find = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
    if (function == nullptr) throw std::runtime_error(fmt::format("{} has no {}: it is not NCCL", file, name));
  };
#define TUTTI_FIND(name) find(nccl.name, #name)
  TUTTI_FIND(ncclGetVersion);
  TUTTI_FIND(ncclGetUniqueId);
  TUTTI_FIND(ncclCommInitRank);
  TUTTI_FIND(ncclCommDestroy);
  TUTTI_FIND(ncclCommGetAsyncError);
  TUTTI_FIND(ncclGetErrorString);
  TUTTI_FIND(ncclGetLastError);
  TUTTI_FIND(ncclAllReduce);
  TUTTI_FIND(ncclReduce);
  TUTTI_FIND(ncclReduceScatter);
  TUTTI_FIND(ncclAllGather);
  TUTTI_FIND(ncclBroadcast);
  TUTTI_FIND(ncclSend);
  TUTTI_FIND(ncclRecv);
  TUTTI_FIND(ncclGroupStart);
  TUTTI_FIND(ncclGroupEnd);
#undef TUTTI_FIND
  Dl_info info{};
  ::dladdr(reinterpret_cast<void*>(nccl.ncclGetVersion), &info);
  std::error_code error;
  nccl.file = info.dli_fname != nullptr ? info.dli_fname : file;
  if (const auto whole = std::filesystem::canonical(nccl.file, error); !error) nccl.file = whole;
  // dlsym also searches the library's dependencies, and only Tutti's own libnccl.so.2 depends on libtutti.so.
  const bool is_own = ::dlsym(library, "tuttiGetVersion") != nullptr;
  if (is_own && std::getenv(kOwnAllowed) == nullptr) {
    throw std::runtime_error(fmt::format(
        "{} is Tutti's, not NVIDIA's: name another one with --nccl, or remove its directory from LD_LIBRARY_PATH",
        nccl.file));
  }
  if (nccl.ncclGetVersion(&nccl.version) != kSuccess || nccl.version <= 0) {
    throw std::runtime_error(fmt::format("{} does not report its version", nccl.file));
  }
  nccl.set = AllowSharedGpus(nccl.version, place, devices);
  if (const char* const blocks = std::getenv("NCCL_MAX_CTAS")) nccl.set += fmt::format("; NCCL_MAX_CTAS={}", blocks);
  if (is_own) nccl.set += "; TUTTI'S OWN, NOT NCCL";
  return nccl;
}

// Loads once per process: if the first rank fails, all ranks fail for the same reason.
const Nccl& TheNccl(const std::string& file, const Place& place, int devices) {
  static std::mutex mutex;
  static std::optional<Nccl> loaded;
  const std::lock_guard lock(mutex);
  if (!loaded) loaded = Load(file, place, devices);
  return *loaded;
}

class NcclLibrary final : public Library {
 public:
  NcclLibrary(const Place& place, const CallSettings& settings, const Exchange& exchange)
      : place_(place),
        blocking_(settings.blocking),
        gpu_(place.rank),
        nccl_(TheNccl(settings.nccl, place, Gpu::Count())) {
    UniqueId id{};
    Blob mine;
    if (place.rank == 0) {
      Check(nccl_.ncclGetUniqueId(&id), "ncclGetUniqueId");
      mine.assign(id.internal, id.internal + sizeof id.internal);
    }
    const std::vector<Blob> blobs = exchange(place.rank, place.ranks, mine);
    if (blobs.at(0).size() != sizeof id.internal) throw std::runtime_error("rank 0 did not send a unique id");
    std::memcpy(id.internal, blobs[0].data(), sizeof id.internal);
    Check(nccl_.ncclCommInitRank(&comm_, place.ranks, id, place.rank), "ncclCommInitRank");
    token_ = gpu_.Allocate(sizeof(float));
  }
  ~NcclLibrary() override {
    gpu_.Free(token_);
    nccl_.ncclCommDestroy(comm_);
  }

  int rank() const override { return place_.rank; }
  int ranks() const override { return place_.ranks; }
  bool Supports(const Operation& operation) const override {
    switch (operation.collective) {
      case Collective::all_reduce:
      case Collective::reduce_scatter:
      case Collective::all_gather:
      case Collective::broadcast:
      case Collective::reduce:
      case Collective::send_recv: return true;
      case Collective::all_to_all: return !operation.in_place;
      default: return false;
    }
  }

  std::byte* Allocate(std::size_t bytes) override { return gpu_.Allocate(bytes); }
  void Free(std::byte* memory) override { gpu_.Free(memory); }
  void Write(std::byte* to, const std::byte* from, std::size_t bytes) override { gpu_.Write(to, from, bytes); }
  void Read(std::byte* to, const std::byte* from, std::size_t bytes) override { gpu_.Read(to, from, bytes); }

  BoundCall Bind(const Operation& operation, const Buffers& buffers) override {
    const std::function<void()> call = [this, operation, buffers] { Call(operation, buffers.send, buffers.recv); };
    const auto synchronize = [this] { Synchronize(); };
    if (!blocking_) return {call, synchronize};
    return {[call, synchronize] {
              call();
              synchronize();
            },
            {}};
  }
  BoundCall Capture(const BoundCall& call, int calls) override { return CaptureAlone(gpu_, call.run, calls); }

  void Barrier() override {
    Check(nccl_.ncclAllReduce(token_, token_, 1, tuttiFloat32, tuttiSum, comm_, gpu_.stream()), "ncclAllReduce");
    Synchronize();
  }
  void GroupStart() override { Check(nccl_.ncclGroupStart(), "ncclGroupStart"); }
  void GroupEnd() override { Check(nccl_.ncclGroupEnd(), "ncclGroupEnd"); }
  std::string About() const override {
    return fmt::format("NCCL {} of {}{}", VersionText(nccl_.version), nccl_.file, nccl_.set);
  }

 private:
  void Check(int result, const char* call) const {
    if (result == kSuccess) return;
    const char* const last = nccl_.ncclGetLastError(comm_);
    throw std::runtime_error(fmt::format("{}: {}: {} (NCCL {} of {}{})", call, nccl_.ncclGetErrorString(result),
                                         last != nullptr ? last : "", VersionText(nccl_.version), nccl_.file,
                                         nccl_.set));
  }

  void Synchronize() const {
    gpu_.Synchronize();
    int failure = kSuccess;
    Check(nccl_.ncclCommGetAsyncError(comm_, &failure), "ncclCommGetAsyncError");
    Check(failure, "on the GPU");
  }

  void Call(const Operation& operation, std::byte* send, std::byte* recv) {
    const std::size_t count = operation.count;
    const int type = operation.type;
    const int op = operation.op;
    const GpuStream stream = gpu_.stream();
    switch (operation.collective) {
      case Collective::all_reduce:
        return Check(nccl_.ncclAllReduce(send, recv, count, type, op, comm_, stream), "ncclAllReduce");
      case Collective::reduce_scatter:
        return Check(nccl_.ncclReduceScatter(send, recv, count, type, op, comm_, stream), "ncclReduceScatter");
      case Collective::all_gather:
        return Check(nccl_.ncclAllGather(send, recv, count, type, comm_, stream), "ncclAllGather");
      case Collective::broadcast:
        return Check(nccl_.ncclBroadcast(send, recv, count, type, operation.root, comm_, stream), "ncclBroadcast");
      case Collective::reduce:
        return Check(nccl_.ncclReduce(send, recv, count, type, op, operation.root, comm_, stream), "ncclReduce");
      case Collective::send_recv:
        GroupStart();
        Send(send, operation, (place_.rank + 1) % place_.ranks);
        Recv(recv, operation, (place_.rank + place_.ranks - 1) % place_.ranks);
        return GroupEnd();
      case Collective::all_to_all: {  // like ncclAlltoAll, which not every version has
        const std::size_t block = count * SizeOf(operation.type);
        GroupStart();
        for (int peer = 0; peer < place_.ranks; ++peer) {
          Send(send + static_cast<std::size_t>(peer) * block, operation, peer);
          Recv(recv + static_cast<std::size_t>(peer) * block, operation, peer);
        }
        return GroupEnd();
      }
      default: throw std::runtime_error("NCCL has no such collective");
    }
  }

  void Send(const std::byte* from, const Operation& operation, int peer) {
    Check(nccl_.ncclSend(from, operation.count, operation.type, peer, comm_, gpu_.stream()), "ncclSend");
  }
  void Recv(std::byte* to, const Operation& operation, int peer) {
    Check(nccl_.ncclRecv(to, operation.count, operation.type, peer, comm_, gpu_.stream()), "ncclRecv");
  }

  const Place place_;
  const bool blocking_;
  const Gpu gpu_;
  const Nccl& nccl_;
  Comm comm_ = nullptr;
  std::byte* token_ = nullptr;
};

}  // namespace

std::unique_ptr<Library> MakeLibrary(const Place& place, const CallSettings& settings, const Exchange& exchange) {
  return std::make_unique<NcclLibrary>(place, settings, exchange);
}

}  // namespace tutti::bench
