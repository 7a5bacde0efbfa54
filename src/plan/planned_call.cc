#include "src/plan/planned_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "algorithms/builders/records.h"
#include "base/numbers/datatype.h"
#include "transports/ring/slot.h"

namespace tutti::plan {

Choice ChooseFrom(const tuner::SelectionTable& table, std::string_view origin, const cost_model::TuningContext& tuning,
                  const cost_model::Kind& kind, std::size_t bytes) {
  const tuner::TableEntry& entry = table.At(kind, bytes);
  const auto forced = tuning.forced.algorithm[static_cast<std::size_t>(kind.collective)];
  std::string reason = fmt::format("predicted {:.1f} us at {} B", entry.us, std::max<std::size_t>(1, entry.from_bytes));
  if (!origin.empty()) reason = fmt::format("from {}", origin);
  if (forced) {
    const auto why_not = cost_model::WhyImpossible(*forced, kind, tuning);
    reason = why_not.empty() ? "forced" : fmt::format("{} is forced, but {}", builders::NameOf(*forced), why_not);
  }
  return {entry.candidate, std::move(reason)};
}

std::string PlannedCall::Describe(std::uint64_t call, std::uint64_t count) const {
  return fmt::format("{}: {}, {} channels, chunk {} B, {} ({})", DescribeCall(call, count),
                     builders::NameOf(choice.candidate.algorithm), schedule.channels.size(), config.chunk_bytes,
                     schedule::DescribeSlots(config), choice.reason);
}

std::uint64_t SignatureOf(const Operation& asked, const PlannedCall& planned, bool tuned) {
  std::uint64_t hash = SignatureOf(asked);
  if (!tuned || asked.point_to_point()) return hash;
  const auto& candidate = planned.choice.candidate;
  for (const std::uint64_t each :
       {static_cast<std::uint64_t>(candidate.algorithm), static_cast<std::uint64_t>(planned.schedule.channels.size()),
        static_cast<std::uint64_t>(planned.config.protocol), static_cast<std::uint64_t>(planned.config.chunk_bytes)}) {
    hash = ring::Mix(hash ^ ring::Mix(each + 1));
  }
  return hash;
}

PlannedCall PlanCall(const Operation& asked, const CallPlanner& planner) {
  const Operation operation = Scheduled(asked);
  const int nranks = planner.tuning().nranks;
  PlannedCall planned;
  if (operation.point_to_point()) {
    const bool sends = operation.collective == schedule::Collective::send;
    const int from = sends ? planner.rank() : operation.root, to = sends ? operation.root : planner.rank();
    const auto message = planner.PlanMessage(from, to, operation.count * SizeOf(operation.type));
    planned.choice = {{}, "point to point"};
    planned.schedule = MessageSchedule(operation, planner.rank(), nranks, message.channels);
    planned.config = message.config;
    planned.first_channel = message.first_channel;
  } else {
    const std::size_t bytes = LargestBlockBytes(operation);
    auto [choice, schedule] = planner.PlanCollective(asked, operation, KindOf(operation), bytes);
    planned.config = cost_model::Fitting(choice.candidate.config, cost_model::BlockBytes(schedule.pieces(), bytes),
                                         static_cast<int>(schedule.channels.size()));
    planned.choice = std::move(choice);
    planned.schedule = std::move(schedule);
  }
  planned.extents = ExtentsOf(operation, nranks, planned.schedule.blocks);
  return planned;
}

}  // namespace tutti::plan
