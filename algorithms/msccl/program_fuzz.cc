// libFuzzer target. Parses algorithms from a file, and verifies those with few ranks and blocks.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "algorithms/msccl/program.h"
#include "base/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t kFewRanks = 8;
  try {
    auto program = tutti::msccl::ParseProgram({reinterpret_cast<const char*>(data), size}, "program.xml");
    if (program.ranks.size() <= kFewRanks && program.ranks.front().blocks <= 64) tutti::msccl::Prove(program);
  } catch (const tutti::Error&) {
    // Refused.
  }
  return 0;
}
