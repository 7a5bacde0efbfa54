// What surrounds a test's process may lack what the test needs: an emulator, a sanitizer, a container, an old kernel. Each
// function below asks for one such thing. It returns an empty text, or why a test must be skipped:
//
//   if (const auto why = testing::WhyNoZeroCopy(); !why.empty()) GTEST_SKIP() << why;
//
// So a test says itself what it needs, under every name and in every list. Where the system can be asked, it is.
//
// Thread-safety: any thread. Not after the process has installed a filter of its own.
#pragma once

#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

namespace tutti::testing {

// The emulator that runs this process, or an empty text. Whoever starts an emulator sets the variable
// (cmake/arm64.cmake).
inline std::string_view Emulator() {
  const char* const name = std::getenv("TESTS_RUN_UNDER");
  return name == nullptr ? "" : name;
}

inline bool Emulated() { return !Emulator().empty(); }

// For tests that an emulator cannot run, or not within minutes: it is some thirty times slower than the processor.
inline std::string WhyEmulated(std::string_view reason) {
  return Emulated() ? std::string(Emulator()).append(": ").append(reason) : std::string();
}

// How often a test repeats a race, or what is drawn at random. An emulator does so a tenth as often.
inline int Rounds(int rounds) { return Emulated() ? std::max(2, rounds / 10) : rounds; }

// The cases of a grid. Under an emulator only `most` of them, evenly spread, the first and the last included.
// REQUIRES: most > 1.
template <typename Case>
std::vector<Case> Grid(std::vector<Case> cases, std::size_t most = 4) {
  if (!Emulated() || cases.size() <= most) return cases;
  std::vector<Case> sample;
  for (std::size_t i = 0; i < most; ++i) sample.push_back(cases[i * (cases.size() - 1) / (most - 1)]);
  return sample;
}

inline std::vector<std::size_t> Indices(std::size_t count) {
  std::vector<std::size_t> indices(count);
  std::iota(indices.begin(), indices.end(), 0);
  return indices;
}

// A child that was forked from a process of several threads, and that starts a thread itself.
inline std::string WhyNoForkBesideThreads() {
#if defined(__SANITIZE_THREAD__)
  return "ThreadSanitizer ends a child that starts a thread after a fork beside threads";
#elif defined(__SANITIZE_ADDRESS__)
  return "AddressSanitizer's own locks may stay locked in a child that was forked beside threads";
#else
  return WhyEmulated("it aborts, or hangs, when a child that was forked beside threads starts a thread");
#endif
}

// A program that starts itself anew.
inline std::string WhyNoNewProgram() {
  return WhyEmulated("the system starts no program of another processor without binfmt_misc");
}

inline std::string WhyNoSystemCallFilter() {
  // Without a program the call fails in any case: by EFAULT where filters exist.
  return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, nullptr) == -1 && errno == EFAULT
             ? ""
             : "this system takes no filter of system calls (seccomp)";
}

inline std::string WhyNoReadsOfOtherProcesses() {
  char from = 'x', to = ' ';
  const iovec source{&from, 1}, target{&to, 1};
  return process_vm_readv(getpid(), &target, 1, &source, 1, 0) == 1
             ? ""
             : "this system does not let processes read each other (process_vm_readv)";
}

inline std::string WhyNoZeroCopy() {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  const bool taken = setsockopt(socket, SOL_SOCKET, SO_ZEROCOPY, &on, sizeof on) == 0;
  close(socket);
  return taken ? "" : "this system sends nothing in place (MSG_ZEROCOPY)";
}

}  // namespace tutti::testing
