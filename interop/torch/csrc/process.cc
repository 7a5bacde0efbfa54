#include "interop/torch/csrc/process.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>

namespace tutti::pytorch {
namespace {

constexpr char kBetween = '|';  // separates the parts of a word

std::string Contents(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The state of a process and when it started, from /proc.
struct Status {
  bool exists = false;  // false: certainly not
  char state = '?';
  std::uint64_t started = 0;
};

// `pid (name) state ppid ... started`: the 22nd field; the name may contain any characters.
Status StatusOf(const std::string& process) {
  errno = 0;
  std::ifstream file("/proc/" + process + "/stat");
  if (!file.is_open()) return {errno != ENOENT && errno != ESRCH};
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  Status status{true};
  const auto name_end = text.rfind(')');
  if (name_end == std::string::npos) return status;
  std::istringstream fields(text.substr(name_end + 1));
  std::string skipped;
  fields >> status.state;
  for (int field = 4; field < 22; ++field) fields >> skipped;
  fields >> status.started;
  return status;
}

// Removes the separators from a host's name.
std::string WithoutSeparators(std::string text) {
  for (auto& letter : text) {
    if (letter == kBetween || static_cast<unsigned char>(letter) <= ' ') letter = '_';
  }
  return text;
}

std::string OwnSystem() {
  char space[64] = {};
  const auto length = readlink("/proc/thread-self/ns/pid", space, sizeof space - 1);
  const auto boot = Contents("/proc/sys/kernel/random/boot_id");
  if (length <= 0 || boot.empty()) return {};
  return WithoutSeparators(boot.substr(0, boot.find('\n')) + space);
}

}  // namespace

Process Process::Own() {
  Process own;
  own.system = OwnSystem();
  char host[256] = {};
  own.host = gethostname(host, sizeof host - 1) == 0 ? WithoutSeparators(host) : "unknown";
  own.number = getpid();
  own.started = StatusOf("self").started;
  return own;
}

std::string Process::Text() const { return "host " + host + ", pid " + std::to_string(number); }

bool Process::HasEnded() const {
  if (system.empty() || started == 0 || system != OwnSystem()) return false;
  const auto status = StatusOf(std::to_string(number));
  if (!status.exists) return true;
  if (status.started == 0) return false;
  // Z: the process has ended, but its parent has not reaped it.
  return status.state == 'Z' || status.state == 'X' || status.started != started;
}

std::string Process::Word() const {
  return system + kBetween + host + kBetween + std::to_string(number) + kBetween + std::to_string(started);
}

Process Process::FromWord(const std::string& word) {
  Process process;
  std::istringstream fields(word);
  std::string number, started;
  std::getline(fields, process.system, kBetween);
  std::getline(fields, process.host, kBetween);
  std::getline(fields, number, kBetween);
  std::getline(fields, started, kBetween);
  std::istringstream(number) >> process.number;
  std::istringstream(started) >> process.started;
  if (process.number <= 0) process.system.clear();
  return process;
}

}  // namespace tutti::pytorch
