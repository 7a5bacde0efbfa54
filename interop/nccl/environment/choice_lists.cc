#include "interop/nccl/environment/choice_lists.h"

#include <fmt/ranges.h>
#include <strings.h>

#include <algorithm>
#include <optional>
#include <span>
#include <vector>

#include "interop/nccl/failure.h"

namespace tutti::nccl {
namespace {

// As NCCL spells them in NCCL_ALGO and NCCL_PROTO.
constexpr std::string_view kAlgorithmWords[] = {"Tree",     "Ring", "CollnetDirect", "CollnetChain", "NVLS",
                                                "NVLSTree", "PAT"};
constexpr std::string_view kProtocolWords[] = {"LL", "LL128", "Simple"};

// Which of Tutti's algorithms are like one of NCCL's.
struct Alike {
  Algorithm theirs;
  tuttiAlgorithm_t ours;
};
constexpr Alike kAlike[] = {{kTree, tuttiAlgorithmDoubleBinaryTree},
                            {kTree, tuttiAlgorithmTwoLevelTree},
                            {kRing, tuttiAlgorithmRing},
                            {kNvls, tuttiAlgorithmNvls},
                            {kNvlsTree, tuttiAlgorithmNvls},
                            {kPat, tuttiAlgorithmRecursive},
                            {kPat, tuttiAlgorithmRecursiveDoubling},
                            {kPat, tuttiAlgorithmBruck}};

// A variable's words for one function.
struct List {
  bool without = false;
  std::vector<bool> named;  // by number

  bool allows(std::size_t which) const { return named[which] != without; }
  friend bool operator==(const List&, const List&) = default;
};
using Lists = std::array<std::optional<List>, kFunctions>;

bool SameWord(std::string_view a, std::string_view b) {
  return a.size() == b.size() && strncasecmp(a.data(), b.data(), a.size()) == 0;
}

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const auto end = text.find(separator);
    if (end != 0 && !text.empty()) parts.push_back(text.substr(0, end));
    if (end == text.npos) return parts;
    text.remove_prefix(end + 1);
  }
}

// Throws Refusal if no word is `word`.
std::size_t NumberOf(std::string_view word, std::span<const std::string_view> words, std::string_view variable,
                     std::string_view what) {
  const auto found = std::find_if(words.begin(), words.end(), [&](auto each) { return SameWord(each, word); });
  if (found == words.end()) {
    Refuse(ncclInvalidUsage, "{} has the unknown {} \"{}\"; it takes {}", variable, what, word, fmt::join(words, ", "));
  }
  return static_cast<std::size_t>(found - words.begin());
}

List ReadList(std::string_view text, std::span<const std::string_view> words, std::string_view variable) {
  List list{text.starts_with('^'), std::vector<bool>(words.size())};
  if (list.without) text.remove_prefix(1);
  for (const auto word : Split(text, ',')) {
    list.named[NumberOf(word, words, variable, variable == "NCCL_ALGO" ? "algorithm" : "protocol")] = true;
  }
  return list;
}

Lists Read(std::string_view text, std::span<const std::string_view> words, std::string_view variable) {
  Lists lists;
  bool first = true;
  for (const auto part : Split(text, ';')) {
    const auto colon = part.find(':');
    if (colon == part.npos) {
      if (!first) Refuse(ncclInvalidUsage, "{}: only the first list may lack a function: \"{}\"", variable, text);
      lists.fill(ReadList(part, words, variable));
    } else {
      lists[NumberOf(part.substr(0, colon), kFunctionNames, variable, "function")] =
          ReadList(part.substr(colon + 1), words, variable);
    }
    first = false;
  }
  return lists;
}

// "ring+double_binary_tree", "^ring", or "" if nothing is restricted.
std::string TuttiList(const List& list, std::string_view text) {
  std::vector<std::string_view> names;
  for (int i = tuttiAlgorithmNone + 1; i < tuttiNumAlgorithms; ++i) {
    const auto ours = static_cast<tuttiAlgorithm_t>(i);
    bool allowed = false, known = false;
    for (const auto& alike : kAlike) {
      if (alike.ours != ours) continue;
      known = true;
      allowed = allowed || list.allows(alike.theirs);
    }
    if (known && allowed != list.without) names.push_back(tuttiAlgorithmName(ours));
  }
  if (names.empty() && list.without) return "";
  if (names.empty()) {
    Refuse(ncclInvalidUsage, "NCCL_ALGO=\"{}\" allows only algorithms that Tutti lacks; it takes {}", text,
           fmt::join(kAlgorithmWords, ", "));
  }
  return fmt::format("{}{}", list.without ? "^" : "", fmt::join(names, "+"));
}

}  // namespace

int AlgorithmOf(tuttiAlgorithm_t algorithm) {
  const auto found = std::ranges::find(kAlike, algorithm, &Alike::ours);
  return found == std::end(kAlike) ? -1 : found->theirs;
}

int FunctionOf(std::string_view collective) {
  const auto found = std::ranges::find(kTuttiFunctions, collective);
  return found == kTuttiFunctions.end() ? -1 : static_cast<int>(found - kTuttiFunctions.begin());
}

int ProtocolOf(std::string_view protocol) {
  const auto found = std::ranges::find(kTuttiProtocols, protocol);
  return found == kTuttiProtocols.end() ? -1 : static_cast<int>(found - kTuttiProtocols.begin());
}

std::string TuttiAlgorithms(std::string_view text) {
  const Lists lists = Read(text, kAlgorithmWords, "NCCL_ALGO");
  std::vector<std::string> words;
  for (std::size_t f = 0; f < lists.size(); ++f) {
    if (!lists[f]) continue;
    if (const auto list = TuttiList(*lists[f], text); !list.empty()) {
      // A list of one would be an order, which fails where it cannot be followed.
      const bool single = list.find_first_of("^+") == list.npos;
      words.push_back(fmt::format("{}:{}{}", kTuttiFunctions[f], list, single ? "+" + list : ""));
    }
  }
  return fmt::format("{}", fmt::join(words, ","));
}

std::string TuttiProtocol(std::string_view text) {
  const Lists lists = Read(text, kProtocolWords, "NCCL_PROTO");
  if (!std::ranges::all_of(lists, [&](const auto& list) { return list == lists.front(); })) {
    Refuse(ncclInvalidUsage, "NCCL_PROTO=\"{}\": Tutti has one choice of protocols for all functions", text);
  }
  if (!lists.front()) return "";
  std::vector<std::string_view> allowed, others;
  for (std::size_t p = 0; p < kProtocols; ++p) {
    (lists.front()->allows(p) ? allowed : others).push_back(kTuttiProtocols[p]);
  }
  if (allowed.empty()) Refuse(ncclInvalidUsage, "NCCL_PROTO=\"{}\" leaves no protocol", text);
  if (allowed.size() == 1) return std::string(allowed.front());
  return others.empty() ? "" : fmt::format("^{}", others.front());
}

}  // namespace tutti::nccl
