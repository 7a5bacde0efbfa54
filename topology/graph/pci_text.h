// PCI addresses and speeds as Linux and XML files write them.
//
// Thread-safety: pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tutti::topology {

// As sysfs writes it: "0000:10:1c.0", in lower case, with at least 4 digits of the domain. Others write the same place with
// more ("00000000:10:1C.0", nvidia-smi), fewer, or none ("10:1c.0", lspci). Empty if the text is no bus id.
std::string CanonicalBusId(std::string_view text);
std::string MakeBusId(unsigned domain, unsigned bus, unsigned device, unsigned function);

// GT/s of "16.0 GT/s PCIe" or "16 GT/s"; 0 for "" and "Unknown ...", which sysfs shows for an unknown speed; nullopt
// for any other text, or a speed that PCI does not have.
std::optional<double> ParsePciSpeed(std::string_view text);

}  // namespace tutti::topology
