// Ranks that train copies of one model check that it is the same one before they send any of it.
//
// Thread-safety: one thread at a time.
#pragma once

#include <string>
#include <vector>

#include "tutti/parallel/data_parallel.h"

namespace tutti::parallel {

// A problem that needs no other rank: a parameter without elements, or two of one name. Else empty.
std::string problem_of(const std::vector<Parameter>& parameters);
// A problem, and the code with which it is thrown; none without text.
struct Complaint {
  tuttiResult_t code = tuttiSuccess;
  std::string text;
};
// Collective: returns the complaint of the first rank that has one, on every rank.
Complaint first_complaint(ProcessGroup& group, const Complaint& mine);
// `"weight" float32 [4, 2]`.
std::string description_of(const Parameter& parameter);
// Collective: a complaint (tuttiInvalidUsage), the same on every rank and naming two, where the ranks' parameters
// differ in number or description.
Complaint difference_of(ProcessGroup& group, const std::vector<std::string>& descriptions);
// ... which it throws.
void require_equal_parameters(ProcessGroup& group, const std::vector<std::string>& descriptions);

}  // namespace tutti::parallel
