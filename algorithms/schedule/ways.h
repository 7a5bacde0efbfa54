// The pairs of ranks between which a step's slots pass, for readers of schedules that follow slots from end to end.
//
// Thread-safety: pure functions.
#pragma once

#include <algorithm>
#include <vector>

#include "algorithms/schedule/protocol_config.h"
#include "algorithms/schedule/schedule.h"

namespace tutti::schedule {

// Way::number of slots that have no numbered connection.
inline constexpr int kPosts = -1;
inline constexpr int kContributions = -2;
inline constexpr int kMulticasts = -3;

struct Way {
  int writer;
  int reader;
  int number;  // the connection, or one of the above
  friend auto operator<=>(const Way&, const Way&) = default;
};

// Calls what(way) for each slot that a step empties to read the operand: a sum empties one of each rank of the team.
template <typename What>
void EachWayRead(const Schedule& schedule, const Operand& read, const What& what) {
  switch (read.kind) {
    case OperandKind::from: return what(Way{read.peer, schedule.rank, read.connection});
    case OperandKind::post: return what(Way{read.peer, schedule.rank, kPosts});
    case OperandKind::multicast: return what(Way{read.peer, schedule.rank, kMulticasts});
    case OperandKind::sum:
      for (const int q : schedule.team) what(Way{q, schedule.rank, kContributions});
      return;
    default: return;
  }
}

// Calls what(way) for each reader of the slot that a step fills to write the operand.
template <typename What>
void EachWayWritten(const Schedule& schedule, const Operand& write, const What& what) {
  switch (write.kind) {
    case OperandKind::to: return what(Way{schedule.rank, write.peer, write.connection});
    case OperandKind::contribution: return what(Way{schedule.rank, write.peer, kContributions});
    case OperandKind::post:
      for (int q = 0; q < schedule.nranks; ++q) {
        if (q != schedule.rank) what(Way{schedule.rank, q, kPosts});
      }
      return;
    case OperandKind::multicast:
      for (const int q : schedule.team) {
        if (q != schedule.rank) what(Way{schedule.rank, q, kMulticasts});
      }
      return;
    default: return;
  }
}

// Whether both steps fill a slot for one rank, the same.
inline bool FillForSameRank(const Step& first, const Step& second) {
  constexpr int kNone = -1;
  const auto reader_of = [](const Step& step) {
    int reader = kNone;
    int slots = 0;
    for (const auto& write : step.writes) {
      if (!IsSlot(write.kind)) continue;
      ++slots;
      if (write.kind == OperandKind::to) reader = write.peer;
    }
    return slots == 1 ? reader : kNone;
  };
  const int reader = reader_of(first);
  return reader != kNone && reader == reader_of(second);
}

// By step of a lane: whether it fills a slot for the rank for which the step before it filled one, and may thus ride in the
// same message between hosts. Only so many in a row, because the lane must then wait for free slots.
inline constexpr int kMostTogether = SlotDepth(ring::Protocol::bulk);  // the fewest
inline std::vector<bool> RidingSteps(const std::vector<Step>& steps) {
  std::vector<bool> riding(steps.size());
  int together = 1;
  for (std::size_t s = 1; s < steps.size(); ++s) {
    riding[s] = together < kMostTogether && FillForSameRank(steps[s - 1], steps[s]);
    together = riding[s] ? together + 1 : 1;
  }
  return riding;
}

// Whether the operand is one of a switch between GPUs.
constexpr bool IsOfTeam(OperandKind kind) {
  return kind == OperandKind::contribution || kind == OperandKind::sum || kind == OperandKind::multicast;
}
inline bool UsesTeam(const Step& step) {
  const auto of_domain = [](const Operand& operand) { return IsOfTeam(operand.kind); };
  return std::any_of(step.reads.begin(), step.reads.end(), of_domain) ||
         std::any_of(step.writes.begin(), step.writes.end(), of_domain);
}

}  // namespace tutti::schedule
