#include "interop/nccl/plug_ins/plug_in_library.h"

#include <dlfcn.h>
#include <strings.h>

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdio>
#include <string_view>

#include "interop/nccl/environment/debug_log.h"

namespace tutti::nccl {
namespace {

std::string Capital(std::string text) {
  std::ranges::transform(text, text.begin(), [](char c) { return c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c; });
  return text;
}

}  // namespace

std::vector<std::string> PlugInFiles(const std::string& kind, const std::optional<std::string>& name) {
  const std::string prefix = "libnccl-" + kind;
  if (!name) return {prefix + ".so"};
  if (strcasecmp(name->c_str(), "none") == 0) return {};
  const bool is_file = name->find('/') != name->npos || (name->starts_with("lib") && name->ends_with(".so"));
  if (is_file || strcasecmp(name->c_str(), "STATIC_PLUGIN") == 0) return {*name};
  return {*name, prefix + "-" + *name + ".so"};
}

std::optional<PlugInLibrary> PlugInLibrary::Open(const std::string& kind, const std::optional<std::string>& name) {
  auto& log = DebugLog::Get();
  const auto subsystems = subsystem::kInit | (kind == "tuner" ? subsystem::kTuning : 0);
  for (const auto& file : PlugInFiles(kind, name)) {
    const bool is_program = strcasecmp(file.c_str(), "STATIC_PLUGIN") == 0;
    if (void* const handle = dlopen(is_program ? nullptr : file.c_str(), RTLD_NOW | RTLD_LOCAL)) {
      return PlugInLibrary(handle, file);
    }
    const char* const why = dlerror();
    log.Info(subsystems, "{}/Plugin: {}: {}", Capital(kind), file, why == nullptr ? "cannot be loaded" : why);
  }
  return std::nullopt;
}

const void* PlugInLibrary::Symbol(const std::string& name) const { return dlsym(handle_, name.c_str()); }

void LogForPlugIn(int level, unsigned long flags, const char* /*file*/, int /*line*/, const char* format, ...) {
  auto& log = DebugLog::Get();
  const auto shown = static_cast<Level>(level);
  if (format == nullptr || shown <= Level::none || shown > Level::trace || !log.Enabled(shown, flags)) return;
  std::array<char, 1024> text{};  // as long as a line of NCCL
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text.data(), text.size(), format, arguments);
  va_end(arguments);
  log.Write(shown, text.data());
}

}  // namespace tutti::nccl
