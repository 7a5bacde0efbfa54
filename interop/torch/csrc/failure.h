// Turns a failed library call into an exception with the library's message.
//
// Thread-safety: functions may be called from any thread.
#pragma once

#include <tutti/tutti.h>

#include <stdexcept>
#include <string>

namespace tutti::pytorch {

// A failure of a communicator, or of making one. Python sees it as torch.distributed.DistBackendError.
class Failure : public std::runtime_error {
 public:
  Failure(tuttiResult_t code, const std::string& message);
  tuttiResult_t code() const { return code_; }

 private:
  tuttiResult_t code_;
};

// Throws unless `result` is success. `comm` is the communicator of the call; null: the call had none, and this thread
// made it.
void Check(tuttiResult_t result, tuttiComm_t comm);

// Collects the library calls that this thread makes during its lifetime; End runs them together.
class Together {
 public:
  explicit Together(tuttiComm_t comm);
  ~Together();  // without End, after an exception: still ends the group, which is the thread's state
  Together(const Together&) = delete;
  Together& operator=(const Together&) = delete;

  void End();

 private:
  const tuttiComm_t comm_;
  bool open_ = true;
};

}  // namespace tutti::pytorch
