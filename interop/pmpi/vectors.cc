// The collectives whose blocks have a length each and lie apart. MPI_Gatherv and MPI_Scatterv stay with MPI: only the
// root knows the lengths, so that Tutti would have to run them as all-to-alls, which is slower.
#include <algorithm>
#include <vector>

#include "interop/pmpi/call.h"
#include "tutti/extension.h"

namespace tutti::pmpi {
namespace {

// One side of a call as Tutti takes it: lengths and places in bytes, from one pointer on.
class Blocks {
 public:
  // Forgets everything; keeps memory for the next call of this thread.
  void Reset(std::size_t ranks) {
    lengths_.assign(ranks, 0);
    places_.assign(ranks, 0);
    counts_.assign(ranks, 0);
    offsets_.assign(ranks, 0);
    type_ = nullptr;
    data_ = user_ = nullptr;
    copy_.reset();
  }
  void Use(const void* user, const Datatype& type) {
    // What is sent is only read, so the pointer is never written through.
    user_ = static_cast<std::byte*>(const_cast<void*>(user));
    type_ = &type;
  }
  // `offset`: bytes from the user's pointer.
  void Set(std::size_t rank, std::size_t count, std::ptrdiff_t offset) {
    counts_[rank] = count;
    offsets_[rank] = offset;
    lengths_[rank] = count * type_->bytes;
  }
  std::size_t total() const {
    std::size_t sum = 0;
    for (const auto length : lengths_) sum += length;
    return sum;
  }
  // Where the blocks lie, from the lowest on; or a place for them back to back, if they are not bytes in a row, or `apart`.
  void Lay(bool apart = false) {
    if (type_ == nullptr) return;
    if (!type_->dense || apart) return LayApart();
    std::ptrdiff_t lowest = 0;
    bool any = false;
    for (std::size_t rank = 0; rank < lengths_.size(); ++rank) {
      if (lengths_[rank] == 0) continue;
      lowest = any ? std::min(lowest, offsets_[rank]) : offsets_[rank];
      any = true;
    }
    data_ = At(user_, lowest);
    for (std::size_t rank = 0; rank < lengths_.size(); ++rank) {
      places_[rank] = lengths_[rank] == 0 ? 0 : static_cast<std::size_t>(offsets_[rank] - lowest);
    }
  }
  void Pack(const Call& call) const {
    if (!copy_) return;
    Each([&](std::byte* user, std::byte* bytes, std::size_t count) {
      pmpi::Pack(call.mpi, call.comm, user, count, *type_, bytes);
    });
  }
  tuttiResult_t Deliver(const Call& call, tuttiResult_t result) const {
    if (!copy_ || result != tuttiSuccess) return result;
    Each([&](std::byte* user, std::byte* bytes, std::size_t count) {
      Unpack(call.mpi, call.comm, bytes, user, count, *type_);
    });
    return result;
  }

  std::byte* data() const { return data_; }
  const std::size_t* lengths() const { return lengths_.data(); }
  const std::size_t* places() const { return places_.data(); }
  // All blocks have one length and lie back to back in order.
  bool Even() const {
    for (std::size_t rank = 0; rank < lengths_.size(); ++rank) {
      if (places_[rank] != rank * lengths_[0]) return false;
    }
    return true;
  }
  bool SameLengths() const {
    return std::ranges::all_of(lengths_, [this](std::size_t length) { return length == lengths_[0]; });
  }

 private:
  void LayApart() {
    std::size_t at = 0;
    for (std::size_t rank = 0; rank < lengths_.size(); ++rank) {
      places_[rank] = at;
      at += lengths_[rank];
    }
    copy_ = std::make_unique_for_overwrite<std::byte[]>(at);
    data_ = copy_.get();
  }
  template <typename Body>
  void Each(Body&& body) const {
    for (std::size_t rank = 0; rank < lengths_.size(); ++rank) {
      if (lengths_[rank] != 0)
        body(At(user_, offsets_[rank]), At(data_, static_cast<std::ptrdiff_t>(places_[rank])), counts_[rank]);
    }
  }

  std::vector<std::size_t> lengths_, places_, counts_;
  std::vector<std::ptrdiff_t> offsets_;
  const Datatype* type_ = nullptr;
  std::byte* data_ = nullptr;
  std::byte* user_ = nullptr;
  Bytes copy_;
};

// A thread is in one call at a time.
struct Sides {
  Blocks send, receive;
};
Sides& CleanSides(std::size_t ranks) {
  thread_local Sides sides;
  sides.send.Reset(ranks);
  sides.receive.Reset(ranks);
  return sides;
}

// All blocks of a side. The type is not null.
template <typename Count, typename Place>
void SetAll(Blocks& blocks, const void* user, const Count* counts, const Place* places, const Datatype& type,
            std::size_t ranks) {
  blocks.Use(user, type);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    blocks.Set(rank, Positive(counts[rank]), static_cast<std::ptrdiff_t>(places[rank]) * type.extent);
  }
}

// In place, the data to send lie where the received data go, so a copy of them is sent.
tuttiResult_t Exchange(const Call& call, Blocks& send, Blocks& receive, bool in_place) {
  send.Lay(in_place);
  receive.Lay();
  send.Pack(call);
  return receive.Deliver(call, tuttiAlltoAllV(send.data(), send.lengths(), send.places(), receive.data(),
                                              receive.lengths(), receive.places(), tuttiUint8, call.tutti, nullptr));
}

template <typename Count, typename Place, typename Mpi>
int Allgatherv(const Below& mpi, Mpi below, const void* send, Count send_count, MPI_Datatype send_type, void* receive,
               const Count* counts, const Place* places, MPI_Datatype receive_type, MPI_Comm comm) {
  auto call = Begin(mpi, comm);
  const Datatype *to = nullptr, *from = nullptr;
  Sides* sides = nullptr;
  if (call.communicator != nullptr && counts != nullptr && places != nullptr) {
    to = DatatypeOf(mpi, receive_type);
    from = InPlace(send) ? to : DatatypeOf(mpi, send_type);
    if (to != nullptr && from != nullptr) {
      sides = &CleanSides(call.ranks());
      SetAll(sides->receive, receive, counts, places, *to, call.ranks());
      Choose(call, Collective::allgatherv, sides->receive.total() != 0);
    }
  }
  if (!call) return below(send, send_count, send_type, receive, counts, places, receive_type, comm);
  return Conclude(call, [&] {
    auto& blocks = sides->receive;
    const auto own = call.rank();
    const auto count = InPlace(send) ? Positive(counts[own]) : Positive(send_count);
    const auto* const data = InPlace(send) ? At(receive, static_cast<std::ptrdiff_t>(places[own]) * to->extent) : send;
    // All ranks see the same lengths, but each has its own places.
    const bool same = blocks.SameLengths();
    blocks.Lay();
    if (same && !blocks.Even()) blocks.Lay(true);
    const Outgoing out(mpi, comm, data, count, *from);
    const auto bytes = count * from->bytes;
    const auto result = same ? tuttiAllGather(out.data(), blocks.data(), bytes, tuttiUint8, call.tutti, nullptr)
                             : tuttiAllGatherV(out.data(), bytes, blocks.data(), blocks.lengths(), blocks.places(),
                                               tuttiUint8, call.tutti, nullptr);
    return blocks.Deliver(call, result);
  });
}

template <typename Count, typename Place, typename Mpi>
int Alltoallv(const Below& mpi, Mpi below, const void* send, const Count* send_counts, const Place* send_places,
              MPI_Datatype send_type, void* receive, const Count* receive_counts, const Place* receive_places,
              MPI_Datatype receive_type, MPI_Comm comm) {
  auto call = Begin(mpi, comm);
  const Datatype *to = nullptr, *from = nullptr;
  const bool given = receive_counts != nullptr && receive_places != nullptr &&
                     (InPlace(send) || (send_counts != nullptr && send_places != nullptr));
  if (call.communicator != nullptr && given) {
    to = DatatypeOf(mpi, receive_type);
    from = InPlace(send) ? to : DatatypeOf(mpi, send_type);
    if (to != nullptr && from != nullptr) Choose(call, Collective::alltoallv, true);
  }
  if (!call) {
    return below(send, send_counts, send_places, send_type, receive, receive_counts, receive_places, receive_type,
                 comm);
  }
  return Conclude(call, [&] {
    auto& sides = CleanSides(call.ranks());
    SetAll(sides.receive, receive, receive_counts, receive_places, *to, call.ranks());
    if (InPlace(send)) {
      SetAll(sides.send, receive, receive_counts, receive_places, *from, call.ranks());
    } else {
      SetAll(sides.send, send, send_counts, send_places, *from, call.ranks());
    }
    return Exchange(call, sides.send, sides.receive, InPlace(send));
  });
}

}  // namespace
}  // namespace tutti::pmpi

using namespace tutti::pmpi;  // NOLINT: this file is the C boundary of that namespace

extern "C" {

TUTTI_API int MPI_Allgatherv(const void* send, int send_count, MPI_Datatype send_type, void* receive,
                             const int counts[], const int places[], MPI_Datatype receive_type, MPI_Comm comm) {
  const tutti::CallsFrom caller;
  const auto& mpi = TheBelow();
  return Allgatherv(mpi, mpi.Allgatherv, send, send_count, send_type, receive, counts, places, receive_type, comm);
}

TUTTI_API int MPI_Alltoallv(const void* send, const int send_counts[], const int send_places[], MPI_Datatype send_type,
                            void* receive, const int receive_counts[], const int receive_places[],
                            MPI_Datatype receive_type, MPI_Comm comm) {
  const tutti::CallsFrom caller;
  const auto& mpi = TheBelow();
  return Alltoallv(mpi, mpi.Alltoallv, send, send_counts, send_places, send_type, receive, receive_counts,
                   receive_places, receive_type, comm);
}

#if MPI_VERSION >= 4
TUTTI_API int MPI_Allgatherv_c(const void* send, MPI_Count send_count, MPI_Datatype send_type, void* receive,
                               const MPI_Count counts[], const MPI_Aint places[], MPI_Datatype receive_type,
                               MPI_Comm comm) {
  const tutti::CallsFrom caller;
  const auto& mpi = TheBelow();
  return Allgatherv(mpi, mpi.Allgatherv_c, send, send_count, send_type, receive, counts, places, receive_type, comm);
}

TUTTI_API int MPI_Alltoallv_c(const void* send, const MPI_Count send_counts[], const MPI_Aint send_places[],
                              MPI_Datatype send_type, void* receive, const MPI_Count receive_counts[],
                              const MPI_Aint receive_places[], MPI_Datatype receive_type, MPI_Comm comm) {
  const tutti::CallsFrom caller;
  const auto& mpi = TheBelow();
  return Alltoallv(mpi, mpi.Alltoallv_c, send, send_counts, send_places, send_type, receive, receive_counts,
                   receive_places, receive_type, comm);
}
#endif

}  // extern "C"
