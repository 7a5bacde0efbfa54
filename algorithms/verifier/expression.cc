#include "algorithms/verifier/expression.h"

#include <fmt/format.h>

#include <utility>

namespace tutti::verifier {
namespace {

// Sums may refer to one another, so a few of them can spell an endless expression, which ends up in messages.
constexpr std::size_t kMaxSpelled = 4096;

}  // namespace

// Boost's way to combine hashes, with the 64-bit golden ratio.
std::size_t Expressions::HashNode::operator()(const Node& node) const {
  std::size_t hash = node.size();
  for (const int word : node) hash ^= static_cast<std::size_t>(word) + 0x9e3779b97f4a7c15u + (hash << 6) + (hash >> 2);
  return hash;
}

Expressions::Id Expressions::Intern(Node node) {
  const auto [entry, added] = ids_.try_emplace(std::move(node), static_cast<Id>(nodes_.size()));
  if (added) nodes_.push_back(&entry->first);
  return entry->second;
}

Expressions::Id Expressions::Of(const Input& input) {
  return Intern({kInput, input.operation, input.rank, input.block, input.chunk});
}

Expressions::Id Expressions::Scaled(Id operand) { return Intern({kScaled, operand}); }

Expressions::Id Expressions::Final(Id operand) { return Intern({kFinal, operand}); }

Expressions::Id Expressions::Sum(const std::vector<Id>& operands) {
  if (operands.size() == 1) return operands.front();
  Node node = {kSum};
  node.insert(node.end(), operands.begin(), operands.end());
  return Intern(std::move(node));
}

std::optional<std::string> Expressions::WhyNoReduction(Id id, const Input& first, int nranks) const {
  std::vector<int> times(nranks, 0);
  // A missing contribution is reported before a missing `final`: it says more.
  const bool is_final = At(id)[0] == kFinal;
  std::vector<Id> open = {is_final ? At(id)[1] : id};
  while (!open.empty()) {
    const Node& node = At(open.back());
    const Id here = open.back();
    open.pop_back();
    if (node[0] == kSum) {
      open.insert(open.end(), node.begin() + 1, node.end());
      continue;
    }
    if (node[0] == kFinal) return "final was applied to a part of it";
    if (node[0] == kInput) return fmt::format("{} was not scaled", SpellInput(here));
    const Node& input = At(node[1]);
    if (input[0] != kInput) return "something was scaled that is not one rank's contribution";
    if (input[1] != first.operation) return fmt::format("it has data of operation {}", input[1]);
    if (input[3] != first.block || input[4] != first.chunk) {
      return fmt::format("it has block {}, chunk {} of rank {}", input[3], input[4], input[2]);
    }
    if (++times[input[2]] > 1) return fmt::format("it has rank {}'s contribution twice", input[2]);
  }
  for (int rank = 0; rank < nranks; ++rank) {
    if (times[rank] == 0) return fmt::format("it lacks rank {}'s contribution", rank);
  }
  if (!is_final) return "final was not applied to it last";
  return std::nullopt;
}

std::string Expressions::SpellInput(Id id) const { return fmt::format("in{}[{}]", At(id)[2], At(id)[3]); }

std::string Expressions::ToString(Id id) const {
  if (id == kNothing) return "nothing";
  std::string text;
  Spell(id, text);
  if (text.size() > kMaxSpelled) {
    text.resize(kMaxSpelled);
    text += "...";
  }
  return text;
}

// Every level adds a character before it goes on to the next, so the length bounds the depth, too.
void Expressions::Spell(Id id, std::string& text) const {
  if (text.size() > kMaxSpelled) return;
  const Node& node = At(id);
  switch (node[0]) {
    case kInput: text += SpellInput(id); return;
    case kScaled:
      if (At(node[1])[0] == kInput) {
        text += fmt::format("s{}", At(node[1])[2]);
      } else {
        text += "scaled ";
        Spell(node[1], text);
      }
      return;
    case kFinal:
      text += "final(";
      Spell(node[1], text);
      text += ")";
      return;
    default: break;
  }
  for (auto child = node.begin() + 1; child != node.end() && text.size() <= kMaxSpelled; ++child) {
    if (child != node.begin() + 1) text += " + ";
    const bool nested = At(*child)[0] == kSum;
    if (nested) text += "(";
    Spell(*child, text);
    if (nested) text += ")";
  }
}

}  // namespace tutti::verifier
