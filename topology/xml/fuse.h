// Fuses hosts into a communicator's system: each host's graph travels as bytes, all of them become one graph.
//
// Thread-safety: pure functions.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "topology/graph/system.h"

namespace tutti::xml {

// One host as it is sent: the XML of xml.h, 7 KB for 8 GPUs and 8 ports, so that a peer's bytes are checked like a
// file. Bandwidths become those of the link constants again; a calibration is applied after fusing.
std::string Serialize(const topology::System& host);
// Throws tuttiInvalidArgument for bytes that are no topology or have several hosts; `sender` appears in the message.
topology::System Deserialize(std::string_view bytes, const std::string& sender);

// One graph of all parts: hosts are numbered in this order, all ports hang on one network. Ranks stay as they are.
topology::System Fuse(std::span<const topology::System> parts);
// `hosts` hosts like this one (or these). Ranks, if there are any, go on counting from host to host.
// REQUIRES: hosts >= 1.
topology::System Replicate(const topology::System& system, int hosts);

// Gives every GPU a rank: the one it has, if together they are 0, 1, ...; else host by host, on each by rank where
// known and then by device number. Returns the GPUs by rank.
std::vector<int> PlaceRanks(topology::System& system);

}  // namespace tutti::xml
