#include "selection/tuner/explain.h"

#include <fmt/format.h>

namespace tutti::tuner {

std::string ToString(const cost_model::Candidate& candidate) {
  return fmt::format("{}, {} channel{}, chunk {} B, {}", schedule::NameOf(candidate.algorithm), candidate.channels,
                     candidate.channels == 1 ? "" : "s", candidate.config.chunk_bytes,
                     ring::NameOf(candidate.config.protocol));
}

std::string Explain(Tuner& tuner, const cost_model::Kind& kind, std::size_t bytes,
                    const cost_model::Candidate& chosen) {
  const auto all = tuner.Compare(kind, bytes);
  const double least = all.front().us;
  const double chosen_us = tuner.Microseconds(chosen, kind, bytes);
  std::string text = fmt::format("  {:>12.1f} us  {}: chosen{}\n", chosen_us, ToString(chosen),
                                 chosen_us > least ? fmt::format(", {:.2f} x the least", chosen_us / least) : "");
  for (const auto& each : all) {
    if (!each.why_not.empty()) {
      text += fmt::format("  {:>12}     {}: {}\n", "-", schedule::NameOf(each.algorithm), each.why_not);
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
