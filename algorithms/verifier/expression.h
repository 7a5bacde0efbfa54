// An element's value as an expression over the ranks' inputs. Equal expressions are one object with one id, so
// comparing two results is comparing two numbers.
//
// Thread-safety: none; one owner.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace tutti::verifier {

class Expressions {
 public:
  using Id = int;
  static constexpr Id kNothing = -1;  // memory that was never written

  // Chunk `chunk` of block `block` of the rank's input to the operation-th operation.
  struct Input {
    int operation;
    int rank;
    int block;
    int chunk;
  };

  Id Of(const Input& input);
  Id Scaled(Id operand);
  // Accumulated in the order given; of one operand, the operand itself.
  Id Sum(const std::vector<Id>& operands);
  Id Final(Id operand);

  // Checks for final(sums of scaled inputs) with each rank's input of that operation, block and chunk exactly once.
  // nullopt: it is; else what is wrong with it.
  std::optional<std::string> WhyNoReduction(Id id, const Input& first, int nranks) const;

  // "final((s1 + s2) + s0)": s1 is rank 1's scaled contribution, in1[3] block 3 of its unscaled input. A long
  // expression is cut.
  std::string ToString(Id id) const;

 private:
  enum Kind : int { kInput, kScaled, kSum, kFinal };
  using Node = std::vector<int>;  // kind, then the operands' ids or the input's four numbers
  struct HashNode {
    std::size_t operator()(const Node& node) const;
  };

  Id Intern(Node node);
  const Node& At(Id id) const { return *nodes_[id]; }
  std::string SpellInput(Id id) const;
  void Spell(Id id, std::string& text) const;

  std::unordered_map<Node, Id, HashNode> ids_;
  std::vector<const Node*> nodes_;  // by id; the map owns them
};

}  // namespace tutti::verifier
