// The module tutti._parallel: the parallel layer's classes as Python sees them. tutti.parallel says them better.
//
// Thread-safety: functions need the GIL.
#pragma once

#include <nanobind/nanobind.h>
#include <tutti/parallel/process_group.h>
#include <tutti/python_site.h>

#include <functional>
#include <utility>
#include <vector>

#include "compute.h"

namespace tutti_python {

// While it exists, the main thread is inside a call, if the current thread is the main one. Ctrl-C then ends all calls
// that it is inside of.
class Inside {
 public:
  // end: revokes the groups that the call uses. Another thread calls it, without the GIL.
  explicit Inside(std::function<void()> end);
  ~Inside();
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

  static std::vector<std::function<void()>> Ends();

 private:
  std::function<void()> end_;
  const Inside* around_;
};

// Runs a call of the parallel layer, which may wait for other ranks of what it uses, without the GIL. `used`: a group, or
// another class whose revoke() ends its groups' work.
// REQUIRES: call() touches no Python object, except through a Compute.
template <typename Revocable, typename Call>
auto Freely(Revocable& used, const Call& call) {
  const Inside inside([&used] { used.revoke(); });
  const auto* const site = tutti::python_site::CurrentPythonSite().get();
  const nanobind::gil_scoped_release released;
  const tutti::CallsFrom named(tutti::python_site::AsCallSite(site));
  return call();
}

// Ends the exchanges of tokens that have begun (experts.cc): before groups are freed.
void LeaveExchanges();

void BindCompute(nanobind::module_& module);
void BindGroups(nanobind::module_& module);
void BindLayers(nanobind::module_& module);
void BindContext(nanobind::module_& module);
void BindData(nanobind::module_& module);
void BindExperts(nanobind::module_& module);
void BindPipeline(nanobind::module_& module);
void BindServing(nanobind::module_& module);

}  // namespace tutti_python
