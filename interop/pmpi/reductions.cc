// The collectives that compute. MPI wants the same operator, count and type on all ranks.
#include <cstring>
#include <vector>

#include "interop/pmpi/call.h"
#include "tutti/extension.h"

namespace tutti::pmpi {
namespace {

struct Arguments {
  tuttiDataType_t type{};
  tuttiRedOp_t op{};
  std::size_t elements = 1;  // of Tutti for each of MPI
  std::size_t alignment = 1;
};

std::optional<tuttiRedOp_t> OperatorOf(MPI_Op op) {
  const auto& constants = TheConstants();
  if (op == constants.sum) return tuttiSum;
  if (op == constants.max) return tuttiMax;
  if (op == constants.min) return tuttiMin;
  if (op == constants.prod) return tuttiProd;
  return std::nullopt;
}

// nullopt: Tutti does not compute this.
std::optional<Arguments> ArgumentsOf(const Datatype& type, MPI_Op op) {
  const auto found = OperatorOf(op);
  if (!found || !type.arithmetic) return std::nullopt;
  const bool complex = type.arithmetic->complex;
  if (complex && *found != tuttiSum) return std::nullopt;  // part by part, as a sum is, they are not
  const std::size_t elements = complex ? 2 : 1;
  return Arguments{type.arithmetic->type, *found, elements, type.bytes / elements};
}

// MPI's callers need not align buffers where the processor does not mind; Tutti wants them aligned.
bool Aligned(const void* data, std::size_t alignment) {
  return (reinterpret_cast<std::uintptr_t>(data) & (alignment - 1)) == 0;
}

class Input {
 public:
  Input(const void* data, std::size_t bytes, std::size_t alignment) : data_(data) {
    if (Aligned(data, alignment)) [[likely]]
      return;
    copy_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
    std::memcpy(copy_.get(), data, bytes);
    data_ = copy_.get();
  }
  const void* data() const { return data_; }

 private:
  const void* data_;
  Bytes copy_;
};

class Output {
 public:
  Output(void* data, std::size_t bytes, std::size_t alignment) : final_(data), data_(data), bytes_(bytes) {
    if (Aligned(data, alignment)) [[likely]]
      return;
    copy_ = std::make_unique_for_overwrite<std::byte[]>(bytes);
    data_ = copy_.get();
  }
  void* data() const { return data_; }
  tuttiResult_t Deliver(tuttiResult_t result) const {
    if (copy_ && result == tuttiSuccess) std::memcpy(final_, data_, bytes_);
    return result;
  }

 private:
  void* final_;
  void* data_;
  std::size_t bytes_;
  Bytes copy_;
};

// A reduction of `count` elements of MPI on each rank, or of the sum of several counts.
struct Reduction : Call {
  const Datatype* type = nullptr;
  Arguments arguments;
};

Reduction BeginReduction(const Below& mpi, Collective which, std::size_t count, MPI_Datatype handle, MPI_Op op,
                         MPI_Comm comm, int root = 0) {
  Reduction reduction{Begin(mpi, comm), nullptr, {}};
  if (reduction.communicator == nullptr || !reduction.HasRank(root)) return reduction;
  reduction.type = DatatypeOf(mpi, handle);
  if (reduction.type == nullptr) return reduction;
  const auto arguments = ArgumentsOf(*reduction.type, op);
  if (arguments) reduction.arguments = *arguments;
  Choose(reduction, which, count != 0, arguments.has_value());
  return reduction;
}

template <typename Count, typename Mpi>
int AllReduce(const Below& mpi, Mpi below, const void* send, void* receive, Count count, MPI_Datatype type, MPI_Op op,
              MPI_Comm comm) {
  const auto call = BeginReduction(mpi, Collective::allreduce, Positive(count), type, op, comm);
  if (!call) return below(send, receive, count, type, op, comm);
  return Conclude(call, [&] {
    const auto& [element, operation, elements, alignment] = call.arguments;
    const auto bytes = BytesOf(count, call.type);
    const Output output(receive, bytes, alignment);
    const Input input(InPlace(send) ? receive : send, bytes, alignment);
    return output.Deliver(tuttiAllReduce(input.data(), output.data(), static_cast<std::size_t>(count) * elements,
                                         element, operation, call.tutti, nullptr));
  });
}

template <typename Count, typename Mpi>
int Reduce(const Below& mpi, Mpi below, const void* send, void* receive, Count count, MPI_Datatype type, MPI_Op op,
           int root, MPI_Comm comm) {
  const auto call = BeginReduction(mpi, Collective::reduce, Positive(count), type, op, comm, root);
  if (!call) return below(send, receive, count, type, op, root, comm);
  return Conclude(call, [&] {
    const auto& [element, operation, elements, alignment] = call.arguments;
    const auto bytes = BytesOf(count, call.type);
    const bool is_root = call.IsRoot(root);
    const Output output(is_root ? receive : nullptr, bytes, alignment);  // elsewhere MPI ignores it
    const Input input(is_root && InPlace(send) ? receive : send, bytes, alignment);
    return output.Deliver(tuttiReduce(input.data(), output.data(), static_cast<std::size_t>(count) * elements, element,
                                      operation, root, call.tutti, nullptr));
  });
}

// In place, MPI puts this rank's block at the front of its input, and programs expect the rest to stay as it was.
// run(input, output) reduces; Tutti could do it in place only where the block lies.
template <typename Run>
tuttiResult_t ToTheFront(void* both, std::size_t all_bytes, std::size_t own_bytes, std::size_t alignment, Run&& run) {
  const Input input(both, all_bytes, alignment);
  const auto block = std::make_unique_for_overwrite<std::byte[]>(own_bytes);
  const auto result = run(input.data(), block.get());
  if (result == tuttiSuccess && own_bytes != 0) std::memcpy(both, block.get(), own_bytes);
  return result;
}

template <typename Count, typename Mpi>
int ReduceScatterBlock(const Below& mpi, Mpi below, const void* send, void* receive, Count count, MPI_Datatype type,
                       MPI_Op op, MPI_Comm comm) {
  const auto call = BeginReduction(mpi, Collective::reduce_scatter_block, Positive(count), type, op, comm);
  if (!call) return below(send, receive, count, type, op, comm);
  return Conclude(call, [&] {
    const auto bytes = BytesOf(count, call.type);
    const auto& [element, operation, elements, alignment] = call.arguments;
    const auto run = [&, element = element, operation = operation, elements = elements](const void* from, void* to) {
      return tuttiReduceScatter(from, to, static_cast<std::size_t>(count) * elements, element, operation, call.tutti,
                                nullptr);
    };
    if (InPlace(send)) return ToTheFront(receive, bytes * call.ranks(), bytes, alignment, run);
    const Input input(send, bytes * call.ranks(), alignment);
    const Output output(receive, bytes, alignment);
    return output.Deliver(run(input.data(), output.data()));
  });
}

template <typename Count, typename Mpi>
int ReduceScatter(const Below& mpi, Mpi below, const void* send, void* receive, const Count* counts, MPI_Datatype type,
                  MPI_Op op, MPI_Comm comm) {
  const auto begun = Begin(mpi, comm);
  if (begun.communicator == nullptr || counts == nullptr) return below(send, receive, counts, type, op, comm);
  std::size_t total = 0;
  bool even = true;
  for (std::size_t rank = 0; rank < begun.ranks(); ++rank) {
    total += Positive(counts[rank]);
    even = even && counts[rank] == counts[0];
  }
  const auto call = BeginReduction(mpi, Collective::reduce_scatter, total, type, op, comm);
  if (!call) return below(send, receive, counts, type, op, comm);
  return Conclude(call, [&] {
    const auto& [element, operation, elements, alignment] = call.arguments;
    const auto own = Positive(counts[call.rank()]);
    const auto bytes = own * call.type->bytes;
    const auto run = [&, element = element, operation = operation, elements = elements](const void* from, void* to) {
      if (even) return tuttiReduceScatter(from, to, own * elements, element, operation, call.tutti, nullptr);
      thread_local std::vector<std::size_t> lengths;
      lengths.clear();
      for (std::size_t rank = 0; rank < call.ranks(); ++rank) lengths.push_back(Positive(counts[rank]) * elements);
      return tuttiReduceScatterV(from, to, lengths.data(), element, operation, call.tutti, nullptr);
    };
    if (InPlace(send)) return ToTheFront(receive, total * call.type->bytes, bytes, alignment, run);
    const Input input(send, total * call.type->bytes, alignment);
    const Output output(receive, bytes, alignment);
    return output.Deliver(run(input.data(), output.data()));
  });
}

}  // namespace
}  // namespace tutti::pmpi

using namespace tutti::pmpi;  // NOLINT: this file is the C boundary of that namespace

extern "C" {

TUTTI_API int MPI_Allreduce(const void* send, void* receive, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm) {
  const tutti::CallsFrom caller;
  const auto& mpi = TheBelow();
  return AllReduce(mpi, mpi.Allreduce, send, receive, count, type, op, comm);
}

TUTTI_API int MPI_Reduce(const void* send, void* receive, int count, MPI_Datatype type, MPI_Op op, int root,
                         MPI_Comm comm) {
  const tutti::CallsFrom caller;
  const auto& mpi = TheBelow();
  return Reduce(mpi, mpi.Reduce, send, receive, count, type, op, root, comm);
}

TUTTI_API int MPI_Reduce_scatter_block(const void* send, void* receive, int count, MPI_Datatype type, MPI_Op op,
                                       MPI_Comm comm) {
  const tutti::CallsFrom caller;
  const auto& mpi = TheBelow();
  return ReduceScatterBlock(mpi, mpi.Reduce_scatter_block, send, receive, count, type, op, comm);
}

TUTTI_API int MPI_Reduce_scatter(const void* send, void* receive, const int counts[], MPI_Datatype type, MPI_Op op,
                                 MPI_Comm comm) {
  const tutti::CallsFrom caller;
  const auto& mpi = TheBelow();
  return ReduceScatter(mpi, mpi.Reduce_scatter, send, receive, counts, type, op, comm);
}

#if MPI_VERSION >= 4
TUTTI_API int MPI_Allreduce_c(const void* send, void* receive, MPI_Count count, MPI_Datatype type, MPI_Op op,
                              MPI_Comm comm) {
  const tutti::CallsFrom caller;
  const auto& mpi = TheBelow();
  return AllReduce(mpi, mpi.Allreduce_c, send, receive, count, type, op, comm);
}

TUTTI_API int MPI_Reduce_c(const void* send, void* receive, MPI_Count count, MPI_Datatype type, MPI_Op op, int root,
                           MPI_Comm comm) {
  const tutti::CallsFrom caller;
  const auto& mpi = TheBelow();
  return Reduce(mpi, mpi.Reduce_c, send, receive, count, type, op, root, comm);
}

TUTTI_API int MPI_Reduce_scatter_block_c(const void* send, void* receive, MPI_Count count, MPI_Datatype type, MPI_Op op,
                                         MPI_Comm comm) {
  const tutti::CallsFrom caller;
  const auto& mpi = TheBelow();
  return ReduceScatterBlock(mpi, mpi.Reduce_scatter_block_c, send, receive, count, type, op, comm);
}

TUTTI_API int MPI_Reduce_scatter_c(const void* send, void* receive, const MPI_Count counts[], MPI_Datatype type,
                                   MPI_Op op, MPI_Comm comm) {
  const tutti::CallsFrom caller;
  const auto& mpi = TheBelow();
  return ReduceScatter(mpi, mpi.Reduce_scatter_c, send, receive, counts, type, op, comm);
}
#endif

}  // extern "C"
