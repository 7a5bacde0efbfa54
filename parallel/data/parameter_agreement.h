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
// What is wrong, and with which code it is thrown; without text nothing is.
struct Complaint {
  tuttiResult_t code = tuttiSuccess;
  std::string text;
};
// Collective: the complaint of the first rank that has one, on every rank.
Complaint first_complaint(ProcessGroup& group, const Complaint& mine);
// `"weight" float32 [4, 2]`.
std::string description_of(const Parameter& parameter);
// Collective: a complaint (tuttiInvalidUsage), the same on every rank and naming two, where the ranks' parameters
// differ in number or description.
Complaint difference_of(ProcessGroup& group, const std::vector<std::string>& descriptions);
// ... which it throws.
void require_equal_parameters(ProcessGroup& group, const std::vector<std::string>& descriptions);

}  // namespace tutti::parallel
