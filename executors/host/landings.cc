// Slots from other hosts that land where a step would copy them, so that nothing copies them: which steps of a plan allow
// it, and what a run tells the network.
#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "executors/host/run.h"
#include "transports/progress/network.h"

namespace tutti::host {
namespace {

using schedule::OperandKind;

// A shorter chunk is copied sooner than the network is told of it.
constexpr std::size_t kWorthLanding = 16 * 1024;
// How many steps of a lane a run looks at to find the slots that come next.
constexpr int kStepsAhead = 32;

// Where the step copies its only slot, if that comes from another host.
const BoundOperand* LandingOf(const BoundStep& step, int divisor) {
  if (step.reads.size() != 1 || !step.reads.front().is_slot || !step.reads.front().by_network) return nullptr;
  if (step.final && divisor > 1) return nullptr;
  const auto memory = std::ranges::find(step.writes, false, &BoundOperand::is_slot);
  return memory == step.writes.end() ? nullptr : &*memory;
}

bool Reads(const BoundStep& step, const ring::EmptyEnd* end) {
  return std::ranges::any_of(step.reads, [end](const BoundOperand& read) { return read.empty == end; });
}

}  // namespace

void Plan::FindLandings(BoundChannel& channel) const {
  if (config_.protocol != ring::Protocol::bulk || network_peers_.empty()) return;
  struct Use {
    std::size_t begin, end;
    BoundStep* step;
  };
  std::vector<Use> uses;  // of the output
  for (auto& lane : channel.lanes) {
    for (auto& step : lane.steps) {
      step.lands = LandingOf(step, divisor_);
      step.lands_early = step.lands != nullptr && step.lands->kind == OperandKind::output;
      for (const auto& operands : {step.reads, step.writes}) {
        for (const auto& operand : operands) {
          if (operand.kind == OperandKind::output) uses.push_back({operand.offset, operand.offset + step.bytes, &step});
        }
      }
    }
  }
  std::ranges::sort(uses, {}, &Use::begin);
  std::size_t used = 0;  // the end of what the uses before reach
  for (std::size_t i = 0; i < uses.size(); ++i) {
    const auto& use = uses[i];
    const bool alone = used <= use.begin && (i + 1 == uses.size() || use.end <= uses[i + 1].begin);
    use.step->lands_early = use.step->lands_early && alone;
    used = std::max(used, use.end);
  }
}

// `early`: before the steps ahead of it are done.
bool Run::MayLand(const BoundStep& step, std::size_t bytes, bool early) const {
  if (step.lands == nullptr || bytes < kWorthLanding) return false;
  if (StridedOf(*step.lands) != nullptr || (launch_.scaled && step.reads.front().scaled)) return false;
  if (!early) return true;
  if (!step.lands_early || launch_.input_strided != nullptr) return false;
  // In place, the output may be input that an earlier step has yet to read.
  const auto& reads = plan_.reads_input();
  const auto address = [](const std::byte* base, std::size_t offset) {
    return reinterpret_cast<std::uintptr_t>(base) + offset;
  };
  return reads.begin >= reads.end ||
         address(launch_.output, step.lands->offset + step.bytes) <= address(launch_.input, reads.begin) ||
         address(launch_.input, reads.end) <= address(launch_.output, step.lands->offset);
}

// Tells the network where the slot of the lane's next step belongs, and those of steps after it from the same ring. Also where
// that slot has come: a rank that is always behind would otherwise find all of them in the ring.
void Run::ExpectSlots(ChannelState& state, LaneState& lane, const BoundLane& bound) {
  const auto& next = bound.steps[lane.step].reads.front();
  const auto* const end = next.empty;
  const std::size_t chunk_bytes = plan_.config().chunk_bytes;
  std::uint32_t chunk = lane.chunk, ahead = 0;
  std::size_t at = lane.step;
  std::array<progress::NetworkEngine::Expected, progress::kRunAhead> slots;
  std::size_t count = 0;
  for (int looked = 0; looked < kStepsAhead && ahead < progress::kRunAhead; ++looked) {
    const auto& step = bound.steps[at];
    if (chunk < step.length && Reads(step, end)) {
      const auto bytes = ring::ChunkLength(step.bytes, chunk, chunk_bytes);
      if (MayLand(step, bytes, looked > 0)) {
        const progress::SlotMessage slot{next.connection, end->count() + ahead + 1, launch_.tag,
                                         static_cast<std::uint32_t>(bytes)};
        slots[count++] = {slot, Memory(state, *step.lands, ring::ChunkBegin(chunk, chunk_bytes))};
      }
      ++ahead;
    }
    if (++at < bound.steps.size()) continue;
    at = 0;
    if (++chunk == bound.chunks) break;
  }
  if (count > 0 && !network_->Expect(next.peer, std::span(slots).first(count))) return;
  state.expects = state.expects || count > 0;
  lane.expects = true;
}

}  // namespace tutti::host
