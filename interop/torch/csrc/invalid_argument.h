// The exception for a call that is refused before anything is sent. Python sees tutti_torch.InvalidArgument: a
// ValueError, as PyTorch's NCCL backend raises, and a RuntimeError, as Gloo's does, so that programs written for either
// catch it.
//
// Thread-safety: functions may be called from any thread.
#pragma once

#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

#include <cstdint>

namespace tutti::pytorch {

class InvalidArgument : public c10::ValueError {
 public:
  using c10::ValueError::ValueError;
};

// Throws InvalidArgument with the parts as its text.
template <typename... Parts>
[[noreturn]] void Refuse(const Parts&... parts) {
  throw InvalidArgument({__func__, __FILE__, static_cast<std::uint32_t>(__LINE__)}, c10::str(parts...));
}

}  // namespace tutti::pytorch
