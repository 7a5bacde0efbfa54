// How a datatype is built, as MPI tells it. Types that are too long for MPI_Pack, or dear to pack, are read this way: whether
// their bytes lie in a row, and where each of them lies.
//
// Thread-safety: immutable once made.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <memory>
#include <vector>

#include "interop/pmpi/below.h"

namespace tutti::pmpi {

struct TypeMap;

// `blocks` times `count` elements of a type; the first block lies `at` bytes behind the element's address.
struct TypePart {
  std::ptrdiff_t at = 0;
  std::size_t blocks = 1;
  std::ptrdiff_t stride = 0;  // bytes from one block to the next
  std::size_t count = 0;
  std::shared_ptr<const TypeMap> type;
};

struct TypeMap {
  std::size_t bytes = 0;        // of data
  std::ptrdiff_t extent = 0;    // from one element to the next
  bool dense = false;           // as Datatype::dense
  std::vector<TypePart> parts;  // in the signature's order; empty if it is dense
};

// Null: MPI does not tell how the type is built, or it is of a kind that is not read here.
std::shared_ptr<const TypeMap> TypeMapOf(const Below& mpi, MPI_Datatype handle);

// Calls row(at, bytes) for all data of `count` elements, in the signature's order.
template <typename Row>
void ForEachRow(const TypeMap& map, std::size_t count, std::ptrdiff_t at, const Row& row) {
  if (map.dense) return row(at, count * map.bytes);
  for (std::size_t element = 0; element < count; ++element) {
    for (const auto& part : map.parts) {
      for (std::size_t block = 0; block < part.blocks; ++block) {
        ForEachRow(*part.type, part.count, at + part.at + static_cast<std::ptrdiff_t>(block) * part.stride, row);
      }
    }
    at += map.extent;
  }
}

}  // namespace tutti::pmpi
