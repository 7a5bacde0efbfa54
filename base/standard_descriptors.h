// Descriptors 0 to 2 belong to the program even while they are closed: what it, or any library, writes to its standard
// error goes to whatever has number 2.
//
// Thread-safety: functions without state.
#pragma once

namespace tutti {

inline constexpr int kStandardDescriptors = 3;

// Each owner of descriptors passes those that it takes through this. Returns `fd`, or where it has been moved to if it had
// a standard number; -1, with errno set and `fd` closed, if it could not be moved. A negative `fd` stays.
int MoveFromStandard(int fd);
inline int AboveStandard(int fd) { return fd < 0 || fd >= kStandardDescriptors ? fd : MoveFromStandard(fd); }

}  // namespace tutti
