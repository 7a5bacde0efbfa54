// libFuzzer target. JSON from files, and binary JSON from ranks: any bytes become a bounded tree, or are refused by an
// Error of one line that is safe to show on a terminal. The getters refuse in the same way.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/files/json.h"
#include "base/plain_text.h"

namespace {

void Require(bool promise) {
  if (!promise) __builtin_trap();
}

template <typename Body>
void ExpectOnlyErrors(Body&& body) {
  try {
    body();
  } catch (const tutti::Error& error) {
    Require(error.code() == tuttiInvalidArgument && tutti::IsPrintable(error.what()));
    Require(std::string_view(error.what()).size() < 2 * tutti::kMaxSentence);
  }
}

void Ask(const tutti::JsonValue& value, int depth) {
  if (!value.IsObject()) return ExpectOnlyErrors([&] { value.Has("a"); });
  Require(depth <= tutti::JsonLimits().depth);  // a value that is no tree adds no level
  for (const auto& named : value.Entries()) {
    const auto& key = named.first;
    const auto& entry = named.second;
    ExpectOnlyErrors([&] { value.Whole(key, 1, 9); });
    ExpectOnlyErrors([&] { value.Integer(key, -9, 9, 0); });
    ExpectOnlyErrors([&] { value.Number(key, 0, 1e9); });
    ExpectOnlyErrors([&] { value.Flag(key); });
    ExpectOnlyErrors([&] { Require(tutti::IsPrintable(value.Text(key))); });
    ExpectOnlyErrors([&] {
      for (const auto& each : value.List(key)) Ask(each, depth + 1);
    });
    Require(!entry.Spelled().empty());
    Ask(entry, depth + 1);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  ExpectOnlyErrors([&] { Ask(tutti::JsonDocument({reinterpret_cast<const char*>(data), size}, "file").root(), 1); });
  ExpectOnlyErrors([&] { Ask(tutti::JsonDocument::FromBinary({data, size}, "rank 0").root(), 1); });
  return 0;
}
