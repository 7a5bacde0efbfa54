// libFuzzer target. Dumps of the flight recorder: any two texts are either reported as dumps, in lines that are safe
// for a terminal, or refused.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/plain_text.h"
#include "tools/inspect/diagnosis.h"

namespace {

void Require(bool promise) {
  if (!promise) __builtin_trap();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // A form feed ends the first dump, since it cannot occur in JSON.
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto end = text.find('\f');
  try {
    std::vector<tutti::tools::Dump> dumps = {tutti::tools::ParseDump(std::string(text.substr(0, end)), "first.json")};
    if (end != std::string_view::npos) {
      dumps.push_back(tutti::tools::ParseDump(std::string(text.substr(end + 1)), "second.json"));
    }
    std::string told = tutti::tools::Diagnose(dumps);
    std::erase(told, '\n');
    Require(tutti::IsPrintable(told));
  } catch (const tutti::Error& error) {
    Require(error.code() == tuttiInvalidArgument);
  }
  return 0;
}
