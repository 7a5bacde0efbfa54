// The part of a host's picture that shows its rings: GPUs on a circle with the rings as coloured arrows between them,
// and beside it each ring's order, spelt out.
//
// Thread-safety: the picture's.
#pragma once

#include "tools/draw/drawing.h"
#include "tools/draw/svg.h"

namespace tutti {

// Draws with its upper left corner there, and returns what it has covered.
Box DrawRings(Svg& svg, const System& system, int host, const RingPicture& picture, Point corner);

}  // namespace tutti
