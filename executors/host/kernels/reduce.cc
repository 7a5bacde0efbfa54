#include "executors/host/kernels/reduce.h"

#include "executors/host/kernels/reduce_targets.h"

namespace tutti::host_kernels {

ReduceFunction SelectReduce(tuttiDataType_t type, tuttiRedOp_t op) {
  switch (VisitDataType(type, []<typename Element>(std::type_identity<Element>) { return GroupOf<Element>(); })) {
    case Group::integer: return SelectReduceInteger(type, op);
    case Group::floating: return SelectReduceFloat(type, op);
    case Group::float16: return SelectReduceFloat16(type, op);
    case Group::float8: return SelectReduceFloat8(type, op);
  }
  __builtin_unreachable();
}

}  // namespace tutti::host_kernels
