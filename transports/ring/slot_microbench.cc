// Google Benchmark figures of one slot's trip between two threads: filled, seen, read and released.
//
//   slot/<protocol>/bytes:<of the message>
//
// One iteration is there and back; trip is half of it. The threads run where the system puts them: pin the process to
// two cores to compare runs (taskset -c 0,1).
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <cstring>
#include <thread>
#include <vector>

#include "transports/ring/ring.h"

namespace tutti::ring {
namespace {

constexpr std::uint32_t kTag = 1;
constexpr std::uint32_t kBulkDepth = 4;

// A ring and both of its ends, in one direction.
class Direction {
 public:
  explicit Direction(SlotShape shape)
      : memory_(std::size_t{shape.stride} * shape.depth / kCacheLine + 1),
        fill_(memory_[0].bytes, shape, {&head_}),
        empty_(memory_[0].bytes, shape, 1, &head_) {}

  void Send(const std::vector<std::byte>& message) {
    while (!fill_.HasRoom()) std::this_thread::yield();
    std::memcpy(fill_.Data(), message.data(), message.size());
    fill_.Publish(kTag);
  }
  void Receive(std::vector<std::byte>& message) {
    while (empty_.Look(kTag) != EmptyEnd::State::ready) Pause();
    std::memcpy(message.data(), empty_.Data(), message.size());
    empty_.Release();
  }

 private:
  struct alignas(kCacheLine) Line {
    std::byte bytes[kCacheLine];
  };
  static void Pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
  }

  std::vector<Line> memory_;
  alignas(kCacheLine) std::atomic<std::uint32_t> head_{0};
  FillEnd fill_;
  EmptyEnd empty_;
};

void BenchTrip(benchmark::State& state, SlotShape shape, std::size_t bytes) {
  Direction there(shape), back(shape);
  std::vector<std::byte> sent(bytes), received(bytes);
  sent[0] = std::byte{1};
  std::thread echo([&] {
    std::vector<std::byte> message(bytes);
    do {
      there.Receive(message);
      back.Send(message);
    } while (message[0] != std::byte{0});
  });
  for (auto _ : state) {
    there.Send(sent);
    back.Receive(received);
  }
  sent[0] = std::byte{0};  // the last one
  there.Send(sent);
  echo.join();
  state.counters["trip"] = benchmark::Counter(2 * static_cast<double>(state.iterations()),
                                              benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
  state.SetBytesProcessed(static_cast<std::int64_t>(2 * state.iterations() * bytes));
}

void Register(Protocol protocol, const SlotShape& shape, std::size_t bytes) {
  benchmark::RegisterBenchmark(fmt::format("slot/{}/bytes:{}", NameOf(protocol), bytes).c_str(),
                               [=](benchmark::State& state) { BenchTrip(state, shape, bytes); })
      ->UseRealTime();
}

const bool registered = [] {
  for (const std::size_t bytes : {8, 48}) Register(Protocol::line, kLineShape, bytes);
  for (const std::size_t bytes : {8, 256, 1024}) Register(Protocol::inlined, kInlineShape, bytes);
  for (const std::size_t bytes : {1024, 16 * 1024, 128 * 1024}) {
    Register(Protocol::bulk, BulkShape(static_cast<std::uint32_t>(bytes), kBulkDepth), bytes);
  }
  return true;
}();

}  // namespace
}  // namespace tutti::ring
