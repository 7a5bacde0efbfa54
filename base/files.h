// Whole files that a person has named, read and written. Reading is bounded. Writing follows no link, and leaves either
// the old file or the new one, whatever happens meanwhile.
//
// Thread-safety: any thread; two that write one file leave the one or the other.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tutti {

// At most `most` bytes. Pipes and /dev/stdin are read to their end, for as long as their writer keeps writing. Throws
// tuttiSystemError if it cannot be read, and tuttiInvalidArgument if it is longer.
std::string ReadFile(const std::string& path, std::size_t most);

// A new file beside the old one, with the permissions of the user's umask or of the old one, which takes its name when
// it is complete. Throws tuttiSystemError if it cannot be written, and tuttiInvalidUsage if `path` is
//   - a symbolic link: another user may have laid it, in a directory where several may write;
//   - a pipe of another user.
// "-" and /dev/stdout, /dev/stderr and /dev/fd/N are this process's open files, and devices are written to.
void WriteFile(const std::string& path, std::string_view text);

}  // namespace tutti
