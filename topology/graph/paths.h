// The path from one device to another: the widest there is, and of those the shortest. GPUs and NICs are ends, not
// transit, except that NICs lead to the network and that a GPU may pass NVLink traffic on to a GPU to which the sender
// has no NVLink (class NVB).
//
// Thread-safety: value types and pure functions.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "topology/graph/system.h"

namespace tutti::topology {

// The worst part of a path, nearest first; the words of `nvidia-smi topo -m`.
enum class PathClass : std::uint8_t {
  LOC,  // itself
  NVL,  // NVLink only
  NVB,  // NVLink through another GPU
  PIX,  // at most one PCI switch
  PXB,  // several PCI switches, no CPU
  PHB,  // a CPU's host bridge
  SYS,  // the link between CPUs
  NET,  // the network
  DIS,  // there is no path
};

std::string_view NameOf(PathClass path_class);

struct Path {
  std::vector<int> links = {};  // indices into System::links, in order
  double bandwidth = 0;         // GB/s of the narrowest link; infinity to itself
  double latency = 0;           // us, the sum
  PathClass path_class = PathClass::DIS;
};

// Throws tuttiInvalidArgument if the search for rings and trees over the paths between all devices would take longer
// than a person waits: a file may describe more than any machine has.
void CheckSearchable(const System& system);

// From `from` to every device. Deterministic: of equal paths the one with the smaller device numbers.
std::vector<Path> PathsFrom(const System& system, int from);

}  // namespace tutti::topology
