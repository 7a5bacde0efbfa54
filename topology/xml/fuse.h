// From hosts to the system that a communicator spans: each host's graph travels as bytes, all of them become one graph.
//
// Thread-safety: pure functions.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "topology/graph/system.h"

namespace tutti {

// One host as it is sent: the XML of xml.h, 7 KB for 8 GPUs and 8 ports, so that a peer is read as warily as a file is.
// Bandwidths are those of the link constants again; a calibration is applied after fusing.
std::string Serialize(const System& host);
// Throws tuttiInvalidArgument for bytes that are no topology, or of more than one host; `sender` stands in the message.
System Deserialize(std::string_view bytes, const std::string& sender);

// One graph of them all: hosts are numbered in this order, all ports hang on one network. Ranks stay as they are.
System Fuse(std::span<const System> parts);
// `hosts` hosts like this one (or these). Ranks, where there are, go on counting from host to host.
// REQUIRES: hosts >= 1.
System Replicate(const System& system, int hosts);

// Gives every GPU a rank: the one it has, if together they are 0, 1, ...; else host by host, on each by rank as far as
// told and then by device number. Returns the GPUs by rank.
std::vector<int> PlaceRanks(System& system);

}  // namespace tutti
