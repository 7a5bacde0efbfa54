// "flat": the naive program that a library must beat. Every rank copies what it gives into shared memory, raises a
// counter, waits for the counters of the ranks whose data it needs, and reads that data where it lies. No chunks, no
// algorithms, no checks; all ranks on one host.
#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "base/numbers/datatype.h"
#include "bench/backends/library.h"

namespace tutti::bench {
namespace {

constexpr std::size_t kLine = 64;
// A call's data lies in one of two halves, so that a rank may copy in while slower ones read the call before.
constexpr std::size_t kHalves = 2;
constexpr std::size_t kMostBytes = std::size_t{1}
                                   << 30;  // that a rank gives in a call; pages appear when they are used
// Polls before a rank gives its core away, where each rank has a core.
constexpr int kPolls = 4096;

// One rank's shared memory.
struct Area {
  alignas(kLine) std::atomic<std::uint64_t> calls;  // whose data is copied in
  alignas(kLine) std::byte data[1];

  std::byte* half(std::uint64_t call) { return data + call % kHalves * kMostBytes; }
};
constexpr std::size_t kAreaBytes = offsetof(Area, data) + kHalves * kMostBytes;

Area* Map(int fd) {
  void* const memory = mmap(nullptr, kAreaBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (memory == MAP_FAILED) throw std::runtime_error(fmt::format("flat: mmap: {}", std::strerror(errno)));
  return static_cast<Area*>(memory);
}

// Calls visit with a null T* of the C++ type for `type`; false: C++ has no such type.
template <typename Visit>
bool WithType(tuttiDataType_t type, Visit visit) {
  return VisitDataType(type, [&]<typename Element>(std::type_identity<Element>) {
    if constexpr (!kIsFormat<Element>) visit(static_cast<Element*>(nullptr));
    return !kIsFormat<Element>;
  });
}

template <typename T>
void Accumulate(tuttiRedOp_t op, T* sum, const T* more, std::size_t count) {
  const auto each = [&](auto&& combine) {
    for (std::size_t i = 0; i < count; ++i) sum[i] = static_cast<T>(combine(sum[i], more[i]));
  };
  switch (op) {
    case tuttiProd: return each([](T a, T b) { return a * b; });
    case tuttiMax: return each([](T a, T b) { return std::max(a, b); });
    case tuttiMin: return each([](T a, T b) { return std::min(a, b); });
    default: return each([](T a, T b) { return a + b; });
  }
}

class Flat final : public Library {
 public:
  Flat(const Place& place, const Exchange& exchange)
      : place_(place), polls_(place.ranks <= static_cast<int>(std::thread::hardware_concurrency()) ? kPolls : 1) {
    // As cluster.sh sets it.
    if (std::getenv("TUTTI_CLUSTER") != nullptr)
      throw std::runtime_error("flat: its ranks share the memory of one host");
    const int own = memfd_create("flat", MFD_CLOEXEC);
    if (own < 0 || ftruncate(own, static_cast<off_t>(kAreaBytes)) != 0) {
      throw std::runtime_error(fmt::format("flat: shared memory: {}", std::strerror(errno)));
    }
    const std::string path = fmt::format("/proc/{}/fd/{}", getpid(), own);
    for (const Blob& theirs : exchange(place.rank, place.ranks, Blob(path.begin(), path.end()))) {
      const int fd = open(std::string(theirs.begin(), theirs.end()).c_str(), O_RDWR | O_CLOEXEC);
      if (fd < 0) throw std::runtime_error(fmt::format("flat: a peer's shared memory: {}", std::strerror(errno)));
      areas_.push_back(Map(fd));
      close(fd);
    }
    // `own` stays open: a slower peer may not have opened it yet.
  }
  ~Flat() override {
    for (Area* const area : areas_) munmap(area, kAreaBytes);
  }
  Flat(const Flat&) = delete;
  Flat& operator=(const Flat&) = delete;

  int rank() const override { return place_.rank; }
  int ranks() const override { return place_.ranks; }

  bool Supports(const Operation& operation) const override {
    const auto layout = LayoutOf(operation, place_.ranks, place_.rank);
    if (layout.send_elements * SizeOf(operation.type) > kMostBytes) return false;
    return !Reduces(operation.collective) || (operation.op != tuttiAvg && WithType(operation.type, [](auto*) {}));
  }

  std::byte* Allocate(std::size_t bytes) override { return AllocateOrdinary(bytes); }
  void Free(std::byte* memory) override { std::free(memory); }

  void Barrier() override {
    Begin();
    for (int peer = 0; peer < place_.ranks; ++peer) Await(peer, calls_);
  }

  BoundCall Bind(const Operation& operation, const Buffers& buffers) override {
    if (operation.collective == Collective::barrier) return {[this] { Barrier(); }, {}};
    const std::size_t size = SizeOf(operation.type);
    const std::size_t given = LayoutOf(operation, place_.ranks, place_.rank).send_elements * size;
    auto segments = ExpectedOutput(operation, place_.ranks, place_.rank);
    return {[=, this, segments = std::move(segments)] {
              CopyIn(buffers.send, given);
              Begin();
              for (const Segment& segment : segments) {
                std::byte* const output = buffers.recv + segment.output * size;
                if (segment.source != kReduced) {
                  Await(segment.source, calls_);
                  std::memcpy(output, areas_[segment.source]->half(calls_) + segment.input * size,
                              segment.length * size);
                  continue;
                }
                for (int peer = 0; peer < place_.ranks; ++peer) Await(peer, calls_);
                WithType(operation.type, [&](auto* type) { Reduce(operation.op, segment, output, type); });
              }
            },
            {}};
  }

  std::string About() const override { return "the naive program: copy in, count, read"; }

 private:
  // The half that this call uses was read in the call before last: every rank has begun the last one since.
  void CopyIn(const std::byte* send, std::size_t bytes) {
    if (bytes == 0) return;
    for (int peer = 0; peer < place_.ranks; ++peer) Await(peer, calls_);
    std::memcpy(areas_[place_.rank]->half(calls_ + 1), send, bytes);
  }
  void Begin() { areas_[place_.rank]->calls.store(++calls_, std::memory_order_release); }

  void Await(int peer, std::uint64_t call) const {
    const auto& calls = areas_[static_cast<std::size_t>(peer)]->calls;
    for (int polls = 1; calls.load(std::memory_order_acquire) < call; ++polls) {
      if (polls % polls_ == 0) sched_yield();
    }
  }

  template <typename T>
  void Reduce(tuttiRedOp_t op, const Segment& segment, std::byte* output, T*) const {
    T* const sum = reinterpret_cast<T*>(output);
    const auto contribution = [&](int peer) {
      return reinterpret_cast<const T*>(areas_[static_cast<std::size_t>(peer)]->half(calls_)) + segment.input;
    };
    std::memcpy(sum, contribution(0), segment.length * sizeof(T));
    for (int peer = 1; peer < place_.ranks; ++peer) Accumulate(op, sum, contribution(peer), segment.length);
  }

  const Place place_;
  const int polls_;
  std::vector<Area*> areas_;  // by rank
  std::uint64_t calls_ = 0;   // begun
};

}  // namespace

std::unique_ptr<Library> MakeLibrary(const Place& place, const CallSettings& /*settings*/, const Exchange& exchange) {
  return std::make_unique<Flat>(place, exchange);
}

}  // namespace tutti::bench
