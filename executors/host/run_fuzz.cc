// libFuzzer target. A peer in another process writes anything into the slots and heads of its segment while a run of
// any algorithm reads them. The run ends, waits, or sees a fault, and touches no memory but its own.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "algorithms/builders/build.h"
#include "algorithms/builders/records.h"
#include "base/numbers/datatype.h"
#include "executors/host/run_testing.h"

namespace tutti::host {
namespace {

using testing::OneWindow;
using testing::RankBesideStranger;

constexpr int kChannels = 4;
constexpr std::uint32_t kTag = 7;
constexpr std::size_t kMostBytes = 4096;
constexpr int kMostWrites = 64;
constexpr tuttiAlgorithm_t kAlgorithms[] = {
    tuttiAlgorithmDirect,    tuttiAlgorithmTwoShot,           tuttiAlgorithmRing,     tuttiAlgorithmDoubleBinaryTree,
    tuttiAlgorithmRecursive, tuttiAlgorithmRecursiveDoubling, tuttiAlgorithmBinomial, tuttiAlgorithmGrouped};
constexpr tuttiDataType_t kTypes[] = {tuttiUint8, tuttiFloat16, tuttiFloat32, tuttiInt64};

void Require(bool promise) {
  if (!promise) __builtin_trap();
}

// Bytes of the input; zeros after its end.
class Choices {
 public:
  explicit Choices(std::span<const std::byte> input) : left_(input) {}

  bool empty() const { return left_.empty(); }
  template <typename Word = std::uint8_t>
  Word Next() {
    Word word{};
    const auto bytes = std::min(sizeof word, left_.size());
    std::memcpy(&word, left_.data(), bytes);
    left_ = left_.subspan(bytes);
    return word;
  }
  std::size_t Below(std::size_t n) { return Next() % n; }

 private:
  std::span<const std::byte> left_;
};

// The number of slots that this rank has filled for the stranger. At the end, an honest peer has emptied as many.
std::uint32_t Filled(shm::Fabric& fabric, int channel, ring::Protocol protocol, bool post) {
  const int ring = post ? fabric.nranks() : RankBesideStranger::kStranger;
  const auto shape = fabric.layout().SlotShapeOf(protocol, ring);
  std::uint32_t most = 0;
  for (std::uint32_t i = 0; i < shape.depth; ++i) {
    const auto* const slot = fabric.segment(fabric.rank()) + fabric.layout().RingOffset(channel, protocol, ring) +
                             std::size_t{i} * shape.stride;
    most = std::max(most, ring::FlagNumber(reinterpret_cast<const ring::SlotHeader*>(slot)->flag.load()));
  }
  return most;
}

// The stranger writes one slot or one head, which is honest except for some words.
void Write(Choices& choices, RankBesideStranger& beside, int channels, const schedule::ProtocolConfig& config,
           std::uint64_t window_bytes) {
  const int channel = static_cast<int>(choices.Below(static_cast<std::size_t>(channels)));
  const bool post = choices.Below(2) != 0;
  if (choices.Below(4) == 0) {
    const auto honest = Filled(beside.fabric(), channel, config.protocol, post);
    beside.Emptied(channel, config.protocol, post) = choices.Below(2) == 0 ? honest : choices.Next<std::uint32_t>();
    return;
  }
  auto slot = beside.Next(channel, config.protocol, post);
  slot.header->bytes =
      choices.Below(4) == 0 ? choices.Next<std::uint32_t>() : static_cast<std::uint32_t>(config.chunk_bytes);
  slot.header->kind =
      static_cast<ring::SlotKind>(choices.Below(8) == 0 ? choices.Next<std::uint16_t>() : choices.Below(4));
  slot.header->window = choices.Below(4) == 0 ? choices.Next<std::uint16_t>() : OneWindow::kNumber;
  const auto address =
      choices.Below(2) == 0 ? choices.Next<std::uint64_t>() : choices.Next<std::uint16_t>() % window_bytes;
  std::memcpy(&slot.header->address, &address, sizeof address);
  if (choices.Below(16) == 0) {
    slot.header->flag.store(choices.Next<std::uint64_t>());
  } else {
    slot.Publish(kTag);
  }
}

void Fuzz(std::span<const std::byte> input) {
  // The stranger is forked once; connections keep counting from run to run, as in a job.
  static RankBesideStranger beside(kChannels);
  static OneWindow window(2 * kMostBytes);
  Choices choices(input);
  builders::ScheduleRequest request{static_cast<schedule::Collective>(choices.Below(schedule::kScheduledCollectives)),
                                    0, 2};
  request.root = schedule::HasRoot(request.collective) ? static_cast<int>(choices.Below(2)) : 0;
  request.channels = 1 + static_cast<int>(choices.Below(2));
  request.posts = choices.Below(4) != 0;
  const auto algorithm = kAlgorithms[choices.Below(std::size(kAlgorithms))];
  const auto type = kTypes[choices.Below(std::size(kTypes))];
  const auto schedule = builders::Build(algorithm, request);
  if (!schedule || static_cast<int>(schedule->channels.size()) * schedule->connections > kChannels) return;

  const auto protocol = static_cast<ring::Protocol>(choices.Below(ring::kProtocols));
  const std::size_t most = std::min<std::size_t>(beside.fabric().layout().SlotShapeOf(protocol, 0).capacity, 1024);
  const schedule::ProtocolConfig config{protocol, std::max<std::size_t>(most / (1 + choices.Below(4)) / 16 * 16, 16),
                                        protocol == ring::Protocol::bulk && beside.fabric().cma()};
  const std::size_t bytes = (choices.Next<std::uint16_t>() % kMostBytes) / SizeOf(type) * SizeOf(type);
  const auto extents = schedule::UniformExtents(request.collective, 2, schedule->blocks, bytes);
  const Plan plan(*schedule, extents, config, type, tuttiSum, beside.fabric(), 0);
  Run run(plan, beside.fabric(), nullptr, window);

  // Long enough for a tensor of this size in which every other run of elements belongs to another tensor.
  std::vector<std::byte> in(4 * bytes + 16), out(4 * bytes + 16);
  const std::size_t elements = 2 * bytes / SizeOf(type), run_elements = 4;
  const std::array<schedule::StridedDim, 2> dims = {
      {{elements / run_elements + 1, 2 * run_elements}, {run_elements, 1}}};
  const schedule::Strided strided(dims, SizeOf(type));
  std::vector<std::byte> wide(2 * (2 * bytes + 2 * run_elements * SizeOf(type)));
  const bool strided_output = choices.Below(4) == 0;
  run.Start([&](Launch& launch) {
    launch.input = in.data();
    launch.output = strided_output ? wide.data() : out.data();
    if (strided_output) launch.output_strided = &strided;
    launch.tag = kTag;
    launch.scaled = schedule::IsReducing(request.collective) && choices.Below(4) == 0;
    launch.stream_output = choices.Below(2) == 0;
  });
  for (int i = 0; i < kMostWrites && !choices.empty(); ++i) {
    Write(choices, beside, kChannels, config, window.memory().size());
    const auto progress = run.Advance(0, 1);
    if (progress == Run::Progress::faulted) {
      const auto& fault = run.fault(0, 1);
      Require(fault.kind != Fault::Kind::none && fault.peer == RankBesideStranger::kStranger);
      break;
    }
    if (progress == Run::Progress::done) break;
    run.WaitsFor(0, 1);
  }
  // The next run finds empty rings.
  for (int channel = 0; channel < kChannels; ++channel) {
    for (const bool post : {false, true}) {
      beside.Emptied(channel, protocol, post) = Filled(beside.fabric(), channel, protocol, post);
    }
  }
}

}  // namespace
}  // namespace tutti::host

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tutti::host::Fuzz(std::as_bytes(std::span(data, size)));
  return 0;
}
