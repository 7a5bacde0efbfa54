// Host functions in the place of kernels that a program was compiled with.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace tutti::standin {

// A kernel as its registered name says it, without namespaces: `fill<float, Sum>` is {"fill", {"float", "Sum"}}.
struct KernelName {
  std::string function;
  std::vector<std::string> arguments;  // of the template

  static KernelName Parse(const char* mangled);
};

// Takes the arguments of a launch and returns the whole grid's work; empty if it has none for that kernel.
using KernelTwin = std::function<std::function<void()>(void** arguments)>;
KernelTwin FindTwin(const KernelName& name);

}  // namespace tutti::standin
