// Google Benchmark figures of the reduction kernels and copies. bytes_per_second counts bytes read and written.
//
//   reduce/<type>/<op>/sources:<n>/bytes:<of one source>[/streamed]
//   copy/{plain,streamed,memcpy}/bytes:<n>
//
// Buffers start 16 bytes into a page, as those of a large malloc do.
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "base/numbers/datatype.h"
#include "executors/host/kernels/copy.h"
#include "executors/host/kernels/reduce.h"

namespace tutti::host_kernels {
namespace {

constexpr std::size_t kMallocOffset = 16;

// Zero pages, touched, so that no fault is measured.
class Buffer {
 public:
  explicit Buffer(std::size_t bytes)
      : length_(bytes + kMallocOffset),
        pages_(mmap(nullptr, length_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    if (pages_ != MAP_FAILED) std::memset(pages_, 0, length_);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() {
    if (pages_ != MAP_FAILED) munmap(pages_, length_);
  }

  bool ok() const { return pages_ != MAP_FAILED; }
  void* data() const { return static_cast<std::byte*>(pages_) + kMallocOffset; }

 private:
  std::size_t length_;
  void* pages_;
};

void BenchReduce(benchmark::State& state, tuttiDataType_t type, tuttiRedOp_t op, int sources, std::size_t bytes,
                 bool streamed, int divisor) {
  std::deque<Buffer> buffers;
  std::vector<const void*> pointers;
  for (int s = 0; s <= sources; ++s) {
    if (!buffers.emplace_back(bytes).ok()) return state.SkipWithError("out of memory");
    pointers.push_back(buffers.back().data());
  }
  void* const destination = buffers.back().data();
  ReduceCall call;
  call.sources = pointers.data();
  call.source_count = sources;
  call.destinations = &destination;
  call.destination_count = 1;
  call.count = bytes / SizeOf(type);
  call.streamed = streamed ? 1 : 0;
  call.divisor = divisor;
  const ReduceFunction reduce = SelectReduce(type, op);
  for (auto _ : state) {
    reduce(call);
    if (streamed) StreamFence();
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * bytes * (sources + 1)));
}

enum class CopyKind { kPlain, kStreamed, kMemcpy };

void BenchCopy(benchmark::State& state, CopyKind kind, std::size_t bytes) {
  const Buffer source(bytes);
  const Buffer destination(bytes);
  if (!source.ok() || !destination.ok()) return state.SkipWithError("out of memory");
  for (auto _ : state) {
    benchmark::DoNotOptimize(bytes);
    if (kind == CopyKind::kMemcpy) {
      std::memcpy(destination.data(), source.data(), bytes);
    } else {
      CopyBytes(destination.data(), source.data(), bytes, kind == CopyKind::kStreamed);
      if (kind == CopyKind::kStreamed) StreamFence();
    }
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(2 * state.iterations() * bytes));
}

void RegisterReduce(tuttiDataType_t type, tuttiRedOp_t op, int sources, std::size_t bytes, bool streamed, int divisor) {
  const std::string name = fmt::format("reduce/{}/{}/sources:{}/bytes:{}{}", NameOf(type),
                                       divisor > 1 ? "avg" : NameOf(op), sources, bytes, streamed ? "/streamed" : "");
  benchmark::RegisterBenchmark(
      name.c_str(), [=](benchmark::State& state) { BenchReduce(state, type, op, sources, bytes, streamed, divisor); });
}

void RegisterAll() {
  constexpr std::size_t kKiB = 1024;
  constexpr std::size_t kMiB = 1024 * kKiB;
  constexpr std::size_t kPastCaches = 4 * kMiB;
  for (const int sources : {1, 2, 3, 4, 5, 8}) {
    for (const std::size_t bytes :
         {std::size_t{8}, std::size_t{64}, std::size_t{256}, kKiB, 4 * kKiB, 64 * kKiB, kMiB, 16 * kMiB, 128 * kMiB}) {
      RegisterReduce(tuttiFloat32, tuttiSum, sources, bytes, false, 0);
      if (bytes >= kPastCaches) RegisterReduce(tuttiFloat32, tuttiSum, sources, bytes, true, 0);
    }
  }
  for (int type = 0; type < tuttiNumTypes; ++type) {
    for (const auto op : {tuttiSum, tuttiProd, tuttiMax, tuttiMin}) {
      for (const std::size_t bytes : {std::size_t{8}, 8 * kKiB, 128 * kMiB}) {
        if (type == tuttiFloat32 && op == tuttiSum) continue;
        for (const int sources : {2, 8}) {
          RegisterReduce(static_cast<tuttiDataType_t>(type), op, sources, bytes, false, 0);
        }
      }
    }
    for (const std::size_t bytes : {std::size_t{8}, 8 * kKiB}) {
      RegisterReduce(static_cast<tuttiDataType_t>(type), tuttiSum, 2, bytes, false, 3);
    }
  }
  for (const std::size_t bytes :
       {std::size_t{8}, std::size_t{64}, std::size_t{256}, kKiB, 64 * kKiB, kMiB, 16 * kMiB, 128 * kMiB}) {
    const std::pair<const char*, CopyKind> kinds[] = {
        {"plain", CopyKind::kPlain}, {"streamed", CopyKind::kStreamed}, {"memcpy", CopyKind::kMemcpy}};
    for (const auto& [kind_name, kind] : kinds) {
      benchmark::RegisterBenchmark(fmt::format("copy/{}/bytes:{}", kind_name, bytes).c_str(),
                                   [=](benchmark::State& state) { BenchCopy(state, kind, bytes); });
    }
  }
}

}  // namespace
}  // namespace tutti::host_kernels

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  tutti::host_kernels::RegisterAll();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
