// libFuzzer target. Interface lists and host:port texts.
#include <cstdint>

#include "src/bootstrap/hostile/parsers_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tutti::fuzzing::Names(std::as_bytes(std::span(data, size)));
  return 0;
}
