#include "interop/torch/csrc/ops/transfer.h"

#include "interop/torch/csrc/failure.h"

namespace tutti::pytorch {
namespace {

constexpr int kSender = 0;
constexpr int kReceiver = 1;

}  // namespace

void SendTo(const On& on, const at::Tensor& tensor) {
  const auto type = ToMove(tensor.scalar_type()).type;
  Check(tuttiSend(tensor.data_ptr(), Count(tensor), type, kReceiver, on.comm, on.stream), on.comm);
}

void ReceiveFrom(const On& on, const at::Tensor& tensor) {
  const auto type = ToMove(tensor.scalar_type()).type;
  Check(tuttiRecv(tensor.data_ptr(), Count(tensor), type, kSender, on.comm, on.stream), on.comm);
}

}  // namespace tutti::pytorch
