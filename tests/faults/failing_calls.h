// Lets one call of a function of the system fail in this process. A program that links failing_calls.cc calls these
// functions through it, and so do the libraries that it loads.
//
// Thread-safety: FailNext and Passed are for one thread; calls may come from any.
#pragma once

#include <string_view>
#include <vector>

namespace tutti::testing {

// The functions that can fail.
std::vector<std::string_view> FailingCalls();

// From now on counts the calls of every function; the `at`-th call of `function` fails (1 is the next one; 0 is none).
void FailNext(std::string_view function, int at);
// Ends that: calls neither fail nor count.
void FailNoMore();
// How often `function` was called between the two.
int Passed(std::string_view function);

}  // namespace tutti::testing
