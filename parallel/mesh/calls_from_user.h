// Names the line of the user's code for the calls of Tutti that this library makes, for messages (tutti/extension.h).
// Most public functions call others before they call Tutti, and code of the user may lie between them: a pipeline's stage
// is called by the pipeline, and calls a layer. So the line is looked for where Tutti is called: it is that of the nearest
// caller outside this library.
//
// Thread-safety: each object belongs to the thread that makes it.
#pragma once

#include <cstdint>

#include "tutti/extension.h"

namespace tutti::parallel {

class CallsFromUser {
 public:
  // For an object in a function that calls Tutti. Has no effect if a library further out has named its caller.
  [[gnu::always_inline]] CallsFromUser() : user_{SiteOfUser(__builtin_return_address(0)), nullptr}, named_(&user_) {}
  CallsFromUser(const CallsFromUser&) = delete;
  CallsFromUser& operator=(const CallsFromUser&) = delete;

 private:
  // The address in the user's code to which this library returns; 0: not to be named. `returns_to`: that of the function
  // itself. A microsecond if that is in this library.
  static std::uint64_t SiteOfUser(const void* returns_to);

  const tuttiCallSite_t user_;
  const CallsFrom named_;
};

}  // namespace tutti::parallel
