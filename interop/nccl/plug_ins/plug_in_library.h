// Finds and loads the library of a plug-in as NCCL does: NAME itself, then libnccl-KIND-NAME.so; libnccl-KIND.so if
// nothing is named; "none" for nothing, "STATIC_PLUGIN" for the program itself.
//
// Thread-safety: any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace tutti::nccl {

// The files to try, in order.
std::vector<std::string> PlugInFiles(const std::string& kind, const std::optional<std::string>& name);

// A loaded library. It stays loaded until the process ends: it may have threads.
class PlugInLibrary {
 public:
  // Nothing if there is none: the log says why. `kind`: "tuner", "profiler".
  static std::optional<PlugInLibrary> Open(const std::string& kind, const std::optional<std::string>& name);

  const std::string& file() const { return file_; }
  // The object whose name is `symbol` and the interface's version; null if the library has none.
  template <typename Interface>
  const Interface* Find(const char* symbol) const {
    return static_cast<const Interface*>(Symbol(symbol + std::to_string(Interface::kVersion)));
  }

 private:
  PlugInLibrary(void* handle, std::string file) : handle_(handle), file_(std::move(file)) {}
  const void* Symbol(const std::string& name) const;

  void* handle_;  // dlopen's
  std::string file_;
};

// The logger that plug-ins get.
void LogForPlugIn(int level, unsigned long flags, const char* file, int line, const char* format, ...)
    __attribute__((format(printf, 5, 6)));

}  // namespace tutti::nccl
