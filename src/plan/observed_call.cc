#include "src/plan/observed_call.h"

#include "base/extension.h"
#include "base/numbers/datatype.h"
#include "src/plan/planned_call.h"

namespace tutti::plan {

ObservedCall::ObservedCall(void* observer, const Operation& operation, tuttiStream_t stream) {
  const std::size_t bytes = operation.count * SizeOf(operation.type);
  const tuttiCall_t call{schedule::NameOf(operation.collective).data(),  // a literal
                         operation.input,
                         operation.output,
                         operation.count,
                         bytes,
                         operation.type,
                         operation.op,
                         operation.root,
                         stream};
  call_ = TheExtension().callBegins(observer, &call);
}

ObservedCall::~ObservedCall() {
  if (call_ != nullptr) TheExtension().callForgotten(call_);
}

void ObservedCall::Returns() const {
  if (call_ != nullptr) TheExtension().callReturns(call_);
}

void ObservedCall::Begin(const Choice& choice, std::size_t channels) const {
  if (call_ == nullptr) return;
  const tuttiOffer_t plan{choice.candidate.algorithm, ring::NameOf(choice.candidate.config.protocol).data(),
                          static_cast<int>(channels), 0};
  TheExtension().operationBegins(call_, &plan);
}

void ObservedCall::End() const {
  if (call_ != nullptr) TheExtension().operationEnds(call_);
}

}  // namespace tutti::plan
