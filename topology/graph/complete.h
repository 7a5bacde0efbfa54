// Fills the gaps of a description: first from what was detected on this machine, then from PCI classes and device ids,
// last from documented defaults. Every assumption is noted.
//
// Thread-safety: pure functions.
#pragma once

#include "topology/graph/description.h"

namespace tutti::topology {

// Places are matched by bus id. The description's own entries are never changed.
void CompleteFrom(HostDescription& host, const HostDescription& detected);

// Afterwards, places of a GPU's or network card's class have their GPU or ports, and ports have a speed.
void CompleteByDefaults(HostDescription& host);

// Whether this is the class of a GPU or of a network card (a display of another vendor is none: every server has one).
bool MayBeGpu(const PciSlot& slot);
// Whether this is the class of GPUs, with a display or without, or of another display.
bool IsDisplay(int device_class);
bool MayBeEnd(const PciSlot& slot);

}  // namespace tutti::topology
