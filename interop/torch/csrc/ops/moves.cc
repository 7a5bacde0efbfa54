// Backend's collectives that move data unchanged.
#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>
#include <utility>

#include "interop/torch/csrc/backend.h"
#include "interop/torch/csrc/failure.h"
#include "interop/torch/csrc/ops/aliasing.h"

namespace tutti::pytorch {
namespace {

using Counts = std::vector<std::size_t>;

// From this many bytes per rank on, the v-forms read and write lists in place; below, a copy is cheaper. All ranks
// decide alike, because the sizes are the same on all.
constexpr std::size_t kInPlaceBytes = 64 * 1024;

tuttiDataType_t TypeOf(const at::Tensor& tensor) { return ToMove(tensor.scalar_type()).type; }

Counts PlacesOf(const Counts& counts) {
  Counts places(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), places.begin(), std::size_t{0});
  return places;
}

void CheckList(const char* call, const std::string& what, const Tensors& list, const at::Tensor& like, int ranks) {
  CheckCount(call, "the length of " + what, static_cast<std::int64_t>(list.size()), "the number of ranks", ranks);
  CheckTensors(call, what, list, like);
}

// Like CheckList, for outputs of any strides.
void CheckPackedList(const char* call, const std::string& what, const Tensors& list, const at::Tensor& like,
                     int ranks) {
  CheckCount(call, "the length of " + what, static_cast<std::int64_t>(list.size()), "the number of ranks", ranks);
  CheckPackedTensors(call, what, list, like);
}

void CheckSizes(const char* call, const std::string& what, const Tensors& list, const std::string& like_what,
                const at::Tensor& like) {
  for (std::size_t i = 0; i < list.size(); ++i) {
    CheckCount(call, "the number of elements of " + what + "[" + std::to_string(i) + "]", list[i].numel(),
               "that of " + like_what, like.numel());
  }
}

// The number of elements that each rank gets of dimension 0. Empty `splits`: equal shares.
Counts CheckedSplits(const char* call, const std::string& what, const at::Tensor& tensor,
                     const std::vector<std::int64_t>& splits, int ranks) {
  const auto rows = tensor.dim() == 0 ? 1 : tensor.size(0);
  const auto row = rows == 0 ? 0 : Count(tensor) / static_cast<std::size_t>(rows);
  if (splits.empty()) {
    if (rows % ranks != 0) {
      Refuse(call, ": dimension 0 of ", what, " is ", rows, ", which is not a multiple of the number of ranks, ", ranks,
             "; pass ", what, "_split_sizes");
    }
    return Counts(static_cast<std::size_t>(ranks), static_cast<std::size_t>(rows / ranks) * row);
  }
  CheckCount(call, "the length of " + what + "_split_sizes", static_cast<std::int64_t>(splits.size()),
             "the number of ranks", ranks);
  for (const auto split : splits) {
    if (split < 0) Refuse(call, ": ", what, "_split_sizes are ", splits, ", but no share can be negative");
  }
  CheckCount(call, "the sum of " + what + "_split_sizes",
             std::accumulate(splits.begin(), splits.end(), std::int64_t{0}), "dimension 0 of " + what, rows);
  Counts counts;
  for (const auto split : splits) counts.push_back(static_cast<std::size_t>(split) * row);
  return counts;
}

void AllGather(const On& on, int rank, const Memory& output, const at::Tensor& input) {
  const auto read = ReadApart(input, output, Block(output.begin, rank, input));
  Check(tuttiAllGather(read.data_ptr(), const_cast<std::byte*>(output.begin), Count(read), TypeOf(read), on.comm,
                       on.stream),
        on.comm);
}

// Whether the list is passed to the library as one piece of memory. REQUIRES: all tensors have this size.
bool IsOnePiece(const at::Tensor& tensor) { return tensor.nbytes() < kInPlaceBytes; }

// Reads and writes in place, or through scratch if input and output overlap or are not orderly.
void Separate(Pieces& from, Pieces& to, const Scratches& scratches) {
  if (!from.IsOrderly()) from.Pack(*scratches.input);
  if (!to.IsOrderly() || from.Overlap(to)) to.Copy(*scratches.output);
  if (from.Overlap(to)) from.Copy(*scratches.input);  // scratch may lie anywhere, even between the other's pieces
  from.Load();
}

// outputs[r] is rank r's; all of one size, or of sizes that all ranks know.
void AllGatherList(const On& on, int rank, const Tensors& outputs, const at::Tensor& input,
                   const Scratches& scratches) {
  Pieces from({input}), to(outputs);
  if (AllOfOneSize(outputs) && IsOnePiece(input)) {
    to.Pack(*scratches.output);
    AllGather(on, rank, MemoryOf(to), input);
  } else {
    Separate(from, to, scratches);
    Check(tuttiAllGatherV(from.data(), from.counts()[0], to.data(), to.counts().data(), to.places().data(),
                          TypeOf(input), on.comm, on.stream),
          on.comm);
  }
  to.Store();
}

// One side of this rank's exchange: one piece per rank, one piece to or from a single rank, or nothing.
struct Share {
  Pieces pieces;
  int partner;  // the rank that the single piece goes to or comes from
  int ranks;

  static constexpr int kEverybody = -1;

  Counts counts() const { return Spread(pieces.counts()); }
  Counts places() const { return Spread(pieces.places()); }

 private:
  Counts Spread(const Counts& of_pieces) const {
    if (partner == kEverybody) return of_pieces;
    Counts of_ranks(static_cast<std::size_t>(ranks));
    if (!of_pieces.empty()) of_ranks[static_cast<std::size_t>(partner)] = of_pieces[0];
    return of_ranks;
  }
};

Share Everybodys(const Tensors& tensors) {
  return {Pieces(tensors), Share::kEverybody, static_cast<int>(tensors.size())};
}
Share OneRanks(const at::Tensor& tensor, int rank, int ranks) { return {Pieces({tensor}), rank, ranks}; }
Share Nobodys(int ranks) { return {Pieces({}), 0, ranks}; }

void Exchange(const On& on, Share from, Share to, tuttiDataType_t type, const Scratches& scratches) {
  Separate(from.pieces, to.pieces, scratches);
  Check(tuttiAlltoAllV(from.pieces.data(), from.counts().data(), from.places().data(), to.pieces.data(),
                       to.counts().data(), to.places().data(), type, on.comm, on.stream),
        on.comm);
  to.pieces.Store();
}

struct Rooted {
  int rank, root, ranks;
};

// `outputs` is empty except on the root.
void Gather(const On& on, const Rooted& who, const Tensors& outputs, const at::Tensor& input,
            const Scratches& scratches) {
  const bool is_root = who.rank == who.root;
  if (!IsOnePiece(input)) {
    return Exchange(on, OneRanks(input, who.root, who.ranks), is_root ? Everybodys(outputs) : Nobodys(who.ranks),
                    TypeOf(input), scratches);
  }
  Pieces to(outputs);
  to.Pack(*scratches.output);
  const auto read = is_root ? ReadApart(input, MemoryOf(to), Block(to.data(), who.root, input)) : input;
  Check(tuttiGather(read.data_ptr(), to.data(), Count(read), TypeOf(read), who.root, on.comm, on.stream), on.comm);
  to.Store();
}

}  // namespace

Backend::WorkPtr Backend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  constexpr auto kCall = "broadcast";
  const auto tensor = CheckSingle(kCall, "tensor", tensors);
  CheckRank(kCall, "src", options.rootRank, size_);
  return IssueCollective({c10d::OpType::BROADCAST, "tutti:broadcast", {tensor}, {tensor}},
                         [tensor, root = static_cast<int>(options.rootRank)](const On& on) {
                           Check(tuttiBcast(tensor.data_ptr(), Count(tensor), TypeOf(tensor), root, on.comm, on.stream),
                                 on.comm);
                         });
}

Backend::WorkPtr Backend::allgather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::AllgatherOptions&) {
  constexpr auto kCall = "all_gather";
  const auto input = CheckSinglePacked(kCall, "tensor", inputs);
  CheckCount(kCall, "the number of output lists", static_cast<std::int64_t>(outputs.size()), "a process's number", 1);
  const auto list = outputs[0];
  CheckPackedList(kCall, "tensor_list", list, input, size_);
  if (AllOfOneSize(list)) {
    CheckSizes(kCall, "tensor_list", list, "tensor", input);
  } else {
    CheckCount(kCall, "the number of elements of tensor", input.numel(),
               "that of tensor_list[" + std::to_string(rank_) + "], which is for it,",
               list[static_cast<std::size_t>(rank_)].numel());
  }
  return IssueCollective({c10d::OpType::ALLGATHER, "tutti:all_gather", {input}, list},
                         [=, rank = rank_, scratches = ScratchesFor(input)](const On& on) {
                           const auto outputs = ContiguousOutputs(list);
                           AllGatherList(on, rank, outputs, Contiguous(input), scratches);
                           StoreCopies(outputs, list);
                         });
}

void Backend::CheckAllGatherInto(const char* call, const at::Tensor& output, const at::Tensor& input) const {
  CheckTensor(call, "output", output);
  CheckTensor(call, "input", input);
  CheckAlike(call, "input", input, "output", output);
  CheckCount(call, "the number of elements of output", output.numel(),
             std::to_string(size_) + " ranks times input's " + std::to_string(input.numel()), input.numel() * size_);
}

Backend::WorkPtr Backend::_allgather_base(at::Tensor& output, at::Tensor& input, const c10d::AllgatherOptions&) {
  CheckAllGatherInto("all_gather_into_tensor", output, input);
  return IssueCollective({c10d::OpType::_ALLGATHER_BASE, "tutti:_all_gather_base", {input}, {output}},
                         [output, input, rank = rank_](const On& on) { AllGather(on, rank, MemoryOf(output), input); });
}

// outputs[r][i] receives rank r's inputs[i].
Backend::WorkPtr Backend::allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                                              const c10d::AllgatherOptions&) {
  constexpr auto kCall = "all_gather_coalesced";
  if (inputs.empty()) Refuse(kCall, ": the list of inputs is empty");
  CheckCount(kCall, "the number of output lists", static_cast<std::int64_t>(outputs.size()), "the number of ranks",
             size_);
  std::vector<Tensors> lists(inputs.size());  // the outputs for one input, from all ranks
  Tensors results;
  for (const auto& of_rank : outputs) {
    CheckCount(kCall, "the length of an output list", static_cast<std::int64_t>(of_rank.size()), "the number of inputs",
               static_cast<std::int64_t>(inputs.size()));
    for (std::size_t i = 0; i < inputs.size(); ++i) lists[i].push_back(of_rank[i]);
    results.insert(results.end(), of_rank.begin(), of_rank.end());
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto name = "input_tensor_list[" + std::to_string(i) + "]";
    CheckTensor(kCall, name, inputs[i]);
    CheckSameDevice(kCall, name, inputs[i], "input_tensor_list[0]", inputs[0]);
    CheckList(kCall, "the output lists' " + std::to_string(i) + "-th of ranks", lists[i], inputs[i], size_);
    CheckSizes(kCall, "the output lists' " + std::to_string(i) + "-th of ranks", lists[i], name, inputs[i]);
  }
  return IssueCollective({c10d::OpType::ALLGATHER_COALESCED, "tutti:all_gather_coalesced", inputs, results},
                         [=, rank = rank_, inputs = inputs, scratches = ScratchesFor(inputs[0])](const On& on) {
                           const auto read = InputsOfCalls(inputs, lists);
                           for (std::size_t i = 0; i < read.size(); ++i) {
                             AllGatherList(on, rank, lists[i], read[i], scratches);
                           }
                         });
}

#if TUTTI_TORCH_2
Backend::WorkPtr Backend::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                          const c10d::AllgatherOptions&) {
  constexpr auto kCall = "all_gather_into_tensor_coalesced";
  CheckCalls(kCall, outputs, inputs);
  for (std::size_t i = 0; i < inputs.size(); ++i) CheckAllGatherInto(kCall, outputs[i], inputs[i]);
  return IssueCollective({c10d::OpType::_ALLGATHER_BASE, "tutti:all_gather_into_tensor_coalesced", inputs, outputs},
                         [outputs = outputs, inputs = inputs, rank = rank_](const On& on) {
                           const auto read = InputsOfCalls(inputs, EachAlone(outputs));
                           for (std::size_t i = 0; i < read.size(); ++i)
                             AllGather(on, rank, MemoryOf(outputs[i]), read[i]);
                         });
}
#endif

Backend::WorkPtr Backend::gather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::GatherOptions& options) {
  constexpr auto kCall = "gather";
  const auto given = CheckSinglePacked(kCall, "tensor", inputs);
  CheckRank(kCall, "dst", options.rootRank, size_);
  const bool is_root = rank_ == options.rootRank;
  CheckCount(kCall, "the number of output lists", static_cast<std::int64_t>(outputs.size()),
             is_root ? "dst's number" : "that of ranks other than dst", is_root ? 1 : 0);
  const auto list = is_root ? outputs[0] : Tensors();
  if (is_root) {
    CheckPackedList(kCall, "gather_list", list, given, size_);
    CheckSizes(kCall, "gather_list", list, "tensor", given);
  }
  return IssueCollective({c10d::OpType::GATHER, "tutti:gather", {given}, list},
                         [=, rank = rank_, ranks = size_, scratches = ScratchesFor(given),
                          root = static_cast<int>(options.rootRank)](const On& on) {
                           const auto input = Contiguous(given);
                           const auto outputs = ContiguousOutputs(list);
                           Gather(on, {rank, root, ranks}, outputs, input, scratches);
                           StoreCopies(outputs, list);
                         });
}

Backend::WorkPtr Backend::scatter(Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ScatterOptions& options) {
  constexpr auto kCall = "scatter";
  const auto output = CheckSingle(kCall, "tensor", outputs);
  CheckRank(kCall, "src", options.rootRank, size_);
  const bool is_root = rank_ == options.rootRank;
  CheckCount(kCall, "the number of input lists", static_cast<std::int64_t>(inputs.size()),
             is_root ? "src's number" : "that of ranks other than src", is_root ? 1 : 0);
  const auto list = is_root ? inputs[0] : Tensors();
  if (is_root) {
    CheckList(kCall, "scatter_list", list, output, size_);
    CheckSizes(kCall, "scatter_list", list, "tensor", output);
  }
  return IssueCollective(
      {c10d::OpType::SCATTER, "tutti:scatter", list, {output}},
      [=, ranks = size_, scratches = ScratchesFor(output), root = static_cast<int>(options.rootRank)](const On& on) {
        if (!IsOnePiece(output)) {
          return Exchange(on, is_root ? Everybodys(list) : Nobodys(ranks), OneRanks(output, root, ranks),
                          TypeOf(output), scratches);
        }
        Pieces from(list);
        from.Pack(*scratches.input);
        from.Load();
        const WrittenApart to(output, MemoryOf(from), Block(from.data(), root, output));
        Check(
            tuttiScatter(from.data(), to.tensor().data_ptr(), Count(output), TypeOf(output), root, on.comm, on.stream),
            on.comm);
        to.Store();
      });
}

Backend::WorkPtr Backend::alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions&) {
  constexpr auto kCall = "all_to_all";
  if (inputs.empty()) Refuse(kCall, ": input_tensor_list is empty, but there are ", size_, " ranks");
  const auto to = outputs, from = inputs;
  CheckList(kCall, "input_tensor_list", from, from[0], size_);
  CheckList(kCall, "output_tensor_list", to, from[0], size_);
  const auto self = static_cast<std::size_t>(rank_);
  CheckCount(kCall, "the number of elements of output_tensor_list[" + std::to_string(rank_) + "]", to[self].numel(),
             "that of input_tensor_list[" + std::to_string(rank_) + "], which is for it,", from[self].numel());
  return IssueCollective({c10d::OpType::ALLTOALL, "tutti:all_to_all", from, to},
                         [=, scratches = ScratchesFor(from[0])](const On& on) {
                           Exchange(on, Everybodys(from), Everybodys(to), TypeOf(from[0]), scratches);
                         });
}

Backend::WorkPtr Backend::alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<std::int64_t>& output_splits,
                                        std::vector<std::int64_t>& input_splits, const c10d::AllToAllOptions&) {
  constexpr auto kCall = "all_to_all_single";
  CheckTensor(kCall, "output", output);
  CheckTensor(kCall, "input", input);
  CheckAlike(kCall, "input", input, "output", output);
  const auto output_counts = CheckedSplits(kCall, "output", output, output_splits, size_);
  const auto input_counts = CheckedSplits(kCall, "input", input, input_splits, size_);
  const auto self = static_cast<std::size_t>(rank_);
  CheckCount(kCall, "the size that this rank receives from itself", static_cast<std::int64_t>(output_counts[self]),
             "the size that it sends to itself", static_cast<std::int64_t>(input_counts[self]));
  const Call call{c10d::OpType::ALLTOALL_BASE, "tutti:all_to_all", {input}, {output}};
  // Uses the v-form even without splits, since another rank may have passed matching splits.
  return IssueCollective(call, [=, output = output, input = input](const On& on) {
    const auto read = ReadApart(input, MemoryOf(output), nullptr);
    Check(tuttiAlltoAllV(read.data_ptr(), input_counts.data(), PlacesOf(input_counts).data(), output.data_ptr(),
                         output_counts.data(), PlacesOf(output_counts).data(), TypeOf(input), on.comm, on.stream),
          on.comm);
  });
}

}  // namespace tutti::pytorch
