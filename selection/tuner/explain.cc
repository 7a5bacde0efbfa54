#include "selection/tuner/explain.h"

#include <fmt/format.h>

#include "algorithms/builders/records.h"

namespace tutti::tuner {

std::string ToString(const cost_model::Candidate& candidate) {
  return fmt::format("{}, {} channel{}, chunk {} B, {}", builders::NameOf(candidate.algorithm), candidate.channels,
                     candidate.channels == 1 ? "" : "s", candidate.config.chunk_bytes,
                     schedule::DescribeSlots(candidate.config));
}

std::string Explain(Tuner& tuner, const cost_model::Kind& kind, std::size_t bytes,
                    const cost_model::Candidate& chosen) {
  const auto all = tuner.Compare(kind, bytes);
  const double least = all.front().us;
  const double chosen_us = tuner.Microseconds(chosen, kind, bytes);
  std::string text = fmt::format("  {:>12.1f} us  {}: chosen{}\n", chosen_us, ToString(chosen),
                                 chosen_us > least ? fmt::format(", {:.2f} x the least", chosen_us / least) : "");
  if (chosen.config.protocol == ring::Protocol::bulk && tuner.tuning().cma) {
    cost_model::Candidate other = chosen;
    other.config.cma = !chosen.config.cma;
    const double us = tuner.Microseconds(other, kind, bytes);
    text +=
        fmt::format("  {:>12.1f} us  the same, but {}: {:.2f} x as long{}\n", us,
                    other.config.cma ? "ranks fetch blocks from each other's memory (process_vm_readv)"
                                     : "blocks are copied into slots and out of them",
                    us / chosen_us, us < chosen_us ? ", too little: what fetches cost is the least sure price" : "");
  }
  for (const auto& each : all) {
    if (!each.why_not.empty()) {
      text += fmt::format("  {:>12}     {}: {}\n", "-", builders::NameOf(each.algorithm), each.why_not);
    } else if (each.candidate != chosen) {
      const double times = each.us / chosen_us;
      const auto verdict = times >= 1.005  ? fmt::format("{:.2f} x as long", times)
                           : times > 0.995 ? std::string("as long")
                                           : fmt::format("would be {:.2f} x", times);
      text += fmt::format("  {:>12.1f} us  {}: {}\n", each.us, ToString(each.candidate), verdict);
    }
  }
  return text;
}

}  // namespace tutti::tuner
