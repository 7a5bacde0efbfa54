#include "testing/fake_gpu/runtime/host_kernel.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

namespace tutti::fake_gpu {
namespace {

std::string WithoutNamespaces(const std::string& name) {
  const auto last = name.rfind("::");
  return last == std::string::npos ? name : name.substr(last + 2);
}

}  // namespace

std::string Demangled(const char* mangled) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(abi::__cxa_demangle(mangled, nullptr, nullptr, &status),
                                                         &std::free);
  return text == nullptr ? mangled : text.get();
}

// An example of a demangled name: "void (anonymous namespace)::fill<float, (anonymous namespace)::Sum>(float*, long)".
KernelName KernelName::Parse(const char* mangled) {
  const std::string name = Demangled(mangled);
  const auto open = name.find('<');
  if (open == std::string::npos) return {name, {}};
  KernelName parsed{WithoutNamespaces(name.substr(0, open)), {}};
  const auto close = name.find('>', open);
  for (auto start = open + 1; start < close;) {
    const auto end = std::min(name.find(", ", start), close);
    parsed.arguments.push_back(WithoutNamespaces(name.substr(start, end - start)));
    start = end + 2;
  }
  return parsed;
}

}  // namespace tutti::fake_gpu
