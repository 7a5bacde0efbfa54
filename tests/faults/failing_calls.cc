#include "tests/faults/failing_calls.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstddef>

namespace {

struct Function {
  std::string_view name;
  int error;  // errno, or what it returns
};
constexpr std::array kFunctions = std::to_array<Function>({
    {"accept4", EMFILE},
    {"bind", EADDRINUSE},
    {"connect", EADDRNOTAVAIL},
    {"epoll_create1", EMFILE},
    {"epoll_ctl", ENOMEM},
    {"epoll_wait", ENOMEM},
    {"eventfd", EMFILE},
    {"fchmod", EIO},
    {"fcntl", EMFILE},
    {"fstat", ENOMEM},
    {"ftruncate", ENOSPC},
    {"getifaddrs", ENOMEM},
    {"getpeername", ENOBUFS},
    {"getsockname", ENOBUFS},
    {"getsockopt", ENOBUFS},
    {"ioctl", ENOMEM},
    {"listen", EADDRINUSE},
    {"mmap", ENOMEM},
    {"open", EMFILE},
    {"poll", ENOMEM},
    {"ppoll", ENOMEM},
    {"process_vm_readv", EPERM},
    {"pthread_create", EAGAIN},
    {"read", EIO},
    {"recv", ENOMEM},
    {"recvmsg", ENOMEM},
    {"send", ENOBUFS},
    {"sendmsg", ENOBUFS},
    {"setsockopt", ENOBUFS},
    {"socket", EMFILE},
    {"socketpair", EMFILE},
    {"syscall", EMFILE},
    {"timerfd_create", EMFILE},
    {"timerfd_settime", EINVAL},
    {"write", EIO},
});

constexpr std::size_t IndexOf(std::string_view name) {
  return static_cast<std::size_t>(
      std::find_if(kFunctions.begin(), kFunctions.end(), [&](const Function& each) { return each.name == name; }) -
      kFunctions.begin());
}

std::atomic<bool> counts{false};
std::atomic<std::size_t> failing{kFunctions.size()};
std::atomic<int> failing_at{0};
std::array<std::atomic<int>, kFunctions.size()> calls{};

bool MustFail(std::size_t function) {
  if (!counts.load(std::memory_order_relaxed)) return false;
  const int call = 1 + calls[function].fetch_add(1, std::memory_order_relaxed);
  if (failing.load(std::memory_order_relaxed) != function || call != failing_at.load(std::memory_order_relaxed))
    return false;
  errno = kFunctions[function].error;
  return true;
}

// Calls the function of this name in the libraries behind this program, or returns `failed`.
template <std::size_t function, typename Type, typename Result, typename... Arguments>
Result Pass(Result failed, Arguments... arguments) {
  static auto* const next = reinterpret_cast<Type*>(dlsym(RTLD_NEXT, kFunctions[function].name.data()));
  return MustFail(function) ? failed : next(arguments...);
}

}  // namespace

namespace tutti::testing {

std::vector<std::string_view> FailingCalls() {
  std::vector<std::string_view> names;
  for (const auto& each : kFunctions) names.push_back(each.name);
  return names;
}

void FailNext(std::string_view function, int at) {
  for (auto& each : calls) each = 0;
  failing = IndexOf(function);
  failing_at = at;
  counts = true;
}

void FailNoMore() { counts = false; }

int Passed(std::string_view function) { return calls[IndexOf(function)]; }

}  // namespace tutti::testing

extern "C" {
int accept4(int socket, sockaddr* address, socklen_t* length, int flags) {
  return Pass<IndexOf("accept4"), decltype(accept4)>(-1, socket, address, length, flags);
}
int bind(int socket, const sockaddr* address, socklen_t length) noexcept {
  return Pass<IndexOf("bind"), decltype(bind)>(-1, socket, address, length);
}
int connect(int socket, const sockaddr* address, socklen_t length) {
  return Pass<IndexOf("connect"), decltype(connect)>(-1, socket, address, length);
}
int epoll_create1(int flags) noexcept { return Pass<IndexOf("epoll_create1"), decltype(epoll_create1)>(-1, flags); }
int epoll_ctl(int epoll, int what, int descriptor, epoll_event* event) noexcept {
  return Pass<IndexOf("epoll_ctl"), decltype(epoll_ctl)>(-1, epoll, what, descriptor, event);
}
int epoll_wait(int epoll, epoll_event* events, int most, int timeout) {
  return Pass<IndexOf("epoll_wait"), decltype(epoll_wait)>(-1, epoll, events, most, timeout);
}
int eventfd(unsigned value, int flags) noexcept {
  return Pass<IndexOf("eventfd"), decltype(eventfd)>(-1, value, flags);
}
int fchmod(int descriptor, mode_t mode) noexcept {
  return Pass<IndexOf("fchmod"), decltype(fchmod)>(-1, descriptor, mode);
}
int fstat(int descriptor, struct stat* status) noexcept {
  return Pass<IndexOf("fstat"), int(int, struct stat*)>(-1, descriptor, status);
}
int ftruncate(int descriptor, off_t length) noexcept {
  return Pass<IndexOf("ftruncate"), decltype(ftruncate)>(-1, descriptor, length);
}
int getifaddrs(ifaddrs** list) noexcept { return Pass<IndexOf("getifaddrs"), decltype(getifaddrs)>(-1, list); }
int getpeername(int socket, sockaddr* address, socklen_t* length) noexcept {
  return Pass<IndexOf("getpeername"), decltype(getpeername)>(-1, socket, address, length);
}
int getsockname(int socket, sockaddr* address, socklen_t* length) noexcept {
  return Pass<IndexOf("getsockname"), decltype(getsockname)>(-1, socket, address, length);
}
int getsockopt(int socket, int level, int option, void* value, socklen_t* length) noexcept {
  return Pass<IndexOf("getsockopt"), decltype(getsockopt)>(-1, socket, level, option, value, length);
}
int listen(int socket, int backlog) noexcept { return Pass<IndexOf("listen"), decltype(listen)>(-1, socket, backlog); }
void* mmap(void* at, std::size_t bytes, int protection, int flags, int descriptor, off_t offset) noexcept {
  return Pass<IndexOf("mmap"), decltype(mmap)>(MAP_FAILED, at, bytes, protection, flags, descriptor, offset);
}
int poll(pollfd* descriptors, nfds_t count, int timeout) {
  return Pass<IndexOf("poll"), decltype(poll)>(-1, descriptors, count, timeout);
}
int ppoll(pollfd* descriptors, nfds_t count, const timespec* timeout, const sigset_t* signals) {
  return Pass<IndexOf("ppoll"), decltype(ppoll)>(-1, descriptors, count, timeout, signals);
}
ssize_t process_vm_readv(pid_t process, const iovec* to, unsigned long to_count, const iovec* from,
                         unsigned long from_count, unsigned long flags) noexcept {
  return Pass<IndexOf("process_vm_readv"), decltype(process_vm_readv)>(ssize_t{-1}, process, to, to_count, from,
                                                                       from_count, flags);
}
int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*body)(void*), void* argument) noexcept {
  return Pass<IndexOf("pthread_create"), decltype(pthread_create)>(EAGAIN, thread, attributes, body, argument);
}
ssize_t read(int descriptor, void* to, std::size_t bytes) {
  return Pass<IndexOf("read"), decltype(read)>(ssize_t{-1}, descriptor, to, bytes);
}
ssize_t recv(int socket, void* to, std::size_t bytes, int flags) {
  return Pass<IndexOf("recv"), decltype(recv)>(ssize_t{-1}, socket, to, bytes, flags);
}
ssize_t recvmsg(int socket, msghdr* message, int flags) {
  return Pass<IndexOf("recvmsg"), decltype(recvmsg)>(ssize_t{-1}, socket, message, flags);
}
ssize_t send(int socket, const void* from, std::size_t bytes, int flags) {
  return Pass<IndexOf("send"), decltype(send)>(ssize_t{-1}, socket, from, bytes, flags);
}
ssize_t sendmsg(int socket, const msghdr* message, int flags) {
  return Pass<IndexOf("sendmsg"), decltype(sendmsg)>(ssize_t{-1}, socket, message, flags);
}
int setsockopt(int socket, int level, int option, const void* value, socklen_t length) noexcept {
  return Pass<IndexOf("setsockopt"), decltype(setsockopt)>(-1, socket, level, option, value, length);
}
int socket(int domain, int type, int protocol) noexcept {
  return Pass<IndexOf("socket"), decltype(socket)>(-1, domain, type, protocol);
}
int socketpair(int domain, int type, int protocol, int* ends) noexcept {
  return Pass<IndexOf("socketpair"), int(int, int, int, int*)>(-1, domain, type, protocol, ends);
}
int timerfd_create(clockid_t clock, int flags) noexcept {
  return Pass<IndexOf("timerfd_create"), decltype(timerfd_create)>(-1, clock, flags);
}
int timerfd_settime(int timer, int flags, const itimerspec* now, itimerspec* before) noexcept {
  return Pass<IndexOf("timerfd_settime"), decltype(timerfd_settime)>(-1, timer, flags, now, before);
}
ssize_t write(int descriptor, const void* from, std::size_t bytes) {
  return Pass<IndexOf("write"), decltype(write)>(ssize_t{-1}, descriptor, from, bytes);
}

// Those that take any arguments: as many as any of them has.
int fcntl(int descriptor, int command, ...) {
  va_list list;
  va_start(list, command);
  void* const argument = va_arg(list, void*);
  va_end(list);
  return Pass<IndexOf("fcntl"), decltype(fcntl)>(-1, descriptor, command, argument);
}
int ioctl(int descriptor, unsigned long request, ...) noexcept {
  va_list list;
  va_start(list, request);
  void* const argument = va_arg(list, void*);
  va_end(list);
  return Pass<IndexOf("ioctl"), decltype(ioctl)>(-1, descriptor, request, argument);
}
int open(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = va_arg(list, mode_t);
  va_end(list);
  return Pass<IndexOf("open"), decltype(open)>(-1, path, flags, mode);
}
long syscall(long number, ...) noexcept {
  va_list list;
  va_start(list, number);
  std::array<long, 6> arguments{};
  for (auto& each : arguments) each = va_arg(list, long);
  va_end(list);
  return Pass<IndexOf("syscall"), decltype(syscall)>(-1L, number, arguments[0], arguments[1], arguments[2],
                                                     arguments[3], arguments[4], arguments[5]);
}
}
