// How MPI's datatypes lie in memory. Ranks may describe the same data by different types, so what a call sends is taken
// as bytes in the order of the type's signature. Where a rank's own type is not simply these bytes in a row, the rank
// packs and unpacks them; no other rank needs to know.
//
// Thread-safety: any thread.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <memory>
#include <optional>

#include "interop/pmpi/below.h"
#include "interop/pmpi/type_map.h"
#include "tutti/tutti.h"

namespace tutti::pmpi {

struct Arithmetic {
  tuttiDataType_t type;
  bool complex = false;
};

struct Datatype {
  MPI_Datatype handle{};
  std::size_t bytes = 0;                 // of data
  std::ptrdiff_t extent = 0;             // from one element to the next
  bool compact = false;                  // an element takes as many bytes as it has data, from its address on
  bool dense = false;                    // and they are in the signature's order. A type without data is dense
  std::optional<Arithmetic> arithmetic;  // nullopt: Tutti has none for it
  std::shared_ptr<const TypeMap> map;  // of a type that is not dense and too long for MPI_Pack; null: MPI does not tell
};

// What MPI says of a type, without its order: `dense` only if it has no data. nullopt if MPI refuses the handle.
std::optional<Datatype> Describe(const Below& mpi, MPI_Datatype handle);

// Null: MPI refuses the handle, so the MPI below shall report it. Valid until the type is freed.
const Datatype* DatatypeOf(const Below& mpi, MPI_Datatype handle);

using Bytes = std::unique_ptr<std::byte[]>;

// The data of `count` elements at `data`: bytes in a row. Throws std::bad_alloc, or std::runtime_error with a sentence if
// MPI cannot pack them.
class Outgoing {
 public:
  Outgoing(const Below& mpi, MPI_Comm comm, const void* data, std::size_t count, const Datatype& type);
  const std::byte* data() const { return data_; }

 private:
  const std::byte* data_;
  Bytes copy_;
};

// Where bytes in a row for `count` elements at `data` are to arrive. Deliver() puts them there. Both throw as Outgoing.
class Incoming {
 public:
  Incoming(const Below& mpi, MPI_Comm comm, void* data, std::size_t count, const Datatype& type);
  std::byte* data() const { return arrive_; }
  tuttiResult_t Deliver(tuttiResult_t result) const;  // if it is tuttiSuccess; returns it

 private:
  const Below& mpi_;
  MPI_Comm comm_;
  void* data_;
  std::size_t count_;
  const Datatype& type_;
  std::byte* arrive_;
  Bytes copy_;
};

// The parts of both, for calls whose blocks lie apart.
void Pack(const Below& mpi, MPI_Comm comm, const void* data, std::size_t count, const Datatype& type, std::byte* bytes);
void Unpack(const Below& mpi, MPI_Comm comm, const std::byte* bytes, void* data, std::size_t count,
            const Datatype& type);

}  // namespace tutti::pmpi
