#include "transports/ring/control_block.h"

#include <cstring>
#include <string>

#include "base/plain_text.h"

namespace tutti::ring {

Error ReadFailure(const ControlBlock& control) {
  // Copied once: the copy that is checked is the one that is used.
  const auto code = control.fault_code.load(std::memory_order_relaxed);
  const auto text = control.fault_text;
  const bool known = code != tuttiSuccess && code != tuttiInProgress && code < tuttiNumResults;
  auto message = Printable({text.data(), strnlen(text.data(), text.size())});
  if (known) return {static_cast<tuttiResult_t>(code), std::move(message)};
  return {tuttiRemoteError, fmt::format("another rank failed, with the unknown code {}: {}", code, message)};
}

}  // namespace tutti::ring
