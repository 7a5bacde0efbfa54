#include "interop/torch/transfer.h"

#include "interop/torch/failure.h"

namespace tutti::pytorch {
namespace {

constexpr int kSender = 0;
constexpr int kReceiver = 1;

}  // namespace

void SendTo(tuttiComm_t comm, const at::Tensor& tensor) {
  const auto type = ToMove(tensor.scalar_type()).type;
  Check(tuttiSend(tensor.data_ptr(), Count(tensor), type, kReceiver, comm, nullptr), comm);
}

void ReceiveFrom(tuttiComm_t comm, const at::Tensor& tensor) {
  const auto type = ToMove(tensor.scalar_type()).type;
  Check(tuttiRecv(tensor.data_ptr(), Count(tensor), type, kSender, comm, nullptr), comm);
}

}  // namespace tutti::pytorch
