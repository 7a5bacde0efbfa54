// The arguments of the tensor forms, and where their blocks lie.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.h"
#include "base/numbers/datatype.h"
#include "src/api/argument_checks.h"
#include "src/api/arguments.h"

namespace tutti::api {
namespace {

using Dims = std::vector<schedule::StridedDim>;

static_assert(TUTTI_MAX_DIMS + 1 == schedule::Strided::kMostDims, "a tensor's dimensions, and the blocks of the ranks");

// One side of a call: a tensor in memory.
struct Side {
  const char* buffer;  // "sendbuff"
  const char* layout;  // "sendlayout"
  Dims dims;

  bool empty() const {
    return std::any_of(dims.begin(), dims.end(), [](const schedule::StridedDim& dim) { return dim.size == 0; });
  }
  std::string shape() const {
    std::vector<std::size_t> sizes;
    for (const auto& dim : dims) sizes.push_back(dim.size);
    return fmt::format("[{}]", fmt::join(sizes, ", "));
  }
};

Side CheckedSide(const char* buffer, const char* name, const tuttiTensorLayout_t* layout) {
  if (layout == nullptr) Throw(tuttiInvalidArgument, "{} is NULL", name);
  if (layout->ndims < 1 || layout->ndims > TUTTI_MAX_DIMS) {
    Throw(tuttiInvalidArgument, "{}->ndims is {}; a tensor has 1 to {} dimensions here", name, layout->ndims,
          TUTTI_MAX_DIMS);
  }
  Side side{buffer, name, {}};
  for (int d = 0; d < layout->ndims; ++d) side.dims.push_back({layout->shape[d], layout->strides[d]});
  return side;
}

void CheckDim(const char* name, int dim, const Side& side) {
  const int dims = static_cast<int>(side.dims.size());
  if (dim >= 0 && dim < dims) return;
  Throw(tuttiInvalidArgument, "{} is {}; {} has dimensions 0 to {}", name, dim, side.layout, dims - 1);
}

// The part of the tensor that one rank has: a block. The outermost returned dimension is that of the ranks.
Dims InBlocks(const Side& side, const char* dim_name, int dim, int nranks) {
  CheckDim(dim_name, dim, side);
  auto dims = side.dims;
  auto& split = dims[static_cast<std::size_t>(dim)];
  const auto n = static_cast<std::size_t>(nranks);
  if (split.size % n != 0) {
    Throw(tuttiInvalidArgument, "{}->shape[{}] is {}, which is not divisible by the communicator's {} ranks",
          side.layout, dim, split.size, nranks);
  }
  split.size /= n;
  dims.insert(dims.begin(), {n, split.size * split.stride});
  return dims;
}

std::vector<std::size_t> ShapeOf(std::span<const schedule::StridedDim> dims) {
  std::vector<std::size_t> shape;
  for (const auto& dim : dims) shape.push_back(dim.size);
  return shape;
}

// Bytes from the first element to the end of the last one.
std::size_t CheckedExtent(const Side& side, tuttiDataType_t type) {
  if (side.empty()) return 0;
  std::size_t last = 0;
  for (const auto& dim : side.dims) {
    std::size_t way = 0;
    if (__builtin_mul_overflow(dim.size - 1, dim.stride, &way) || __builtin_add_overflow(last, way, &last)) {
      Throw(tuttiInvalidArgument, "{}: a tensor of shape {} with these strides does not fit in memory", side.layout,
            side.shape());
    }
  }
  return CheckedBytes(side.layout, last, 1, type) + SizeOf(type);
}

// Checks that no two elements share a place: each stride must be at least the reach of the smaller ones. This is
// sufficient, and tensors' strides satisfy it.
void CheckDistinct(const Side& side) {
  Dims dims;
  std::copy_if(side.dims.begin(), side.dims.end(), std::back_inserter(dims), [](auto& dim) { return dim.size > 1; });
  std::sort(dims.begin(), dims.end(), [](const auto& a, const auto& b) { return a.stride < b.stride; });
  std::size_t reach = 1;
  for (const auto& dim : dims) {
    if (dim.stride < reach) {
      Throw(tuttiInvalidArgument, "{}: elements of shape {} overlap: a stride is {}, but {} elements lie between",
            side.layout, side.shape(), dim.stride, reach);
    }
    reach += (dim.size - 1) * dim.stride;
  }
}

void RequireBlock(const Side& part, std::span<const schedule::StridedDim> block, const Side& whole, int dim,
                  int nranks) {
  if (ShapeOf(part.dims) == ShapeOf(block)) return;
  Throw(tuttiInvalidArgument, "{} has shape {}, but a rank's part of {} {} along dimension {} on {} ranks is [{}]",
        part.layout, part.shape(), whole.layout, whole.shape(), dim, nranks, fmt::join(ShapeOf(block), ", "));
}

std::ptrdiff_t DistanceOf(const void* from, const void* to) {
  return static_cast<std::ptrdiff_t>(reinterpret_cast<std::uintptr_t>(to) - reinterpret_cast<std::uintptr_t>(from));
}

// `sends`, `receives`: with the rank dimension on a side that has all blocks.
plan::Operation Make(schedule::Collective collective, const TensorBuffers& buffers, const Side& send, const Dims& sends,
                     const Side& receive, const Dims& receives, std::span<const schedule::StridedDim> block,
                     const void* own_sent, const void* own_received) {
  const std::size_t send_bytes = CheckedExtent(send, buffers.type),
                    receive_bytes = CheckedExtent(receive, buffers.type);
  CheckPointer(send.buffer, buffers.send, send_bytes, buffers.type);
  CheckPointer(receive.buffer, buffers.receive, receive_bytes, buffers.type);
  CheckDistinct(receive);
  plan::Operation operation;
  operation.collective = collective;
  operation.input = buffers.send;
  operation.output = buffers.receive;
  operation.type = buffers.type;
  operation.count = 1;
  for (const auto& dim : block) operation.count *= dim.size;
  auto tensors = std::make_shared<plan::Tensors>();
  if (operation.count != 0) {
    tensors->input = schedule::Strided(sends, SizeOf(buffers.type));
    tensors->output = schedule::Strided(receives, SizeOf(buffers.type));
  }
  tensors->agreed = ShapeOf(block);
  const bool in_place = own_sent != nullptr && own_sent == own_received;
  if (!in_place && operation.count != 0 &&
      schedule::HaveCommonBytes(tensors->input, tensors->output, DistanceOf(buffers.send, buffers.receive))) {
    RefuseOverlap({buffers.send, send_bytes}, {buffers.receive, receive_bytes});
  }
  operation.in_place = in_place;
  operation.tensors = std::move(tensors);
  return operation;
}

// Where the caller's block begins in a tensor of all blocks, if it has the same layout there as in `part`: the address
// for the in-place form.
const void* OwnBlock(const void* all, std::span<const schedule::StridedDim> in_blocks, const Dims& part,
                     const Caller& caller, tuttiDataType_t type) {
  const auto block = in_blocks.subspan(1);
  const bool alike = std::equal(block.begin(), block.end(), part.begin(), part.end(), [](const auto& a, const auto& b) {
    return a.size == b.size && (a.size == 1 || a.stride == b.stride);
  });
  if (!alike || all == nullptr) return nullptr;
  return static_cast<const std::byte*>(all) +
         static_cast<std::size_t>(caller.rank) * in_blocks.front().stride * SizeOf(type);
}

}  // namespace

plan::Operation CheckedAllGatherTensor(const Caller& caller, const TensorBuffers& buffers, int dim) {
  CheckType(buffers.type);
  const auto send = CheckedSide("sendbuff", "sendlayout", buffers.send_layout);
  const auto receive = CheckedSide("recvbuff", "recvlayout", buffers.receive_layout);
  const auto receives = InBlocks(receive, "dim", dim, caller.nranks);
  const auto block = std::span(receives).subspan(1);
  RequireBlock(send, block, receive, dim, caller.nranks);
  return Make(schedule::Collective::all_gather, buffers, send, send.dims, receive, receives, block, buffers.send,
              OwnBlock(buffers.receive, receives, send.dims, caller, buffers.type));
}

plan::Operation CheckedReduceScatterTensor(const Caller& caller, const TensorBuffers& buffers, int dim,
                                           tuttiRedOp_t op) {
  CheckType(buffers.type);
  CheckOp(op);
  const auto send = CheckedSide("sendbuff", "sendlayout", buffers.send_layout);
  const auto receive = CheckedSide("recvbuff", "recvlayout", buffers.receive_layout);
  const auto sends = InBlocks(send, "dim", dim, caller.nranks);
  const auto block = std::span(sends).subspan(1);
  RequireBlock(receive, block, send, dim, caller.nranks);
  auto operation = Make(schedule::Collective::reduce_scatter, buffers, send, sends, receive, receive.dims, block,
                        OwnBlock(buffers.send, sends, receive.dims, caller, buffers.type), buffers.receive);
  operation.op = op;
  return operation;
}

plan::Operation CheckedAllToAllTensor(const Caller& caller, const TensorBuffers& buffers, int send_dim,
                                      int receive_dim) {
  CheckType(buffers.type);
  const auto send = CheckedSide("sendbuff", "sendlayout", buffers.send_layout);
  const auto receive = CheckedSide("recvbuff", "recvlayout", buffers.receive_layout);
  const auto sends = InBlocks(send, "senddim", send_dim, caller.nranks);
  const auto receives = InBlocks(receive, "recvdim", receive_dim, caller.nranks);
  const auto block = std::span(sends).subspan(1), arriving = std::span(receives).subspan(1);
  if (ShapeOf(block) != ShapeOf(arriving)) {
    Throw(tuttiInvalidArgument,
          "the blocks differ: sendlayout {} along dimension {} has blocks [{}], recvlayout {} along dimension {} [{}]",
          send.shape(), send_dim, fmt::join(ShapeOf(block), ", "), receive.shape(), receive_dim,
          fmt::join(ShapeOf(arriving), ", "));
  }
  return Make(schedule::Collective::all_to_all, buffers, send, sends, receive, receives, block, nullptr, nullptr);
}

}  // namespace tutti::api
