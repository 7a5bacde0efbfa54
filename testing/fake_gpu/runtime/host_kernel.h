// Host functions that replace the kernels that a program was compiled with.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace tutti::fake_gpu {

// A name as in the source; as given if it is none that a compiler made.
std::string Demangled(const char* mangled);

// A kernel's registered name, without namespaces: `fill<float, Sum>` is {"fill", {"float", "Sum"}}.
struct KernelName {
  std::string function;
  std::vector<std::string> arguments;  // of the template

  static KernelName Parse(const char* mangled);
};

// Takes a launch's arguments and returns the whole grid's work; empty if there is no host kernel for that kernel.
using HostKernel = std::function<std::function<void()>(void** arguments)>;
HostKernel FindHostKernel(const KernelName& name);

}  // namespace tutti::fake_gpu
