#include "interop/torch/csrc/failure.h"

namespace tutti::pytorch {

Failure::Failure(tuttiResult_t code, const std::string& message) : std::runtime_error(message), code_(code) {}

void Check(tuttiResult_t result, tuttiComm_t comm) {
  if (result == tuttiSuccess) return;
  std::string message = std::string("tutti: ") + tuttiGetErrorString(result);
  const std::string sentence = tuttiGetLastError(comm);
  if (!sentence.empty()) message += ": " + sentence;
  throw Failure(result, message);
}

Together::Together(tuttiComm_t comm) : comm_(comm) { Check(tuttiGroupStart(), nullptr); }

Together::~Together() {
  if (open_) static_cast<void>(tuttiGroupEnd());
}

void Together::End() {
  open_ = false;
  Check(tuttiGroupEnd(), comm_);
}

}  // namespace tutti::pytorch
