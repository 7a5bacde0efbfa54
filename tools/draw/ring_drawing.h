// Draws a host's rings in its picture: GPUs on a circle with the rings as coloured arrows between them, and next to it
// the order of each ring as text.
//
// Thread-safety: the picture's.
#pragma once

#include "base/report/svg.h"
#include "tools/draw/drawing.h"

namespace tutti::tools {

using report::Box;
using report::Point;
using report::Svg;

// Draws with the upper left corner at `corner`, and returns the covered area.
Box DrawRings(Svg& svg, const topology::System& system, int host, const RingPicture& picture, Point corner);

}  // namespace tutti::tools
