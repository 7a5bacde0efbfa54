// A message from one rank to another, as the tools show it: beside the collectives, which have tables of algorithms.
//
// Thread-safety: pure functions.
#pragma once

#include <cstddef>
#include <string>

#include "selection/tuner/message_table.h"
#include "tools/simulator/target.h"

namespace tutti::tools {

// What the tools call it.
inline constexpr char kMessage[] = "send";

// A machine of GPUs with its table of messages. Between ranks 0 and 1, which are on one host.
class Messages {
 public:
  static constexpr int kFrom = 0, kTo = 1;

  // Throws UsageError unless ranks are GPUs, at least two on a host. The target outlives this.
  explicit Messages(const Target& target);

  tuner::MessageWay WayOf(std::size_t bytes) const { return table_.At(tuning_, kFrom, kTo, bytes); }
  double Predicted(const tuner::MessageWay& way, std::size_t bytes) const;
  double Simulated(const tuner::MessageWay& way, std::size_t bytes) const;
  // "16 channels, chunk 15232 B, inline".
  static std::string ToString(const tuner::MessageWay& way);
  // From which size on a message takes what, a line each. Or, for one size, the predicted time by number of channels.
  std::string Explain() const;
  std::string Explain(std::size_t bytes) const;

 private:
  const cost_model::Machine& machine_;
  cost_model::TuningContext tuning_;
  tuner::MessageTable table_;
};

}  // namespace tutti::tools
