#include "algorithms/msccl/lanes.h"

#include <algorithm>
#include <utility>

namespace tutti::msccl {
namespace {

// Limit on steps that only wait for steps that only wait: real programs have one or two in a row.
constexpr int kMaxWaitsInARow = 256;
// Waits of one GPU, including those through steps that only wait: one for each step that a thread block may have.
constexpr long kMaxWaits = kMaxProgramLaneSteps;

}  // namespace

ProgramLanes::ProgramLanes(const ProgramRank& rank) : rank_(rank) {
  for (const ThreadBlock& block : rank.thread_blocks) {
    std::vector<int>& first = first_.emplace_back();
    int place = 0;
    for (const Instruction& step : block.steps) {
      first.push_back(place);
      place += step.is_nop() ? 0 : step.count;
    }
  }
}

std::vector<schedule::After> ProgramLanes::Awaited(int block, int step) {
  std::vector<schedule::After> after;
  for (const auto& [lane, place] : Before(block, step, 0)) {
    if (lane != block) after.push_back({static_cast<std::int16_t>(lane), static_cast<std::int16_t>(place)});
  }
  return after;
}

// The steps that must be done before this one begins, as far as its lane does not imply it.
ProgramLanes::Steps ProgramLanes::Before(int block, int step, int depth) {
  Steps steps;
  const auto& instructions = rank_.thread_blocks[block].steps;
  const Instruction& instruction = instructions[step];
  if (depth > kMaxWaitsInARow) {
    instruction.element.Refuse("more than {} nop steps wait for one another in a row or in a cycle", kMaxWaitsInARow);
  }
  if (instruction.awaited_block != -1 && instruction.awaited_step != -1) {
    Add(steps, Done(instruction.awaited_block, instruction.awaited_step, depth), instruction);
  }
  // A wait in the step before holds for this step too.
  if (step > 0 && instructions[step - 1].is_nop()) Add(steps, Before(block, step - 1, depth + 1), instruction);
  return steps;
}

// The steps that are done once this step is.
const ProgramLanes::Steps& ProgramLanes::Done(int block, int step, int depth) {
  if (const auto known = done_.find({block, step}); known != done_.end()) return known->second;
  Steps steps;
  const Instruction& instruction = rank_.thread_blocks[block].steps[step];
  const int end = first_[block][step] + (instruction.is_nop() ? 0 : instruction.count);
  if (end > 0) steps[block] = end - 1;
  if (instruction.is_nop()) Add(steps, Before(block, step, depth + 1), instruction);
  return done_.emplace(std::pair(block, step), std::move(steps)).first->second;
}

void ProgramLanes::Add(Steps& steps, const Steps& more, const Instruction& instruction) {
  waits_ += std::ssize(more);
  if (waits_ > kMaxWaits) {
    instruction.element.Refuse(
        "more than {} waits on a GPU (the waits of a nop step count for each step that depends on it)", kMaxWaits);
  }
  for (const auto& [lane, place] : more) {
    const auto entry = steps.try_emplace(lane, place).first;
    entry->second = std::max(entry->second, place);
  }
}

}  // namespace tutti::msccl
