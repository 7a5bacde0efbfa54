// libFuzzer target. Topology files are untrusted, and peers send theirs: any bytes either give a consistent graph or
// are refused. The parsed graph is written and read again: nothing may be lost, and the second writing must equal the
// first.
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "topology/xml/xml.h"

namespace {

void Require(bool promise) {
  if (!promise) __builtin_trap();
}

void RequireSound(const tutti::topology::System& system) {
  const int devices = static_cast<int>(system.devices.size());
  for (const auto& link : system.links) {
    Require(0 <= link.from && link.from < devices && 0 <= link.to && link.to < devices && link.from != link.to);
    Require(link.bandwidth >= 0 && link.latency > 0);
  }
  Require(system.All(tutti::topology::DeviceKind::network).size() <= 1 && system.hosts() >= 1);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tutti::topology::System system;
  try {
    system = tutti::xml::ParseTopology({reinterpret_cast<const char*>(data), size}, "fuzz").system;
  } catch (const tutti::Error& error) {
    Require(error.code() == tuttiInvalidArgument);
    return 0;
  }
  RequireSound(system);
  const std::string written = tutti::xml::WriteTopology(system);
  const auto again = tutti::xml::ParseTopology(written, "again").system;
  Require(tutti::xml::WriteTopology(again) == written);
  if (system.hosts() == 1) Require(again == system);
  return 0;
}
