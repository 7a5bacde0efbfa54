// The messages of a symbolic run that fails.
#include <fmt/format.h>

#include "algorithms/verifier/symbolic_run.h"
#include "algorithms/verifier/verify_rules.h"

namespace tutti::verifier {

std::string SymbolicRun::WhyStuck() {
  constexpr int kNamed = 4;  // enough to see the circle, few enough to read
  std::string message = "deadlock";
  int waiting = 0;
  for (const auto& actor : actors_) {
    if (actor.chunk >= chunks_ || ++waiting > kNamed) continue;
    const Step& step = (*actor.steps)[actor.step];
    message += fmt::format("{} {}: {} {}", waiting == 1 ? ":" : ";", Where(EventOf(actor)), ToString(step),
                           Spell(ObstacleOf(actor, step), actor));
  }
  if (waiting == 0) return "an operation cannot end: slots that refer to its memory are never emptied";
  return waiting <= kNamed ? message : message + fmt::format("; {} more lanes wait", waiting - kNamed);
}

std::string SymbolicRun::Spell(const Obstacle& obstacle, const Actor& actor) {
  if (obstacle.after != nullptr) {
    return fmt::format("waits for lane {}, step {}", obstacle.after->lane, obstacle.after->step);
  }
  const Operand& operand = *obstacle.operand;
  if (operand.kind == OperandKind::sum) return "waits for all ranks of its team to contribute";
  const bool to_one = operand.kind == OperandKind::to || operand.kind == OperandKind::contribution;
  const bool filling = to_one || operand.peer == actor.rank;
  if (!filling) return fmt::format("waits for rank {} to fill a slot", operand.peer);
  const auto slots = TargetOf(operand, actor.rank).depth;
  if (to_one) return fmt::format("waits for rank {} to empty one of {} slots", operand.peer, slots);
  return fmt::format("waits for the other ranks to empty one of {} slots for all of them", slots);
}

void SymbolicRun::CheckNothingLeft() {
  for (auto* connections : {&pairwise_, &posts_, &contributions_, &multicasts_}) {
    for (auto& connection : *connections) {
      for (const auto& slot : connection.slots) {
        if (slot.unread > 0) Fail(slot.filled, fmt::format("{} readers never empty the slot it fills", slot.unread));
      }
    }
  }
}

std::string SymbolicRun::Where(const Event& event) const {
  if (event.actor == -1) return "no step";
  const Actor& actor = actors_[event.actor];
  if (event.step == -1) return fmt::format("the caller on rank {} before operation {}", actor.rank, event.operation);
  return fmt::format("{}, operation {}",
                     verifier::Spell(ranks_[actor.rank], {channel_, actor.lane, event.step, event.chunk}),
                     event.operation);
}

void SymbolicRun::Fail(const Event& event, const std::string& what) const {
  std::string step;
  if (event.actor != -1 && event.step != -1) step = ToString((*actors_[event.actor].steps)[event.step]) + ": ";
  throw Violation(fmt::format("{}: {}{}", Where(event), step, what));
}

}  // namespace tutti::verifier
