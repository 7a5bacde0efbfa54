// From a call to its schedule: the part of planning that is the same for processors and GPUs.
//
// Thread-safety: pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "algorithms/schedule/extents.h"
#include "algorithms/schedule/protocol_config.h"
#include "selection/tuner/selection_table.h"
#include "src/plan/planning.h"

namespace tutti::plan {

// Plans kept before all are forgotten. A job uses a few dozen calls. One that never repeats itself (random all-to-all-v
// counts) must not grow a cache forever.
inline constexpr std::size_t kMaxPlans = 512;

struct Choice {
  cost_model::Candidate candidate;
  std::string reason;  // for a person
};

// The table's candidate, and why: predicted, forced, or `origin` ("from a file"), if that is not empty.
Choice ChooseFrom(const tuner::SelectionTable& table, std::string_view origin, const cost_model::TuningContext& tuning,
                  const cost_model::Kind& kind, std::size_t bytes);

// A call's plan before it is bound to connections.
struct PlannedCall {
  Choice choice;
  schedule::Schedule schedule;
  schedule::ProtocolConfig config;
  schedule::Extents extents;
  int first_channel = 0;

  // "all_reduce(count=8, ...): ring, 2 channels, chunk 64 B, bulk (predicted ...)".
  std::string Describe(std::uint64_t call, std::uint64_t count) const;
};

// SignatureOf(asked). `tuned`: together with the plan, where each rank asked a tuner of its own, or counts calls by itself.
std::uint64_t SignatureOf(const Operation& asked, const PlannedCall& planned, bool tuned);

// The differences between processors and GPUs. `operation` is the call as Scheduled() returns it.
class CallPlanner {
 public:
  virtual ~CallPlanner() = default;
  virtual int rank() const = 0;
  virtual const cost_model::TuningContext& tuning() const = 0;
  // A message: its channels, the first of them, and how its slots carry it. Both ranks plan alike.
  struct MessagePlan {
    int channels;
    int first_channel;
    schedule::ProtocolConfig config;
  };
  virtual MessagePlan PlanMessage(int from, int to, std::size_t bytes) const = 0;
  // A collective's choice and this rank's schedule.
  struct CollectivePlan {
    Choice choice;
    schedule::Schedule schedule;
  };
  virtual CollectivePlan PlanCollective(const Operation& asked, const Operation& operation,
                                        const cost_model::Kind& kind, std::size_t bytes) const = 0;
};

// Throws what the planner throws.
PlannedCall PlanCall(const Operation& asked, const CallPlanner& planner);

}  // namespace tutti::plan
