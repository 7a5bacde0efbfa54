#include "tools/simulator/messages.h"

#include <fmt/format.h>

#include "base/usage_error.h"
#include "selection/simulator/simulate.h"
#include "src/plan/planning.h"

namespace tutti::tools {

Messages::Messages(const Target& target) : machine_(target.machine), tuning_(ConditionsOf(target)) {
  const auto& node_of = machine_.rank_layout().node_of;
  if (!target.gpus || node_of.size() < 2 || node_of[kFrom] != node_of[kTo]) {
    ThrowUsage("messages are explained between two GPUs of a host: give --topo, or --one-gpu with --ranks");
  }
  table_ = tuner::MessageTable(machine_, tuning_);
}

double Messages::Predicted(const tuner::MessageWay& way, std::size_t bytes) const {
  return tuner::MessageMicroseconds(machine_, kFrom, kTo, way, tuning_.messages.depth, bytes);
}

double Messages::Simulated(const tuner::MessageWay& way, std::size_t bytes) const {
  const auto source = [&](int rank) {
    plan::Operation operation;
    operation.collective = rank == kTo ? schedule::Collective::receive : schedule::Collective::send;
    operation.root = rank == kTo ? kFrom : kTo;
    auto schedule = plan::MessageSchedule(operation, rank, machine_.nranks(), way.channels);
    if (rank != kFrom && rank != kTo) {
      for (auto& channel : schedule.channels) channel.lanes.clear();
    }
    return schedule;
  };
  return simulator::Simulate(
             {machine_, source, schedule::MessageExtents(bytes), way.config, static_cast<int>(tuning_.messages.depth)})
      .duration_us;
}

std::string Messages::ToString(const tuner::MessageWay& way) {
  return fmt::format("{} channel{}, chunk {} B, {}", way.channels, way.channels == 1 ? "" : "s", way.config.chunk_bytes,
                     ring::NameOf(way.config.protocol));
}

std::string Messages::Explain() const {
  const auto line = [&](std::size_t bytes) {
    return fmt::format("  {:>12} B and more: {}\n", bytes, ToString(WayOf(bytes)));
  };
  std::string text = line(0);
  const std::size_t packets = tuning_.gpu_slots.lines ? tuning_.gpu_slots.line + 1 : 0;
  if (packets > 0) text += line(packets);
  for (const auto& entry : table_.Row(tuning_, kFrom, kTo)) {
    if (entry.from_bytes > packets) text += line(entry.from_bytes);
  }
  return text;
}

std::string Messages::Explain(std::size_t bytes) const {
  const auto chosen = WayOf(bytes);
  std::string text;
  for (int channels = 1; channels <= tuning_.messages.channels; channels *= 2) {
    tuner::MessageWay way = chosen;
    way.channels = channels;
    text +=
        fmt::format("  {:>10.1f} us  {}{}\n", Predicted(way, bytes), ToString(way), way == chosen ? "   chosen" : "");
  }
  return text + "Of ways within 15 %, the one with the fewest channels is taken.\n";
}

}  // namespace tutti::tools
