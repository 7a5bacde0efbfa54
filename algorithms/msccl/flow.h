// Turns a program's text into schedules: follows the data through the program once, as the verifier does, because a
// step's form depends on what is there when it runs - whose block it is, whether the buffer still has the caller's
// input, and whether the sum is complete.
//
// Thread-safety: pure function.
#pragma once

#include <vector>

#include "algorithms/msccl/text.h"

namespace tutti::msccl {

// One schedule per rank. Steps that would wait forever are written down as far as they are understood; the verifier
// says why. Throws tuttiInvalidArgument with file, line and reason where a contribution is added that is there already.
std::vector<schedule::Schedule> FollowData(const ProgramText& text);

}  // namespace tutti::msccl
