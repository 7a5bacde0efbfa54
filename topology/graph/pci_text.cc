#include "topology/graph/pci_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "topology/graph/link_constants.h"

namespace tutti::topology {
namespace {

bool IsHex(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return ('0' <= c && c <= '9') || ('a' <= c && c <= 'f'); });
}

}  // namespace

std::string CanonicalBusId(std::string_view text) {
  constexpr std::size_t kMaxDomainDigits = 8, kLeastDomainDigits = 4;
  constexpr std::size_t kRest = 7;  // "10:1c.0"
  std::string bus_id(text);
  std::transform(bus_id.begin(), bus_id.end(), bus_id.begin(),
                 [](char c) { return 'A' <= c && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c; });
  if (bus_id.size() == kRest) bus_id.insert(0, "0:");
  const std::string_view whole = bus_id;
  const auto colon = whole.find(':');
  if (colon == std::string_view::npos || colon == 0 || colon > kMaxDomainDigits) return {};
  const auto rest = whole.substr(colon + 1);
  if (rest.size() != kRest || rest[2] != ':' || rest[5] != '.' || rest[6] < '0' || rest[6] > '7') return {};
  if (!IsHex(whole.substr(0, colon)) || !IsHex(rest.substr(0, 2)) || !IsHex(rest.substr(3, 2))) return {};
  const auto zeros = std::min(whole.find_first_not_of('0'), colon);
  const auto domain = whole.substr(zeros, colon - zeros);
  return fmt::format("{:0>{}}:{}", domain, kLeastDomainDigits, rest);
}

std::string MakeBusId(unsigned domain, unsigned bus, unsigned device, unsigned function) {
  return fmt::format("{:04x}:{:02x}:{:02x}.{:x}", domain, bus, device, function);
}

std::optional<double> ParsePciSpeed(std::string_view text) {
  if (text.empty() || text.starts_with("Unknown")) return 0;
  double speed = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), speed);
  const auto unit = text.substr(static_cast<std::size_t>(end - text.data()));
  if (status != std::errc() || !unit.starts_with(" GT/s") || !IsPciSpeed(speed)) return std::nullopt;
  return speed;
}

}  // namespace tutti::topology
