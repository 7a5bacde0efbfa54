#include "base/log.h"

#include <unistd.h>

#include <array>
#include <string>

#include "base/extension.h"
#include "base/list_items.h"
#include "base/plain_text.h"
#include "base/settings/settings.h"

namespace tutti {
namespace {

// A summary of a large system is longer than a sentence.
constexpr std::size_t kMaxLine = 64 * 1024;

constexpr std::string_view NameOf(Subject subject) { return kSubjectNames[static_cast<std::size_t>(subject)]; }

// `list` is comma-separated.
bool Names(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    const auto item = TakeItem(list);
    if (item == word || item == kAllSubjects) return true;
  }
  return false;
}

}  // namespace

bool LogEnabled(Subject subject) {
  const auto& list = GlobalSettings().debug;
  return !list.empty() && Names(list, NameOf(subject));
}

void LogLine(Subject subject, std::string_view text) {
  if (auto* const log = TheExtension().log;
      log != nullptr && log(std::string(NameOf(subject)).c_str(), Printable(text, kMaxLine).c_str()) != 0) {
    return;
  }
  std::array<char, 65> host{};
  gethostname(host.data(), host.size() - 1);
  const std::string line =
      fmt::format("tutti {}:{} {}: {}\n", Printable(host.data()), getpid(), NameOf(subject), Printable(text, kMaxLine));
  // One write keeps lines of several processes whole; a failed diagnostic has nowhere to be reported.
  [[maybe_unused]] const auto written = write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace tutti
