// The operators that a program has made for a communicator (tuttiRedOpCreatePreMulSum).
//
// Thread-safety: used by one thread at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "executors/host/kernels/reduce.h"
#include "tutti/tutti.h"

namespace tutti::calls {

struct UserOp {
  tuttiDataType_t type;
  host_kernels::Scalar scalar;
  const void* source;  // read when the collective runs, if not null
};

class UserOps {
 public:
  // Operators that may live at the same time.
  static constexpr std::size_t kMost = 4096;

  // Its number, which no other operator of this process has had lately, on any communicator; so a program that confuses
  // two is told. Throws tuttiInvalidUsage if there are too many.
  tuttiRedOp_t Add(const UserOp& op);
  // Null if it was not made here, or was removed.
  const UserOp* Find(tuttiRedOp_t number) const;
  bool Remove(tuttiRedOp_t number);

 private:
  struct Place {
    tuttiRedOp_t number;  // tuttiSum: free
    UserOp op;
  };
  std::vector<Place> places_;
};

}  // namespace tutti::calls
