#include "src/api/argument_checks.h"

#include "base/datatype.h"
#include "base/error.h"

namespace tutti {
namespace {

bool Overlap(const Range& a, const Range& b) {
  const auto x = reinterpret_cast<std::uintptr_t>(a.begin), y = reinterpret_cast<std::uintptr_t>(b.begin);
  return a.bytes != 0 && b.bytes != 0 && x < y + b.bytes && y < x + a.bytes;
}

}  // namespace

void CheckType(tuttiDataType_t type) {
  if (!IsDataType(type)) {
    Throw(tuttiInvalidArgument, "datatype {} is none; there are 0 to {}", static_cast<int>(type), tuttiNumTypes - 1);
  }
}

void CheckOp(tuttiRedOp_t op) {
  // User-made operators have been replaced before (api_collectives.cc).
  if (op < 0 || op >= tuttiNumOps) {
    Throw(tuttiInvalidArgument, "op {} is neither one of 0 to {} nor made by tuttiRedOpCreatePreMulSum on this comm",
          static_cast<int>(op), tuttiNumOps - 1);
  }
}

std::size_t CheckedBytes(const char* name, std::size_t count, std::size_t blocks, tuttiDataType_t type) {
  constexpr auto kMost = std::size_t{1} << 56;  // no processor gives a program more than 57 bits of addresses
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(count, blocks * SizeOf(type), &bytes) || bytes > kMost) [[unlikely]] {
    Throw(tuttiInvalidArgument, "{} is {}: {} blocks of so many {} elements are more than memory can hold{}", name,
          count, blocks, NameOf(type), count > kMost ? " (was it negative?)" : "");
  }
  return bytes;
}

void CheckPointer(const char* name, const void* pointer, std::size_t bytes, tuttiDataType_t type) {
  if (bytes == 0) return;
  if (pointer == nullptr) Throw(tuttiInvalidArgument, "{} is NULL, but {} bytes are needed there", name, bytes);
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  if ((address & (SizeOf(type) - 1)) != 0) {
    Throw(tuttiInvalidArgument, "{} ({}) is not aligned to the {} bytes of {}", name, pointer, SizeOf(type),
          NameOf(type));
  }
  if (address + bytes < address)
    Throw(tuttiInvalidArgument, "{} ({}) plus {} bytes is past the end of memory", name, pointer, bytes);
}

bool CheckOverlap(const Range& send, const Range& receive, const void* a, const void* b) {
  if (a != nullptr && a == b) return true;
  if (!Overlap(send, receive)) return false;
  Throw(tuttiInvalidArgument,
        "sendbuff [{}, +{}) and recvbuff [{}, +{}) overlap, but not as the in-place form of this collective allows",
        send.begin, send.bytes, receive.begin, receive.bytes);
}

}  // namespace tutti
