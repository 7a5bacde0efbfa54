// MPI's predefined handles. In Open MPI's ABI they are addresses of objects in its library, which this library does not
// link; so all of them are looked up here, once.
//
// Thread-safety: constant after the first call.
#pragma once

#include <mpi.h>

#include <optional>
#include <vector>

#include "tutti/tutti.h"

namespace tutti::pmpi {

struct NamedType {
  MPI_Datatype handle;
  std::optional<tuttiDataType_t> type;  // that MPI's arithmetic on it is; nullopt: none
  bool complex = false;                 // two of `type`
};

struct Constants {
  MPI_Comm comm_world, comm_self, comm_null;
  MPI_Datatype type_null, byte, int_, uint64;
  MPI_Op sum, prod, max, min;
  std::vector<NamedType> types;
};

// REQUIRES: the MPI below is found.
const Constants& TheConstants();

}  // namespace tutti::pmpi
