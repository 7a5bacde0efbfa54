#include "src/api/argument_checks.h"

#include "base/error.h"

namespace tutti::api {

void RefuseType(tuttiDataType_t type) {
  Throw(tuttiInvalidArgument, "datatype {} does not exist; valid values are 0 to {}", static_cast<int>(type),
        tuttiNumTypes - 1);
}

void RefuseOp(tuttiRedOp_t op) {
  Throw(tuttiInvalidArgument, "op {} is neither 0 to {} nor an operator made by tuttiRedOpCreatePreMulSum on this comm",
        static_cast<int>(op), tuttiNumOps - 1);
}

void RefuseCount(const char* name, std::size_t count, std::size_t blocks, tuttiDataType_t type) {
  Throw(tuttiInvalidArgument, "{} is {}: {} blocks of that many {} elements do not fit in memory{}", name, count,
        blocks, NameOf(type), count > kMostBytes ? " (was it negative?)" : "");
}

void RefusePointer(const char* name, const void* pointer, std::size_t bytes, tuttiDataType_t type) {
  if (pointer == nullptr) Throw(tuttiInvalidArgument, "{} is NULL, but {} bytes are needed there", name, bytes);
  if ((reinterpret_cast<std::uintptr_t>(pointer) & (SizeOf(type) - 1)) != 0) {
    Throw(tuttiInvalidArgument, "{} ({}) is not aligned to the {} bytes of {}", name, pointer, SizeOf(type),
          NameOf(type));
  }
  Throw(tuttiInvalidArgument, "{} ({}) plus {} bytes is past the end of memory", name, pointer, bytes);
}

void RefuseOverlap(const Range& send, const Range& receive) {
  Throw(tuttiInvalidArgument,
        "sendbuff [{}, +{}) and recvbuff [{}, +{}) overlap, but not as the in-place form of this collective allows",
        send.begin, send.bytes, receive.begin, receive.bytes);
}

}  // namespace tutti::api
