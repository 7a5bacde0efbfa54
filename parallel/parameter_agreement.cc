#include "parallel/parameter_agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "tutti/parallel/error.h"

namespace tutti::parallel {
namespace {

// What ranks compare, and show where they differ.
using Description = std::array<char, 256>;

Description Terminated(const std::string& text) {
  Description description{};
  std::ranges::copy_n(text.begin(), static_cast<std::ptrdiff_t>(std::min(text.size(), description.size() - 1)),
                      description.begin());
  return description;
}

// Everybody's `mine`, by rank.
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
    if (!names.insert(parameter.name).second) return fmt::format("two parameters are called \"{}\"", parameter.name);
  }
  return {};
}

void require_no_problem(ProcessGroup& group, const std::string& problem) {
  auto mine = Terminated(problem);
  const auto all = Gather(group, mine);
  const auto first = std::ranges::find_if(all, [](const auto& each) { return each.front() != '\0'; });
  if (first == all.end()) return;
  throw Error(tuttiInvalidArgument,
              fmt::format("rank {} of group \"{}\": {}", first - all.begin(), group.name(), first->data()));
}

std::string description_of(const Parameter& parameter) {
  return fmt::format("\"{}\" {} {}", parameter.name, name_of(parameter.data.dtype), describe(parameter.data.shape));
}

void require_equal_parameters(ProcessGroup& group, const std::vector<std::string>& descriptions) {
  std::size_t number = descriptions.size();
  const auto numbers = Gather(group, number);
  for (std::size_t rank = 0; rank < numbers.size(); ++rank) {
    if (numbers[rank] == numbers[0]) continue;
    throw Error(tuttiInvalidUsage,
                fmt::format("the ranks' models differ: rank 0 of group \"{}\" has {} parameters, rank {} "
                            "has {}",
                            group.name(), numbers[0], rank, numbers[rank]));
  }
  for (const auto& description : descriptions) {
    auto mine = Terminated(description);
    const auto all = Gather(group, mine);
    const auto other = std::ranges::find_if(all, [&](const auto& each) { return each != all.front(); });
    if (other == all.end()) continue;
    throw Error(tuttiInvalidUsage,
                fmt::format("the ranks' models differ: rank 0 of group \"{}\" has {}, rank {} has {} in its place",
                            group.name(), all.front().data(), other - all.begin(), other->data()));
  }
}

}  // namespace tutti::parallel
