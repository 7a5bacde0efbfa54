#include "executors/host/kernels/reduce.h"

#include "executors/host/kernels/reduce_targets.h"

namespace tutti::host_kernels {

ReduceFunction SelectReduce(tuttiDataType_t type, tuttiRedOp_t op) {
  switch (type) {
    case tuttiFloat32:
    case tuttiFloat64: return SelectReduceFloat(type, op);
    case tuttiFloat16:
    case tuttiBfloat16: return SelectReduceFloat16(type, op);
    case tuttiFloat8e4m3:
    case tuttiFloat8e5m2: return SelectReduceFloat8(type, op);
    default: return SelectReduceInteger(type, op);
  }
}

}  // namespace tutti::host_kernels
