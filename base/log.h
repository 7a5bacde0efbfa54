// Diagnostics on stderr, one whole line per call, chosen by subject with TUTTI_DEBUG=init,select,faults (or "all").
// Silent by default. Thread-safe: each line is one write().
#pragma once

#include <fmt/format.h>

#include <array>
#include <string_view>
#include <utility>

namespace tutti {

enum class Subject { init, select, transport, faults };
inline constexpr std::array<std::string_view, 4> kSubjectNames = {"init", "select", "transport", "faults"};
inline constexpr std::string_view kAllSubjects = "all";

bool LogEnabled(Subject subject);
// Writes "tutti host:pid subject: text\n".
void LogLine(Subject subject, std::string_view text);

template <typename... Args>
void Log(Subject subject, fmt::format_string<Args...> format, Args&&... args) {
  if (LogEnabled(subject)) LogLine(subject, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace tutti
