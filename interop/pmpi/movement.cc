// The collectives that only move data, in blocks of one length. Ranks may describe a block by different types; its bytes
// are the same everywhere.
#include <tuple>

#include "interop/pmpi/call.h"
#include "tutti/extension.h"

namespace tutti::pmpi {
namespace {

// One side of a call: blocks of `count` elements, one after the other.
struct Side {
  const Datatype* type = nullptr;
  std::size_t count = 0;

  std::ptrdiff_t extent() const { return static_cast<std::ptrdiff_t>(count) * type->extent; }  // of a block
};

template <typename Count>
Side SideOf(const Below& mpi, Count count, MPI_Datatype handle) {
  return {DatatypeOf(mpi, handle), Positive(count)};
}

std::size_t BytesOf(const Side& side) { return pmpi::BytesOf(side.count, side.type); }

template <typename Count, typename Mpi>
int Bcast(const Below& mpi, Mpi below, void* buffer, Count count, MPI_Datatype handle, int root, MPI_Comm comm) {
  auto call = Begin(mpi, comm);
  Side side;
  if (call.communicator != nullptr && call.HasRank(root)) {
    side = SideOf(mpi, count, handle);
    if (side.type != nullptr) Choose(call, Collective::bcast, BytesOf(side) != 0);
  }
  if (!call) return below(buffer, count, handle, root, comm);
  return Conclude(call, [&] {
    if (call.IsRoot(root)) {
      const Outgoing out(mpi, comm, buffer, side.count, *side.type);
      return tuttiBroadcast(out.data(), const_cast<std::byte*>(out.data()), BytesOf(side), tuttiUint8, root, call.tutti,
                            nullptr);
    }
    const Incoming in(mpi, comm, buffer, side.count, *side.type);
    return in.Deliver(tuttiBcast(in.data(), BytesOf(side), tuttiUint8, root, call.tutti, nullptr));
  });
}

// A call in which every rank sends and receives blocks of one length.
struct Symmetric : Call {
  Side to, from;
};

template <typename Count>
Symmetric BeginSymmetric(const Below& mpi, Collective which, bool in_place, Count send_count, MPI_Datatype send_type,
                         Count receive_count, MPI_Datatype receive_type, MPI_Comm comm) {
  Symmetric call{Begin(mpi, comm), {}, {}};
  if (call.communicator == nullptr) return call;
  call.to = SideOf(mpi, receive_count, receive_type);
  call.from = in_place ? call.to : SideOf(mpi, send_count, send_type);
  if (call.to.type != nullptr && call.from.type != nullptr) Choose(call, which, BytesOf(call.to) != 0);
  return call;
}

template <typename Count, typename Mpi>
int Allgather(const Below& mpi, Mpi below, const void* send, Count send_count, MPI_Datatype send_type, void* receive,
              Count receive_count, MPI_Datatype receive_type, MPI_Comm comm) {
  const auto call = BeginSymmetric(mpi, Collective::allgather, InPlace(send), send_count, send_type, receive_count,
                                   receive_type, comm);
  if (!call) return below(send, send_count, send_type, receive, receive_count, receive_type, comm);
  return Conclude(call, [&] {
    const auto& [to, from] = std::tie(call.to, call.from);
    const auto* const own = InPlace(send) ? At(receive, static_cast<std::ptrdiff_t>(call.rank()) * to.extent()) : send;
    const Outgoing out(mpi, comm, own, from.count, *from.type);
    const Incoming in(mpi, comm, receive, to.count * call.ranks(), *to.type);
    return in.Deliver(tuttiAllGather(out.data(), in.data(), BytesOf(from), tuttiUint8, call.tutti, nullptr));
  });
}

// `all`: what the root has, blocks of all ranks; `own`: this rank's block. On the root, `in_place` says that its block
// lies among the others. Chooses for gather and scatter, on whose other ranks `all` means nothing.
struct Rooted : Call {
  Side all, own;
  bool is_root = false;
};

template <typename Count>
Rooted BeginRooted(const Below& mpi, Collective which, Count all_count, MPI_Datatype all_type, bool in_place,
                   Count own_count, MPI_Datatype own_type, int root, MPI_Comm comm) {
  Rooted call{Begin(mpi, comm), {}, {}, false};
  if (call.communicator == nullptr || !call.HasRank(root)) return call;
  call.is_root = call.IsRoot(root);
  if (call.is_root) call.all = SideOf(mpi, all_count, all_type);
  call.own = call.is_root && in_place ? call.all : SideOf(mpi, own_count, own_type);
  if (call.own.type == nullptr || (call.is_root && call.all.type == nullptr)) return call;
  Choose(call, which, BytesOf(call.own) != 0);
  return call;
}

template <typename Count, typename Mpi>
int Gather(const Below& mpi, Mpi below, const void* send, Count send_count, MPI_Datatype send_type, void* receive,
           Count receive_count, MPI_Datatype receive_type, int root, MPI_Comm comm) {
  const auto call = BeginRooted(mpi, Collective::gather, receive_count, receive_type, InPlace(send), send_count,
                                send_type, root, comm);
  if (!call) return below(send, send_count, send_type, receive, receive_count, receive_type, root, comm);
  return Conclude(call, [&] {
    const auto bytes = BytesOf(call.own);
    if (!call.is_root) {
      const Outgoing out(mpi, comm, send, call.own.count, *call.own.type);
      return tuttiGather(out.data(), nullptr, bytes, tuttiUint8, root, call.tutti, nullptr);
    }
    const auto* const own = InPlace(send) ? At(receive, root * call.all.extent()) : send;
    const Outgoing out(mpi, comm, own, call.own.count, *call.own.type);
    const Incoming in(mpi, comm, receive, call.all.count * call.ranks(), *call.all.type);
    return in.Deliver(tuttiGather(out.data(), in.data(), bytes, tuttiUint8, root, call.tutti, nullptr));
  });
}

template <typename Count, typename Mpi>
int Scatter(const Below& mpi, Mpi below, const void* send, Count send_count, MPI_Datatype send_type, void* receive,
            Count receive_count, MPI_Datatype receive_type, int root, MPI_Comm comm) {
  const auto call = BeginRooted(mpi, Collective::scatter, send_count, send_type, InPlace(receive), receive_count,
                                receive_type, root, comm);
  if (!call) return below(send, send_count, send_type, receive, receive_count, receive_type, root, comm);
  return Conclude(call, [&] {
    const auto bytes = BytesOf(call.own);
    if (!call.is_root) {
      const Incoming in(mpi, comm, receive, call.own.count, *call.own.type);
      return in.Deliver(tuttiScatter(nullptr, in.data(), bytes, tuttiUint8, root, call.tutti, nullptr));
    }
    const Outgoing out(mpi, comm, send, call.all.count * call.ranks(), *call.all.type);
    if (InPlace(receive)) {  // to where Tutti finds it already
      auto* const own = const_cast<std::byte*>(At(out.data(), static_cast<std::ptrdiff_t>(call.rank() * bytes)));
      return tuttiScatter(out.data(), own, bytes, tuttiUint8, root, call.tutti, nullptr);
    }
    const Incoming in(mpi, comm, receive, call.own.count, *call.own.type);
    return in.Deliver(tuttiScatter(out.data(), in.data(), bytes, tuttiUint8, root, call.tutti, nullptr));
  });
}

template <typename Count, typename Mpi>
int Alltoall(const Below& mpi, Mpi below, const void* send, Count send_count, MPI_Datatype send_type, void* receive,
             Count receive_count, MPI_Datatype receive_type, MPI_Comm comm) {
  const auto call = BeginSymmetric(mpi, Collective::alltoall, InPlace(send), send_count, send_type, receive_count,
                                   receive_type, comm);
  if (!call) return below(send, send_count, send_type, receive, receive_count, receive_type, comm);
  return Conclude(call, [&] {
    const auto& [to, from] = std::tie(call.to, call.from);
    const Outgoing out(mpi, comm, InPlace(send) ? receive : send, from.count * call.ranks(), *from.type);
    const Incoming in(mpi, comm, receive, to.count * call.ranks(), *to.type);
    return in.Deliver(tuttiAlltoAll(out.data(), in.data(), BytesOf(from), tuttiUint8, call.tutti, nullptr));
  });
}

int Barrier(const Below& mpi, MPI_Comm comm) {
  auto call = Begin(mpi, comm);
  if (call.communicator != nullptr) Choose(call, Collective::barrier, true);
  if (!call) return mpi.Barrier(comm);
  return Conclude(call, [&] {
    const auto result = tuttiBarrier(call.tutti, nullptr);
    // After MPI's own, what others sent before it has arrived, and programs ask for it once.
    if (result == tuttiSuccess) call.communicator->MoveMessages();
    return result;
  });
}

}  // namespace
}  // namespace tutti::pmpi

using namespace tutti::pmpi;  // NOLINT: this file is the C boundary of that namespace

extern "C" {

TUTTI_API int MPI_Barrier(MPI_Comm comm) {
  const tutti::CallsFrom caller;
  const auto& mpi = TheBelow();
  return Barrier(mpi, comm);
}

TUTTI_API int MPI_Bcast(void* buffer, int count, MPI_Datatype type, int root, MPI_Comm comm) {
  const tutti::CallsFrom caller;
  const auto& mpi = TheBelow();
  return Bcast(mpi, mpi.Bcast, buffer, count, type, root, comm);
}

TUTTI_API int MPI_Allgather(const void* send, int send_count, MPI_Datatype send_type, void* receive, int receive_count,
                            MPI_Datatype receive_type, MPI_Comm comm) {
  const tutti::CallsFrom caller;
  const auto& mpi = TheBelow();
  return Allgather(mpi, mpi.Allgather, send, send_count, send_type, receive, receive_count, receive_type, comm);
}

TUTTI_API int MPI_Gather(const void* send, int send_count, MPI_Datatype send_type, void* receive, int receive_count,
                         MPI_Datatype receive_type, int root, MPI_Comm comm) {
  const tutti::CallsFrom caller;
  const auto& mpi = TheBelow();
  return Gather(mpi, mpi.Gather, send, send_count, send_type, receive, receive_count, receive_type, root, comm);
}

TUTTI_API int MPI_Scatter(const void* send, int send_count, MPI_Datatype send_type, void* receive, int receive_count,
                          MPI_Datatype receive_type, int root, MPI_Comm comm) {
  const tutti::CallsFrom caller;
  const auto& mpi = TheBelow();
  return Scatter(mpi, mpi.Scatter, send, send_count, send_type, receive, receive_count, receive_type, root, comm);
}

TUTTI_API int MPI_Alltoall(const void* send, int send_count, MPI_Datatype send_type, void* receive, int receive_count,
                           MPI_Datatype receive_type, MPI_Comm comm) {
  const tutti::CallsFrom caller;
  const auto& mpi = TheBelow();
  return Alltoall(mpi, mpi.Alltoall, send, send_count, send_type, receive, receive_count, receive_type, comm);
}

#if MPI_VERSION >= 4
TUTTI_API int MPI_Bcast_c(void* buffer, MPI_Count count, MPI_Datatype type, int root, MPI_Comm comm) {
  const tutti::CallsFrom caller;
  const auto& mpi = TheBelow();
  return Bcast(mpi, mpi.Bcast_c, buffer, count, type, root, comm);
}

TUTTI_API int MPI_Allgather_c(const void* send, MPI_Count send_count, MPI_Datatype send_type, void* receive,
                              MPI_Count receive_count, MPI_Datatype receive_type, MPI_Comm comm) {
  const tutti::CallsFrom caller;
  const auto& mpi = TheBelow();
  return Allgather(mpi, mpi.Allgather_c, send, send_count, send_type, receive, receive_count, receive_type, comm);
}

TUTTI_API int MPI_Gather_c(const void* send, MPI_Count send_count, MPI_Datatype send_type, void* receive,
                           MPI_Count receive_count, MPI_Datatype receive_type, int root, MPI_Comm comm) {
  const tutti::CallsFrom caller;
  const auto& mpi = TheBelow();
  return Gather(mpi, mpi.Gather_c, send, send_count, send_type, receive, receive_count, receive_type, root, comm);
}

TUTTI_API int MPI_Scatter_c(const void* send, MPI_Count send_count, MPI_Datatype send_type, void* receive,
                            MPI_Count receive_count, MPI_Datatype receive_type, int root, MPI_Comm comm) {
  const tutti::CallsFrom caller;
  const auto& mpi = TheBelow();
  return Scatter(mpi, mpi.Scatter_c, send, send_count, send_type, receive, receive_count, receive_type, root, comm);
}

TUTTI_API int MPI_Alltoall_c(const void* send, MPI_Count send_count, MPI_Datatype send_type, void* receive,
                             MPI_Count receive_count, MPI_Datatype receive_type, MPI_Comm comm) {
  const tutti::CallsFrom caller;
  const auto& mpi = TheBelow();
  return Alltoall(mpi, mpi.Alltoall_c, send, send_count, send_type, receive, receive_count, receive_type, comm);
}
#endif

}  // extern "C"
