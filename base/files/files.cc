#include "base/files/files.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/file_descriptor.h"
#include "base/plain_text.h"

namespace tutti {
namespace {

// The time that a writer of a pipe may take between two pieces.
constexpr int kPatienceMs = 30'000;
constexpr mode_t kPermissions = 0777;
constexpr mode_t kForAll = 0666;  // less the umask

class File {
 public:
  explicit File(int descriptor) : descriptor_(AboveStandard(descriptor)) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (descriptor_ >= 0) close(descriptor_);
  }

  int get() const { return descriptor_; }
  bool is_open() const { return descriptor_ >= 0; }
  struct stat Status() const {
    struct stat status {};
    if (fstat(descriptor_, &status) != 0) status = {};
    return status;
  }
  int Release() { return std::exchange(descriptor_, -1); }
  // False, with errno set: some systems report a full disk only on close.
  bool Close() {
    const int descriptor = std::exchange(descriptor_, -1);
    return close(descriptor) == 0 || errno == EINTR;
  }

 private:
  int descriptor_;
};

template <typename Call>
auto Retried(Call&& call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

[[noreturn]] void ThrowCannot(const char* what, const std::string& path) {
  const int error_number = errno;
  ThrowSystem(fmt::format("cannot {} {}", what, Printable(path)), error_number);
}

bool WriteAll(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const auto written = Retried([&] { return write(descriptor, text.data(), text.size()); });
    if (written < 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

// The open file of this process that the path names, if it names one.
std::optional<int> OpenFileNamed(std::string_view path) {
  if (path == "-" || path == "/dev/stdout") return STDOUT_FILENO;
  if (path == "/dev/stderr") return STDERR_FILENO;
  for (const std::string_view folder : {"/dev/fd/", "/proc/self/fd/"}) {
    if (!path.starts_with(folder)) continue;
    const auto digits = path.substr(folder.size());
    int number = 0;
    const auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (status == std::errc() && end == digits.data() + digits.size() && number >= 0) return number;
  }
  return std::nullopt;
}

std::uint64_t RandomNumber() {
  std::uint64_t number = 0;
  if (getrandom(&number, sizeof number, 0) != sizeof number) ThrowErrno("cannot get a random number");
  return number;
}

void WriteInto(const File& file, const std::string& path, std::string_view text) {
  if (!file.is_open() || !WriteAll(file.get(), text)) ThrowCannot("write", path);
}

[[noreturn]] void RefuseLink(const std::string& path) {
  Throw(tuttiInvalidUsage,
        "cannot write {}: it is a symbolic link, which another user may have made; name its target instead",
        Printable(path));
}

void RefusePipeOfAnother(const struct stat& status, const std::string& path) {
  if (S_ISFIFO(status.st_mode) && status.st_uid != geteuid()) {
    Throw(tuttiInvalidUsage, "cannot write {}: it is a pipe of another user", Printable(path));
  }
}

// This user's, and under one name only: another user could have added a second one.
bool IsOwnFile(const struct stat& status) {
  return S_ISREG(status.st_mode) && status.st_uid == geteuid() && status.st_nlink == 1;
}

// Writes into an existing pipe or device.
void WriteToOther(const std::string& path, std::string_view text) {
  // A pipe without a reader is refused, not waited for.
  File file(Retried([&] { return open(path.c_str(), O_WRONLY | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK); }));
  if (!file.is_open()) ThrowCannot("write", path);
  const auto status = file.Status();
  RefusePipeOfAnother(status, path);
  if (S_ISREG(status.st_mode)) Throw(tuttiSystemError, "cannot write {}: another process replaced it", Printable(path));
  if (const int flags = fcntl(file.get(), F_GETFL); flags >= 0) fcntl(file.get(), F_SETFL, flags & ~O_NONBLOCK);
  WriteInto(file, path, text);
}

// For a path beside which no file can be made: a single file mounted into a container, or a directory without write
// permission.
void WriteInPlace(const std::string& path, std::string_view text, int why) {
  File file(Retried([&] { return open(path.c_str(), O_WRONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK); }));
  const auto status = file.is_open() ? file.Status() : (struct stat){};
  if (!IsOwnFile(status)) {
    errno = why;
    ThrowCannot("write", path);
  }
  if (ftruncate(file.get(), 0) != 0) ThrowCannot("write", path);
  WriteInto(file, path, text);
}

}  // namespace

std::string ReadFile(const std::string& path, std::size_t most) {
  // O_NONBLOCK: a pipe without a writer must not block the open.
  const File file(Retried([&] { return open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK); }));
  if (!file.is_open()) ThrowCannot("read", path);
  std::string text;
  constexpr std::size_t kPiece = std::size_t{64} << 10;
  std::array<char, kPiece> piece;
  for (;;) {
    const auto got = Retried([&] { return read(file.get(), piece.data(), piece.size()); });
    if (got == 0) return text;
    if (got < 0 && errno == EAGAIN) {
      pollfd awaited{file.get(), POLLIN, 0};
      if (Retried([&] { return poll(&awaited, 1, kPatienceMs); }) > 0) continue;
      errno = ETIMEDOUT;
    }
    if (got < 0) ThrowCannot("read", path);
    text.append(piece.data(), static_cast<std::size_t>(got));
    // Checked after each piece, because the file may be endless.
    if (text.size() > most) {
      Throw(tuttiInvalidArgument, "{} has more than {} bytes, the limit for such a file", Printable(path), most);
    }
  }
}

void WriteFile(const std::string& path, std::string_view text) {
  if (const auto number = OpenFileNamed(path)) {
    WriteInto(File(fcntl(*number, F_DUPFD_CLOEXEC, 0)), path, text);
    return;
  }
  struct stat old {};
  const bool exists = lstat(path.c_str(), &old) == 0;
  if (exists && S_ISLNK(old.st_mode)) RefuseLink(path);
  if (exists && !S_ISREG(old.st_mode)) return WriteToOther(path, text);

  // A reader sees a whole file. If another user has put a file under this name, the rename replaces it, or fails in a
  // directory like /tmp. That file is never written to.
  const std::string beside = fmt::format("{}.{:016x}", path, RandomNumber());
  File file(
      Retried([&] { return open(beside.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kForAll); }));
  if (!file.is_open()) {
    if (exists && (errno == EACCES || errno == EPERM || errno == EROFS)) return WriteInPlace(path, text, errno);
    ThrowCannot("write", path);
  }
  const auto give_up = [&](int why) {
    unlink(beside.c_str());
    errno = why;
  };
  const bool keeps = exists && old.st_uid == geteuid();
  if (!WriteAll(file.get(), text) || (keeps && fchmod(file.get(), old.st_mode & kPermissions) != 0) || !file.Close()) {
    give_up(errno);
    ThrowCannot("write", path);
  }
  if (rename(beside.c_str(), path.c_str()) == 0) return;
  const int why = errno;
  give_up(why);
  if (exists && why == EBUSY) return WriteInPlace(path, text, why);
  ThrowCannot("write", path);
}

int OpenForLines(const std::string& path) {
  if (const auto number = OpenFileNamed(path)) {
    const int copy = fcntl(*number, F_DUPFD_CLOEXEC, 0);
    if (copy < 0) ThrowCannot("write", path);
    return copy;
  }
  constexpr int kHow = O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
  File file(Retried([&] { return open(path.c_str(), kHow, kForAll); }));
  if (!file.is_open() && errno == ELOOP) RefuseLink(path);
  if (!file.is_open()) ThrowCannot("write", path);
  const auto status = file.Status();
  RefusePipeOfAnother(status, path);
  if (S_ISREG(status.st_mode)) {
    if (!IsOwnFile(status)) {
      Throw(tuttiInvalidUsage, "cannot write {}: it is a file of another user, or has a second name", Printable(path));
    }
    if (ftruncate(file.get(), 0) != 0) ThrowCannot("write", path);
  }
  if (const int flags = fcntl(file.get(), F_GETFL); flags >= 0) fcntl(file.get(), F_SETFL, flags & ~O_NONBLOCK);
  return file.Release();
}

}  // namespace tutti
