// What the user forces: TUTTI_ALGO and TUTTI_PROTO.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "base/plain_text.h"
#include "base/settings/nearest_name.h"
#include "base/usage_error.h"
#include "selection/cost_model/candidates.h"

namespace tutti::cost_model {

tuttiAlgorithm_t ParseAlgorithm(std::string_view word) {
  if (const auto algorithm = builders::AlgorithmFromName(word)) return *algorithm;
  std::vector<std::string_view> names;
  for (const auto algorithm : builders::kAllAlgorithms) names.push_back(builders::NameOf(algorithm));
  throw UsageError(UnknownName("algorithm", word, names));
}

namespace {

std::string NamesOf(schedule::Collective collective, int nranks) {
  std::vector<std::string_view> names;
  for (const auto algorithm : builders::kAllAlgorithms) {
    if (builders::Supports(algorithm, collective, nranks)) names.push_back(builders::NameOf(algorithm));
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

// What TUTTI_ALGO says of a collective's algorithms.
struct Restriction {
  std::optional<tuttiAlgorithm_t> algorithm;  // this one
  AlgorithmSet allowed = kAnyAlgorithm;
};

// "ring", "ring+direct", "^ring+direct".
Restriction ParseRestriction(std::string_view text) {
  const bool without = text.starts_with('^');
  if (!without && text.find('+') == text.npos) return {ParseAlgorithm(text)};
  if (without) text.remove_prefix(1);
  AlgorithmSet named = 0;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('+', begin), text.size());
    named |= SetOf(ParseAlgorithm(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return {std::nullopt, without ? ~named : named};
}

}  // namespace

void ParseForcedAlgorithms(const std::string& text, int nranks, Forced& forced) {
  std::array<std::optional<Restriction>, schedule::kScheduledCollectives> general, pairs;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view word(text.data() + begin, end - begin);
    begin = end + 1;
    const auto colon = word.find(':');
    const auto restriction = ParseRestriction(colon == word.npos ? word : word.substr(colon + 1));
    if (colon == word.npos) {
      general.fill(restriction);
      continue;
    }
    const auto collective = ParseCollective(word.substr(0, colon));
    if (restriction.algorithm && !builders::Supports(*restriction.algorithm, collective, nranks)) {
      Throw(tuttiInvalidArgument, "TUTTI_ALGO={}: {} does not support {} on {} ranks; available are {}", Quoted(text),
            builders::NameOf(*restriction.algorithm), schedule::NameOf(collective), nranks,
            NamesOf(collective, nranks));
    }
    pairs[static_cast<std::size_t>(collective)] = restriction;
  }
  for (std::size_t c = 0; c < schedule::kScheduledCollectives; ++c) {
    const auto& restriction = pairs[c] ? pairs[c] : general[c];
    if (restriction) {
      forced.algorithm[c] = restriction->algorithm;
      forced.allowed[c] = restriction->allowed;
    }
    forced.by_name[c] = pairs[c] && pairs[c]->algorithm;
  }
}

void ParseForcedProtocol(const std::string& text, Forced& forced) {
  const bool without = text.starts_with('^');
  (without ? forced.without : forced.protocol) = ring::ProtocolFromName(std::string_view(text).substr(without ? 1 : 0));
}

}  // namespace tutti::cost_model
