// Reads and writes files that a person has named. Reading is bounded. Writing follows no link; a whole file is either the old
// one or the new one, whatever happens.
//
// Thread-safety: any thread. If two threads write one file, it ends up as one or the other wrote it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tutti {

// Reads at most `most` bytes. Pipes and /dev/stdin are read to their end, for as long as their writer keeps writing.
// Throws tuttiSystemError if the file cannot be read, and tuttiInvalidArgument if it is longer.
std::string ReadFile(const std::string& path, std::size_t most);

// Writes a new file beside the old one and renames it when it is complete. The new file has the old one's permissions,
// or those of the user's umask. Throws tuttiSystemError if it cannot be written, and tuttiInvalidUsage if `path` is
//   - a symbolic link: another user may have made it, in a directory where several may write;
//   - a pipe of another user.
// "-" and /dev/stdout, /dev/stderr and /dev/fd/N are this process's open files. Those and devices are written to.
void WriteFile(const std::string& path, std::string_view text);

// Opens a file for lines that are written as they come (one write() each, at the end), and empties it. Returns a
// descriptor, which the caller closes. The names of this process's open files have the same meaning. Throws
// tuttiSystemError if it cannot be opened, and tuttiInvalidUsage if it is a symbolic link, a pipe or a file of another
// user, or a file that has a second name, which another user may have given it. A pipe needs a reader.
int OpenForLines(const std::string& path);

}  // namespace tutti
