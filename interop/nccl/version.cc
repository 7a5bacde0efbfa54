#include "interop/nccl/version.h"

#include <array>
#include <charconv>
#include <string>

#include "interop/nccl/failure.h"

namespace tutti::nccl {
namespace {

// The version whose functions this library has. nccl.h claims an older one, so that programs built against it do not ask
// for functions inside kernels.
constexpr int kDefault = NCCL_VERSION(2, 32, 3);
constexpr int kOldest = NCCL_VERSION(2, 9, 0);
constexpr int kPastNewest = NCCL_VERSION(3, 0, 0);

// Removes the number at the start of `text` and returns it.
std::optional<int> TakeNumber(std::string_view& text) {
  int value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || value < 0) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

// Read once, because settings do not change.
const std::string& Setting() {
  static const std::string text = [] {
    const char *name = nullptr, *value = nullptr;
    for (int i = 0;; ++i) {
      Check(tuttiGetSetting(i, &name, &value));
      if (std::string_view(name) == "TUTTI_NCCL_VERSION") return std::string(value);
    }
  }();
  return text;
}

}  // namespace

std::optional<int> ParseVersion(std::string_view text) {
  constexpr int kDigits = 100;  // a minor number or patch has two
  std::array<int, 3> parts{};
  std::size_t count = 0;
  for (auto& part : parts) {
    const auto number = TakeNumber(text);
    if (!number) return std::nullopt;
    part = *number;
    ++count;
    if (text.empty()) break;
    if (text.front() != '.') return std::nullopt;
    text.remove_prefix(1);
  }
  const auto [major, minor, patch] = parts;
  if (!text.empty() || (count > 1 && (minor >= kDigits || patch >= kDigits || major >= kDigits))) return std::nullopt;
  const int code = count == 1 ? major : NCCL_VERSION(major, minor, patch);
  return code >= kOldest && code < kPastNewest ? std::optional(code) : std::nullopt;
}

int Version() {
  const auto& text = Setting();
  if (text.empty()) return kDefault;
  if (const auto version = ParseVersion(text)) return *version;
  Refuse(ncclInvalidArgument,
         "TUTTI_NCCL_VERSION=\"{}\" is not a version of NCCL; it takes e.g. 2.27.7 or 22707, from 2.9.0 to below 3",
         text);
}

int VersionOrDefault() noexcept {
  try {
    return Version();
  } catch (...) {
    return kDefault;
  }
}

}  // namespace tutti::nccl
