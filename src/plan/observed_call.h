// A user's call that the library on top observes (tutti/extension.h). All copies of the call's operation share it; it
// ends with the last of them, also where the operation never began.
//
// Thread-safety: the functions one after the other.
#pragma once

#include <cstddef>
#include <memory>

#include "tutti/extension.h"

namespace tutti::plan {

struct Operation;
struct Choice;

class ObservedCall {
 public:
  // REQUIRES: `observer` is a communicator's, not null. `stream` as the user gave it.
  ObservedCall(void* observer, const Operation& operation, tuttiStream_t stream);
  ~ObservedCall();
  ObservedCall(const ObservedCall&) = delete;
  ObservedCall& operator=(const ObservedCall&) = delete;

  // The user's call returns.
  void Returns() const;
  // The operation begins by that plan, in so many channels; and ends.
  void Begin(const Choice& choice, std::size_t channels) const;
  void End() const;

 private:
  void* call_;
};

}  // namespace tutti::plan
