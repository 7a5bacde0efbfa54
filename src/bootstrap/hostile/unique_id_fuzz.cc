// libFuzzer target. The 128 bytes of a unique id, and the addresses in it.
#include <cstdint>

#include "src/bootstrap/hostile/parsers_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tutti::fuzzing::UniqueId(std::as_bytes(std::span(data, size)));
  return 0;
}
