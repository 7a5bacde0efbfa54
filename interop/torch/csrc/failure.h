// What a call of the library that did not succeed becomes inside this room: an exception with the library's sentence.
//
// Thread-safety: functions may be called from any thread.
#pragma once

#include <tutti/tutti.h>

#include <stdexcept>
#include <string>

namespace tutti::pytorch {

// Something that a communicator, or the making of one, answered. It becomes torch.distributed.DistBackendError.
class Failure : public std::runtime_error {
 public:
  Failure(tuttiResult_t code, const std::string& message);
  tuttiResult_t code() const { return code_; }

 private:
  tuttiResult_t code_;
};

// Throws unless `result` is success. `comm` had the call; null: it had none, and this thread made it.
void Check(tuttiResult_t result, tuttiComm_t comm);

// The calls that this thread makes while it lives are collected, and run together at End.
class Together {
 public:
  explicit Together(tuttiComm_t comm);
  ~Together();  // without End, after an exception: ends it all the same, for a group belongs to the thread
  Together(const Together&) = delete;
  Together& operator=(const Together&) = delete;

  void End();

 private:
  const tuttiComm_t comm_;
  bool open_ = true;
};

}  // namespace tutti::pytorch
