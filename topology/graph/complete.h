// Fills the gaps of a description: first from what was detected on this machine, then from PCI classes and device ids,
// last from documented defaults. Whatever is assumed is noted.
//
// Thread-safety: pure functions.
#pragma once

#include "topology/graph/description.h"

namespace tutti {

// Places are matched by bus id. What the description says itself is never changed.
void CompleteFrom(HostDescription& host, const HostDescription& detected);

// After this, places of a GPU's or network card's class have what they are, and ports have a speed.
void CompleteByDefaults(HostDescription& host);

// Whether this is the class of a GPU or of a network card (a display of another vendor is none: every server has one).
bool MayBeGpu(const PciSlot& slot);
bool MayBeEnd(const PciSlot& slot);

}  // namespace tutti
