// Backend's collectives that reduce.
#include <memory>
#include <numeric>
#include <utility>

#include "interop/torch/csrc/backend.h"
#include "interop/torch/csrc/failure.h"
#include "interop/torch/csrc/ops/aliasing.h"
#include "interop/torch/csrc/ops/sparse.h"

namespace tutti::pytorch {
namespace {

using Counts = std::vector<std::size_t>;

// One row per rank, each with as many elements as `tensor`.
at::Tensor NewRows(int ranks, const at::Tensor& tensor) {
  return at::empty({ranks, tensor.numel()}, tensor.options().requires_grad(false));
}

void AllReduce(const On& on, const at::Tensor& tensor, const Reduction& reduction, const Operator& op) {
  Check(tuttiAllReduce(tensor.data_ptr(), tensor.data_ptr(), Count(tensor), reduction.elements.type, op.get(), on.comm,
                       on.stream),
        on.comm);
}

void FoldedAllReduce(const On& on, int ranks, const at::Tensor& tensor, const Reduction& reduction,
                     const c10d::ReduceOp& op) {
  const auto rows = NewRows(ranks, tensor);
  Check(tuttiAllGather(tensor.data_ptr(), rows.data_ptr(), Count(tensor), reduction.elements.type, on.comm, on.stream),
        on.comm);
  Fold(rows, tensor, op);
}

void ReduceScatter(const On& on, int rank, const at::Tensor& output, const Memory& input, const Reduction& reduction,
                   const Operator& op) {
  const WrittenApart to(output, input, Block(input.begin, rank, output));
  Check(tuttiReduceScatter(input.begin, to.tensor().data_ptr(), Count(output), reduction.elements.type, op.get(),
                           on.comm, on.stream),
        on.comm);
  to.Store();
}

// counts: the size of each rank's part of the input.
void FoldedReduceScatter(const On& on, const at::Tensor& output, const void* input, const Counts& counts,
                         const Reduction& reduction, const c10d::ReduceOp& op) {
  const auto rows = NewRows(static_cast<int>(counts.size()), output);
  Counts places(counts.size()), own_counts(counts.size(), Count(output)), own_places(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), places.begin(), std::size_t{0});
  for (std::size_t i = 0; i < counts.size(); ++i) own_places[i] = i * Count(output);
  Check(tuttiAlltoAllV(input, counts.data(), places.data(), rows.data_ptr(), own_counts.data(), own_places.data(),
                       reduction.elements.type, on.comm, on.stream),
        on.comm);
  Fold(rows, output, op);
}

void ReduceScatterFrom(const On& on, int rank, int ranks, const at::Tensor& output, const at::Tensor& input,
                       const Reduction& reduction, const c10d::ReduceOp& op) {
  if (reduction.folded) {
    const Counts counts(static_cast<std::size_t>(ranks), Count(output));
    return FoldedReduceScatter(on, output, input.data_ptr(), counts, reduction, op);
  }
  ReduceScatter(on, rank, output, MemoryOf(input), reduction, Operator(reduction, on.comm));
}

}  // namespace

Backend::WorkPtr Backend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  constexpr auto kCall = "all_reduce";
  if (tensors.size() == 1 && tensors[0].is_sparse()) {
    CheckSparse(kCall, tensors[0]);
    if (options.reduceOp.op_ != c10d::ReduceOp::SUM) {
      Refuse(kCall, ": ", Name(options.reduceOp), " of sparse tensors is not supported, only SUM");
    }
    return IssueCollective(
        {c10d::OpType::ALLREDUCE, "tutti:all_reduce", tensors, tensors},
        [ranks = size_, tensor = tensors[0]](const On& on) { AllReduceSparse(on.comm, ranks, tensor); });
  }
  const auto tensor = CheckSingle(kCall, "tensor", tensors);
  auto reduction = ToReduce(kCall, tensor, options.reduceOp);
  return IssueCollective({c10d::OpType::ALLREDUCE, "tutti:all_reduce", {tensor}, {tensor}},
                         [=, ranks = size_, op = options.reduceOp](const On& on) {
                           if (reduction.folded) return FoldedAllReduce(on, ranks, tensor, reduction, op);
                           AllReduce(on, tensor, reduction, Operator(reduction, on.comm));
                         });
}

Backend::WorkPtr Backend::allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) {
  constexpr auto kCall = "all_reduce_coalesced";
  if (tensors.empty()) Refuse(kCall, ": the list of tensors is empty");
  std::vector<Reduction> reductions;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto name = "tensors[" + std::to_string(i) + "]";
    CheckTensor(kCall, name, tensors[i]);
    CheckSameDevice(kCall, name, tensors[i], "tensors[0]", tensors[0]);
    reductions.push_back(ToReduce(kCall, tensors[i], options.reduceOp));
  }
  return IssueCollective({c10d::OpType::ALLREDUCE_COALESCED, "tutti:all_reduce_coalesced", tensors, tensors},
                         [=, tensors = tensors, ranks = size_, op = options.reduceOp](const On& on) {
                           const auto apart = CopiesOfAliases(tensors);
                           std::vector<std::unique_ptr<Operator>> operators;  // until the group has run
                           for (const auto& reduction : reductions) {
                             operators.push_back(std::make_unique<Operator>(reduction, on.comm));
                           }
                           Together together(on.comm);
                           for (std::size_t i = 0; i < apart.size(); ++i) {
                             if (!reductions[i].folded) AllReduce(on, apart[i], reductions[i], *operators[i]);
                           }
                           together.End();
                           for (std::size_t i = 0; i < apart.size(); ++i) {
                             if (reductions[i].folded) FoldedAllReduce(on, ranks, apart[i], reductions[i], op);
                           }
                           StoreCopies(apart, tensors);
                         });
}

Backend::WorkPtr Backend::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  constexpr auto kCall = "reduce";
  const auto tensor = CheckSingle(kCall, "tensor", tensors);
  CheckRank(kCall, "dst", options.rootRank, size_);
  auto reduction = ToReduce(kCall, tensor, options.reduceOp);
  return IssueCollective(
      {c10d::OpType::REDUCE, "tutti:reduce", {tensor}, {tensor}},
      [=, rank = rank_, ranks = size_, root = static_cast<int>(options.rootRank), op = options.reduceOp](const On& on) {
        void* const data = tensor.data_ptr();
        if (!reduction.folded) {
          const Operator known(reduction, on.comm);
          return Check(tuttiReduce(data, rank == root ? data : nullptr, Count(tensor), reduction.elements.type,
                                   known.get(), root, on.comm, on.stream),
                       on.comm);
        }
        const auto rows = rank == root ? NewRows(ranks, tensor) : at::Tensor();
        Check(tuttiGather(data, rank == root ? rows.data_ptr() : nullptr, Count(tensor), reduction.elements.type, root,
                          on.comm, on.stream),
              on.comm);
        if (rank == root) Fold(rows, tensor, op);
      });
}

Backend::WorkPtr Backend::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                         const c10d::ReduceScatterOptions& options) {
  constexpr auto kCall = "reduce_scatter";
  const auto output = CheckSingle(kCall, "output", outputs);
  CheckCount(kCall, "the number of input lists", static_cast<std::int64_t>(inputs.size()), "a process's number", 1);
  const auto list = inputs[0];
  CheckCount(kCall, "the length of input_list", static_cast<std::int64_t>(list.size()), "the number of ranks", size_);
  CheckTensors(kCall, "input_list", list, output);
  CheckCount(kCall, "the number of elements of output", output.numel(),
             "that of input_list[" + std::to_string(rank_) + "], which is this rank's part,",
             list[static_cast<std::size_t>(rank_)].numel());
  auto reduction = ToReduce(kCall, output, options.reduceOp);
  return IssueCollective({c10d::OpType::REDUCE_SCATTER, "tutti:reduce_scatter", list, {output}},
                         [=, rank = rank_, scratch = ScratchesFor(output).input, op = options.reduceOp](const On& on) {
                           Pieces input(list);
                           input.Pack(*scratch);
                           input.Load();
                           if (reduction.folded) {
                             return FoldedReduceScatter(on, output, input.data(), input.counts(), reduction, op);
                           }
                           const Operator known(reduction, on.comm);
                           if (AllOfOneSize(list)) {
                             return ReduceScatter(on, rank, output, MemoryOf(input), reduction, known);
                           }
                           const WrittenApart to(output, MemoryOf(input), nullptr);
                           Check(tuttiReduceScatterV(input.data(), to.tensor().data_ptr(), input.counts().data(),
                                                     reduction.elements.type, known.get(), on.comm, on.stream),
                                 on.comm);
                           to.Store();
                         });
}

void Backend::CheckReduceScatterFrom(const char* call, const at::Tensor& output, const at::Tensor& input) const {
  CheckTensor(call, "output", output);
  CheckTensor(call, "input", input);
  CheckAlike(call, "input", input, "output", output);
  CheckCount(call, "the number of elements of input", input.numel(),
             std::to_string(size_) + " ranks times output's " + std::to_string(output.numel()), output.numel() * size_);
}

Backend::WorkPtr Backend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                               const c10d::ReduceScatterOptions& options) {
  constexpr auto kCall = "reduce_scatter_tensor";
  CheckReduceScatterFrom(kCall, output, input);
  auto reduction = ToReduce(kCall, output, options.reduceOp);
  return IssueCollective({c10d::OpType::_REDUCE_SCATTER_BASE, "tutti:_reduce_scatter_base", {input}, {output}},
                         [=, output = output, input = input, rank = rank_, ranks = size_, op = options.reduceOp](
                             const On& on) { ReduceScatterFrom(on, rank, ranks, output, input, reduction, op); });
}

#if TUTTI_TORCH_2
Backend::WorkPtr Backend::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                          const c10d::ReduceScatterOptions& options) {
  constexpr auto kCall = "reduce_scatter_tensor_coalesced";
  CheckCalls(kCall, outputs, inputs);
  std::vector<Reduction> reductions;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    CheckReduceScatterFrom(kCall, outputs[i], inputs[i]);
    reductions.push_back(ToReduce(kCall, outputs[i], options.reduceOp));
  }
  return IssueCollective(
      {c10d::OpType::_REDUCE_SCATTER_BASE, "tutti:reduce_scatter_tensor_coalesced", inputs, outputs},
      [=, outputs = outputs, inputs = inputs, rank = rank_, ranks = size_, op = options.reduceOp](const On& on) {
        const auto read = InputsOfCalls(inputs, EachAlone(outputs));
        for (std::size_t i = 0; i < read.size(); ++i) {
          ReduceScatterFrom(on, rank, ranks, outputs[i], read[i], reductions[i], op);
        }
      });
}
#endif

}  // namespace tutti::pytorch
