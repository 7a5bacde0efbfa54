#include "tutti/parallel/mixed_heads.h"

#include <utility>

namespace tutti::parallel {
namespace {

constexpr std::size_t kGroups = 2, kParts = 3;  // the dimensions of groups and of their parts
constexpr std::size_t kKeyAndValue = 2;         // parts of a group other than queries

// Both tensors as matrices with a row for each group of `mixed`; columns are elements.
struct Rows {
  Rows(const Tensor& mixed, const Tensor& split)
      : groups(mixed.shape[0] * mixed.shape[1] * mixed.shape[kGroups]),
        copies(split.shape[kGroups] / mixed.shape[kGroups]),
        queries((split.shape[kParts] - kKeyAndValue) * mixed.shape.back()),
        keys_and_values(kKeyAndValue * mixed.shape.back()) {}

  Tensor of_mixed(const Tensor& tensor) const {
    return {tensor.data, {groups, copies * queries + keys_and_values}, tensor.dtype};
  }
  Tensor of_split(const Tensor& tensor) const {
    return {tensor.data, {groups, copies * (queries + keys_and_values)}, tensor.dtype};
  }
  // First columns: of the keys and values in a group of `mixed`, and of a smaller group.
  std::size_t keys_at() const { return copies * queries; }
  std::size_t split_at(std::size_t copy) const { return copy * (queries + keys_and_values); }

  std::size_t groups, copies;
  std::size_t queries;  // of a smaller group
  std::size_t keys_and_values;
};

}  // namespace

Shape mixed_shape(std::size_t positions, std::size_t batch, std::size_t heads, std::size_t kv_heads,
                  std::size_t width) {
  return {positions, batch, kv_heads, heads / kv_heads + kKeyAndValue, width};
}

Shape split_groups_shape(Shape mixed, std::size_t copies) {
  mixed[kGroups] *= copies;
  mixed[kParts] = (mixed[kParts] - kKeyAndValue) / copies + kKeyAndValue;
  return mixed;
}

void split_groups(Compute& compute, const Tensor& mixed, const Tensor& split) {
  const Rows rows(mixed, split);
  const Tensor from = rows.of_mixed(mixed), to = rows.of_split(split);
  for (std::size_t copy = 0; copy < rows.copies; ++copy) {
    const std::size_t at = rows.split_at(copy);
    compute.copy_columns(from, copy * rows.queries, to, at, rows.queries);
    compute.copy_columns(from, rows.keys_at(), to, at + rows.queries, rows.keys_and_values);
  }
}

void split_groups_backward(Compute& compute, const Tensor& grad_split, const Tensor& grad_mixed) {
  const Rows rows(grad_mixed, grad_split);
  const Tensor from = rows.of_split(grad_split), to = rows.of_mixed(grad_mixed);
  const Buffer sum(compute, {rows.groups, rows.keys_and_values}), one(compute, sum.tensor().shape);
  compute.zero(sum);
  for (std::size_t copy = 0; copy < rows.copies; ++copy) {
    const std::size_t at = rows.split_at(copy);
    compute.copy_columns(from, at, to, copy * rows.queries, rows.queries);
    compute.copy_columns(from, at + rows.queries, one, 0, rows.keys_and_values);
    compute.copy(one, sum, true);
  }
  compute.copy_columns(sum, 0, to, rows.keys_at(), rows.keys_and_values);
}

}  // namespace tutti::parallel
