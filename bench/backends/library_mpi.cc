// An MPI as the measured library. Compiled once per installed MPI, since two cannot share a process.
#include <mpi.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "base/numbers/datatype.h"
#include "bench/backends/library.h"

namespace tutti::bench {
namespace {

// Types that MPI cannot add are moved as bits of the same width.
MPI_Datatype DatatypeOf(tuttiDataType_t type) {
  return VisitDataType(type, []<typename Element>(std::type_identity<Element>) {
    constexpr std::size_t kBytes = sizeof(Storage<Element>);
    if constexpr (std::is_floating_point_v<Element>) return kBytes == 4 ? MPI_FLOAT : MPI_DOUBLE;
    constexpr bool kSigned = std::is_signed_v<Element>;
    switch (kBytes) {
      case 1: return kSigned ? MPI_INT8_T : MPI_UINT8_T;
      case 2: return kSigned ? MPI_INT16_T : MPI_UINT16_T;
      case 4: return kSigned ? MPI_INT32_T : MPI_UINT32_T;
      default: return kSigned ? MPI_INT64_T : MPI_UINT64_T;
    }
  });
}

MPI_Op OpOf(tuttiRedOp_t op) {
  switch (op) {
    case tuttiProd: return MPI_PROD;
    case tuttiMax: return MPI_MAX;
    case tuttiMin: return MPI_MIN;
    default: return MPI_SUM;
  }
}

bool CanReduce(const Operation& operation) { return operation.op != tuttiAvg && !IsLowPrecision(operation.type); }

struct Blocks {
  std::vector<int> send_counts, send_displacements, recv_counts, recv_displacements;
};

Blocks BlocksOf(const Operation& operation, int ranks, int rank) {
  Blocks blocks;
  int sent = 0;
  int received = 0;
  for (int peer = 0; peer < ranks; ++peer) {
    blocks.send_counts.push_back(static_cast<int>(BlockElements(operation, rank, peer)));
    blocks.recv_counts.push_back(static_cast<int>(BlockElements(operation, peer, rank)));
    blocks.send_displacements.push_back(sent);
    blocks.recv_displacements.push_back(received);
    sent += blocks.send_counts.back();
    received += blocks.recv_counts.back();
  }
  return blocks;
}

class Mpi final : public Library {
 public:
  explicit Mpi(const Exchange& exchange) {
    MPI_Init(nullptr, nullptr);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks_);
    exchange(rank_, ranks_, {});
  }
  ~Mpi() override { MPI_Finalize(); }

  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }

  bool Supports(const Operation& operation) const override {
    constexpr std::size_t kMostElements = 1u << 30;  // counts are int
    return LayoutFor(operation).send_elements <= kMostElements &&
           (!Reduces(operation.collective) || CanReduce(operation));
  }

  // MPI leaves the block of an in-place reduce-scatter at the start of the buffer, NCCL where the block was.
  Layout LayoutFor(const Operation& operation) const override {
    Layout layout = LayoutOf(operation, ranks_, rank_);
    if (operation.collective == Collective::reduce_scatter) layout.recv_offset = 0;
    return layout;
  }

  std::byte* Allocate(std::size_t bytes) override { return AllocateOrdinary(bytes); }
  void Free(std::byte* memory) override { std::free(memory); }
  void Barrier() override { MPI_Barrier(MPI_COMM_WORLD); }

  // "Open MPI v5.0.11", and the settings that the bench made (launch.cc).
  std::string About() const override {
    std::string version(MPI_MAX_LIBRARY_VERSION_STRING, '\0');
    int length = 0;
    MPI_Get_library_version(version.data(), &length);
    version.resize(std::min(static_cast<std::size_t>(length), version.find_first_of(",\n")));
    std::ranges::replace(version, '\t', ' ');
    for (const char* name : {"I_MPI_FABRICS", "I_MPI_PIN", "I_MPI_THREAD_YIELD"}) {
      if (const char* value = std::getenv(name)) version += std::string(", ") + name + "=" + value;
    }
    return version;
  }

  BoundCall Bind(const Operation& operation, const Buffers& buffers) override {
    return {CallOf(operation, buffers), {}};
  }

 private:
  std::function<void()> CallOf(const Operation& operation, const Buffers& buffers) const {
    const int count = static_cast<int>(operation.count);
    const MPI_Datatype type = DatatypeOf(operation.type);
    const MPI_Op op = OpOf(operation.op);
    const int root = operation.root;
    const bool is_root = rank_ == root;
    void* const recv = buffers.recv;
    void* const send = buffers.send;
    void* const input = operation.in_place ? MPI_IN_PLACE : send;
    const MPI_Comm comm = MPI_COMM_WORLD;  // a pointer in one MPI, a number in the other
    switch (operation.collective) {
      case Collective::all_reduce: return [=] { MPI_Allreduce(input, recv, count, type, op, comm); };
      case Collective::reduce: {
        void* const contribution = is_root ? input : send;
        return [=] { MPI_Reduce(contribution, recv, count, type, op, root, comm); };
      }
      case Collective::reduce_scatter: return [=] { MPI_Reduce_scatter_block(input, recv, count, type, op, comm); };
      case Collective::all_gather: return [=] { MPI_Allgather(input, count, type, recv, count, type, comm); };
      case Collective::all_to_all: return [=] { MPI_Alltoall(input, count, type, recv, count, type, comm); };
      case Collective::all_to_all_v:
        return [=, blocks = BlocksOf(operation, ranks_, rank_)] {
          MPI_Alltoallv(send, blocks.send_counts.data(), blocks.send_displacements.data(), type, recv,
                        blocks.recv_counts.data(), blocks.recv_displacements.data(), type, comm);
        };
      case Collective::broadcast: {
        // MPI's broadcast has one buffer; out of place, the caller copies on the root.
        const std::size_t copied = is_root && !operation.in_place ? operation.count * SizeOf(operation.type) : 0;
        void* const buffer = is_root ? send : recv;
        return [=] {
          MPI_Bcast(buffer, count, type, root, comm);
          if (copied != 0) std::memcpy(recv, send, copied);
        };
      }
      case Collective::gather: {
        void* const contribution = is_root ? input : send;
        return [=] { MPI_Gather(contribution, count, type, recv, count, type, root, comm); };
      }
      case Collective::scatter: {
        void* const output = is_root && operation.in_place ? MPI_IN_PLACE : recv;
        return [=] { MPI_Scatter(send, count, type, output, count, type, root, comm); };
      }
      case Collective::send_recv: {
        const int next = (rank_ + 1) % ranks_;
        const int previous = (rank_ + ranks_ - 1) % ranks_;
        return
            [=] { MPI_Sendrecv(send, count, type, next, 0, recv, count, type, previous, 0, comm, MPI_STATUS_IGNORE); };
      }
      case Collective::barrier: return [=] { MPI_Barrier(comm); };
    }
    throw std::runtime_error("no such collective");
  }

  int rank_ = 0;
  int ranks_ = 1;
};

}  // namespace

std::unique_ptr<Library> MakeLibrary(const Place&, const CallSettings&, const Exchange& exchange) {
  return std::make_unique<Mpi>(exchange);
}

}  // namespace tutti::bench
