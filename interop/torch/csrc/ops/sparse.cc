#include "interop/torch/csrc/ops/sparse.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <cstdint>
#include <functional>
#include <numeric>
#include <vector>

#include "interop/torch/csrc/failure.h"
#include "interop/torch/csrc/ops/elements.h"
#include "interop/torch/csrc/ops/tensors.h"

namespace tutti::pytorch {
namespace {

using Counts = std::vector<std::size_t>;
using Numbers = std::vector<std::int64_t>;

constexpr std::int64_t kMostDimensions = 16;

// The ranks exchange this first: the number of sparse dimensions, the shape, and the number of elements.
Numbers Describe(const at::Tensor& tensor) {
  Numbers words{tensor.sparse_dim(), tensor.dim()};
  words.insert(words.end(), tensor.sizes().begin(), tensor.sizes().end());
  words.resize(2 + kMostDimensions);
  words.push_back(tensor._nnz());
  return words;
}

std::string ShapeOf(const std::int64_t* words) {
  std::string text = "[";
  for (std::int64_t i = 0; i < words[1]; ++i) text += (i == 0 ? "" : ", ") + std::to_string(words[2 + i]);
  return text + "] with " + std::to_string(words[0]) + " sparse dimensions";
}

Numbers Gather(tuttiComm_t comm, int ranks, const Numbers& mine) {
  Numbers all(mine.size() * static_cast<std::size_t>(ranks));
  Check(tuttiAllGather(mine.data(), all.data(), mine.size(), tuttiInt64, comm, nullptr), comm);
  return all;
}

void GatherV(tuttiComm_t comm, const at::Tensor& mine, const at::Tensor& all, std::size_t own, const Counts& counts) {
  Counts places(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), places.begin(), std::size_t{0});
  Check(tuttiAllGatherV(mine.data_ptr(), own, all.data_ptr(), counts.data(), places.data(),
                        ToMove(mine.scalar_type()).type, comm, nullptr),
        comm);
}

}  // namespace

void CheckSparse(const char* call, const at::Tensor& tensor) {
  CheckOnHost(call, tensor, "the sum of sparse tensors");
  if (tensor.dim() > kMostDimensions) {
    Refuse(call, ": a sparse tensor has ", tensor.dim(), " dimensions, but at most ", kMostDimensions,
           " are supported");
  }
}

void AllReduceSparse(tuttiComm_t comm, int ranks, const at::Tensor& tensor) {
  const at::NoGradGuard no_grad;
  const auto mine = tensor.coalesce();
  const auto words = Describe(mine);
  const auto all_words = Gather(comm, ranks, words);
  Numbers elements;
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(ranks); ++rank) {
    const auto* const its = all_words.data() + rank * words.size();
    // Compared with rank 0's, so that all ranks report the same pair.
    if (ShapeOf(its) != ShapeOf(all_words.data())) {
      Refuse("all_reduce: rank 0's sparse tensor has the shape ", ShapeOf(all_words.data()), ", but rank ", rank, "'s ",
             ShapeOf(its));
    }
    elements.push_back(its[words.size() - 1]);
  }

  const auto total = std::accumulate(elements.begin(), elements.end(), std::int64_t{0});
  const auto indices = mine.indices().contiguous();
  const auto values = mine.values().contiguous();
  const auto all_indices = at::empty({mine.sparse_dim() * total}, indices.options());
  auto shape = values.sizes().vec();
  shape[0] = total;
  const auto all_values = at::empty(shape, values.options());
  const auto per_value = total == 0 ? 0 : Count(all_values) / static_cast<std::size_t>(total);
  Counts index_counts, value_counts;
  for (const auto count : elements) {
    index_counts.push_back(static_cast<std::size_t>(mine.sparse_dim() * count));
    value_counts.push_back(static_cast<std::size_t>(count) * per_value);
  }
  GatherV(comm, indices, all_indices, Count(indices), index_counts);
  GatherV(comm, values, all_values, Count(values), value_counts);

  // A rank's indices form a matrix of sparse dimensions by elements; placed side by side, the matrices hold all ranks'
  // indices.
  std::vector<at::Tensor> matrices;
  std::int64_t begin = 0;
  for (const auto count : elements) {
    const auto size = mine.sparse_dim() * count;
    matrices.push_back(all_indices.narrow(0, begin, size).view({mine.sparse_dim(), count}));
    begin += size;
  }
  tensor.copy_(at::sparse_coo_tensor(at::cat(matrices, 1), all_values, tensor.sizes()).coalesce());
}

}  // namespace tutti::pytorch
