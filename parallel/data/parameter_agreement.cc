#include "parallel/data/parameter_agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "tutti/parallel/error.h"

namespace tutti::parallel {
namespace {

// The text that ranks compare, and show where they differ.
using Description = std::array<char, 256>;
// A complaint in transit: room for two descriptions and the words about them.
struct Note {
  tuttiResult_t code = tuttiSuccess;
  std::array<char, 1020> text{};
};

template <typename Text>
Text Terminated(const std::string& text) {
  Text terminated{};
  std::ranges::copy_n(text.begin(), static_cast<std::ptrdiff_t>(std::min(text.size(), terminated.size() - 1)),
                      terminated.begin());
  return terminated;
}

// Every rank's `mine`, by rank.
template <typename T>
std::vector<T> Gather(ProcessGroup& group, T& mine) {
  std::vector<T> all(static_cast<std::size_t>(group.size()));
  group.all_gather(Tensor(&mine, {sizeof(T)}, tuttiUint8), Tensor(all.data(), {all.size(), sizeof(T)}, tuttiUint8));
  return all;
}

}  // namespace

std::string problem_of(const std::vector<Parameter>& parameters) {
  std::set<std::string> names;
  for (const auto& parameter : parameters) {
    if (parameter.data.count() == 0) {
      return fmt::format("parameter \"{}\" has no elements: its shape is {}", parameter.name,
                         describe(parameter.data.shape));
    }
    if (!names.insert(parameter.name).second) return fmt::format("two parameters have the name \"{}\"", parameter.name);
  }
  return {};
}

Complaint first_complaint(ProcessGroup& group, const Complaint& mine) {
  Note note{mine.code, Terminated<decltype(Note::text)>(mine.text)};
  const auto all = Gather(group, note);
  const auto first = std::ranges::find_if(all, [](const auto& each) { return each.text.front() != '\0'; });
  return first == all.end() ? Complaint{} : Complaint{first->code, first->text.data()};
}

std::string description_of(const Parameter& parameter) {
  return fmt::format("\"{}\" {} {}", parameter.name, name_of(parameter.data.dtype), describe(parameter.data.shape));
}

Complaint difference_of(ProcessGroup& group, const std::vector<std::string>& descriptions) {
  std::size_t number = descriptions.size();
  const auto numbers = Gather(group, number);
  for (std::size_t rank = 0; rank < numbers.size(); ++rank) {
    if (numbers[rank] == numbers[0]) continue;
    return {tuttiInvalidUsage,
            fmt::format("the ranks' models differ: rank 0 of group \"{}\" has {} parameters, rank {} "
                        "has {}",
                        group.name(), numbers[0], rank, numbers[rank])};
  }
  for (const auto& description : descriptions) {
    auto mine = Terminated<Description>(description);
    const auto all = Gather(group, mine);
    const auto other = std::ranges::find_if(all, [&](const auto& each) { return each != all.front(); });
    if (other == all.end()) continue;
    return {tuttiInvalidUsage,
            fmt::format("the ranks' models differ: rank 0 of group \"{}\" has {}, rank {} has {} in its place",
                        group.name(), all.front().data(), other - all.begin(), other->data())};
  }
  return {};
}

void require_equal_parameters(ProcessGroup& group, const std::vector<std::string>& descriptions) {
  const auto difference = difference_of(group, descriptions);
  if (!difference.text.empty()) throw Error(difference.code, difference.text);
}

}  // namespace tutti::parallel
