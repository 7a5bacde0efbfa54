// Ranks that train copies of one model ask each other whether it is the same one, before they send any of it.
//
// Thread-safety: one thread at a time.
#pragma once

#include <string>
#include <vector>

#include "tutti/parallel/data_parallel.h"

namespace tutti::parallel {

// What is wrong with them for a reason that needs no other rank: one without elements, two of one name. Else empty.
std::string problem_of(const std::vector<Parameter>& parameters);
// Throws Error (tuttiInvalidArgument) on every rank, naming the first rank that has a problem, if one has.
void require_no_problem(ProcessGroup& group, const std::string& problem);
// `"weight" float32 [4, 2]`.
std::string description_of(const Parameter& parameter);
// Throws Error (tuttiInvalidUsage) on every rank, naming two, where the ranks' parameters differ in number or
// description.
void require_equal_parameters(ProcessGroup& group, const std::vector<std::string>& descriptions);

}  // namespace tutti::parallel
