#include "algorithms/schedule/schedule.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace tutti::schedule {
namespace {

// "peer3." for another rank's buffer.
std::string Owner(const Operand& operand) { return operand.peer == -1 ? "" : fmt::format("peer{}.", operand.peer); }

std::string Spell(const Operand& operand, bool written) {
  switch (operand.kind) {
    case OperandKind::input:
      return fmt::format("{}{}in[{}]", operand.scaled ? "scaled " : "", Owner(operand), operand.block);
    case OperandKind::output: return fmt::format("{}out[{}]", Owner(operand), operand.block);
    case OperandKind::scratch: return fmt::format("scratch[{}]", operand.block);
    case OperandKind::from:
    case OperandKind::to: {
      const auto* const name = operand.kind == OperandKind::from ? "from" : "to";
      if (operand.connection == 0) return fmt::format("{}({})", name, operand.peer);
      return fmt::format("{}({}, {})", name, operand.peer, operand.connection);
    }
    case OperandKind::post: return written ? "post" : fmt::format("post({})", operand.peer);
    case OperandKind::contribution: return fmt::format("contribution({})", operand.peer);
    case OperandKind::sum: return "sum";
    case OperandKind::multicast: return written ? "multicast" : fmt::format("multicast({})", operand.peer);
  }
  return "?";
}

std::string Spell(const std::vector<Operand>& operands, bool written) {
  std::vector<std::string> words;
  words.reserve(operands.size());
  for (const auto& operand : operands) words.push_back(Spell(operand, written));
  return fmt::format("{{{}}}", fmt::join(words, ", "));
}

}  // namespace

std::string ToString(const Step& step) {
  std::string text = Spell(step.reads, false) + " -> " + Spell(step.writes, true);
  if (step.final) text += " final";
  for (const auto& after : step.after) text += fmt::format(" after({}, {})", after.lane, after.step);
  return text;
}

std::string ToString(const Schedule& schedule, std::string_view algorithm) {
  std::string text =
      fmt::format("{} by {}, rank {} of {}", NameOf(schedule.collective), algorithm, schedule.rank, schedule.nranks);
  if (HasRoot(schedule.collective)) text += fmt::format(", root {}", schedule.root);
  text += fmt::format(", {} block{}", schedule.blocks, schedule.blocks == 1 ? "" : "s");
  if (schedule.scratch_blocks > 0) text += fmt::format(", {} of scratch", schedule.scratch_blocks);
  if (!schedule.team.empty()) text += fmt::format(", team {}", fmt::join(schedule.team, " "));
  text += "\n";
  for (std::size_t c = 0; c < schedule.channels.size(); ++c) {
    text += fmt::format("channel {}\n", c);
    for (std::size_t l = 0; l < schedule.channels[c].lanes.size(); ++l) {
      text += fmt::format("  lane {}\n", l);
      const auto& steps = schedule.channels[c].lanes[l].steps;
      for (std::size_t s = 0; s < steps.size(); ++s) {
        text += fmt::format("    {}: block {}: {}\n", s, steps[s].block, ToString(steps[s]));
      }
    }
  }
  return text;
}

}  // namespace tutti::schedule
