#include "base/standard_descriptors.h"

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

}  // namespace tutti
