#include "parallel/mesh/calls_from_user.h"

#include <unwind.h>

#include <cstdint>

// The linker's names for the bounds of the library that this file is in.
extern "C" {
[[gnu::visibility("hidden")]] extern const char __ehdr_start;
[[gnu::visibility("hidden")]] extern const char _end;
}

namespace tutti::parallel {
namespace {

bool IsInThisLibrary(std::uintptr_t address) {
  return address >= reinterpret_cast<std::uintptr_t>(&__ehdr_start) &&
         address < reinterpret_cast<std::uintptr_t>(&_end);
}

_Unwind_Reason_Code LookAtCaller(_Unwind_Context* context, void* found) {
  const std::uintptr_t address = _Unwind_GetIP(context);
  if (IsInThisLibrary(address)) return _URC_NO_REASON;
  *static_cast<std::uintptr_t*>(found) = address;
  return _URC_END_OF_STACK;
}

bool CallerIsNamed() {
  tuttiCallSite_t named;
  tuttiCallSiteSuspend(&named);
  tuttiCallSiteBegin(&named);
  return named.key != 0;
}

}  // namespace

std::uint64_t CallsFromUser::SiteOfUser(const void* returns_to) {
  if (CallerIsNamed()) return 0;
  auto address = reinterpret_cast<std::uintptr_t>(returns_to);
  if (IsInThisLibrary(address)) _Unwind_Backtrace(&LookAtCaller, &address);
  return address;
}

}  // namespace tutti::parallel
