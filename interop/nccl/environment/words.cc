#include "interop/nccl/environment/words.h"

#include <algorithm>
#include <cctype>

namespace tutti::nccl {
namespace {

// Of functions.tsv, in its order, which is that of names; and the constants that messages name.
constexpr std::string_view kFunctions[] = {
#include "function_names.inc"
};
constexpr std::string_view kConstants[] = {"ncclScalarDevice", "ncclScalarHostImmediate"};

constexpr std::string_view kOurs = "tutti", kTheirs = "nccl", kSetting = "TUTTI_";

bool IsOfAName(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

std::string Translated(std::string_view name, const Environment& environment) {
  if (name.starts_with(kSetting)) {
    const auto found = environment.settings().find(name);
    return std::string(found == environment.settings().end() ? name : found->second.source);
  }
  if (!name.starts_with(kOurs)) return std::string(name);
  const auto theirs = std::string(kTheirs).append(name.substr(kOurs.size()));
  const bool known = std::ranges::find(kFunctions, theirs) != std::end(kFunctions) ||
                     std::ranges::find(kConstants, theirs) != std::end(kConstants);
  return known ? theirs : std::string(name);
}

}  // namespace

std::string InNcclsWords(std::string_view text, const Environment& environment) {
  std::string translated;
  while (!text.empty()) {
    const auto name = static_cast<std::size_t>(std::ranges::find_if_not(text, IsOfAName) - text.begin());
    const auto theirs = Translated(text.substr(0, name), environment);
    // Tutti says which variable gave a setting; where both have one name, once is enough.
    if (const auto source = theirs + " stands for "; !theirs.empty() && translated.ends_with(source)) {
      translated.resize(translated.size() - source.size());
    }
    translated += theirs;
    text.remove_prefix(name);
    const auto between = static_cast<std::size_t>(std::ranges::find_if(text, IsOfAName) - text.begin());
    translated += text.substr(0, between);
    text.remove_prefix(between);
  }
  return translated;
}

}  // namespace tutti::nccl
