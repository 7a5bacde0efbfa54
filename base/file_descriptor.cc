#include "base/file_descriptor.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

namespace tutti {

int MoveFromStandard(int fd) {
  const int moved = fcntl(fd, F_DUPFD_CLOEXEC, kStandardDescriptors);
  const int error = errno;
  close(fd);
  errno = error;
  return moved;
}

void FileDescriptor::Close() {
  // Linux closes the descriptor also when close() is interrupted: never repeat it.
  if (fd_ >= 0) close(Release());
}

}  // namespace tutti
