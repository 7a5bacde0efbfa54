// A library that is loaded on demand, so that nothing links it. It is never unloaded: such libraries start threads and
// load drivers, which would lose their code.
//
// Thread-safety: one thread at a time; the functions found may be called from wherever they allow it.
#pragma once

#include <dlfcn.h>

#include <string>

namespace tutti {

class SharedLibrary {
 public:
  explicit SharedLibrary(const char* name) : handle_(dlopen(name, RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) why_ = dlerror();
  }
  // Whether this process has loaded the library already.
  static bool IsLoaded(const char* name) { return dlopen(name, RTLD_NOW | RTLD_NOLOAD) != nullptr; }

  explicit operator bool() const { return handle_ != nullptr; }
  // Without a library: the loader's error.
  const std::string& why() const { return why_; }

  // Null if there is no such function. `version`: of several under one name, this one. REQUIRES: a library.
  template <typename Function>
  void Find(Function*& function, const char* name, const char* version = nullptr) {
    function = reinterpret_cast<Function*>(version == nullptr ? dlsym(handle_, name) : dlvsym(handle_, name, version));
    if (function != nullptr || !missing_.empty()) return;
    missing_ = name;
    if (version != nullptr) missing_ += std::string(" of ") + version;
  }
  // The first function that was not found, or "".
  const std::string& missing() const { return missing_; }

 private:
  void* handle_;
  std::string why_;
  std::string missing_;
};

}  // namespace tutti
