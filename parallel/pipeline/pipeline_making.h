// Shared by the code that makes and describes schedules.
#pragma once

#include <string>

#include "tutti/parallel/pipeline_schedule.h"

namespace tutti::parallel {

// A schedule without actions. Throws Error unless all numbers are at least 1.
PipelineSchedule EmptySchedule(const char* name, int stages, int microbatches, int chunks = 1);

// " in chunk 1"; nothing for the first chunk, which is the only one of most schedules.
std::string InChunk(const PipelineAction& action);

}  // namespace tutti::parallel
