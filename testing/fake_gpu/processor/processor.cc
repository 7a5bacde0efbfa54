#include "testing/fake_gpu/processor/processor.h"

#include <cuda.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/personality.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <string>
#include <utility>

#include "testing/fake_gpu/call.h"
#include "testing/fake_gpu/processor/fault.h"
#include "testing/fake_gpu/processor/sockets.h"

extern char** environ;

namespace tutti::fake_gpu {
namespace {

// No kernel of Linux places a mapping of its own choice here, and AddressSanitizer leaves it to programs.
// (ThreadSanitizer does not.)
constexpr std::uintptr_t kFirstAddress = 0x2000'0000'0000;
constexpr std::uintptr_t kEndOfAddresses = 0x2a00'0000'0000;  // behind it, a processor has its own (OldLayout)
constexpr std::size_t kGap = 64 << 10;

constexpr char kProgram[] = "tutti-fake-gpu-processor";
constexpr int kControlInChild = 3;

// While it lives, programs that this thread starts have their mappings, such as libraries, from a third of all addresses
// upwards. (Their first thread's stack and the program itself stay where they are in every process.) The caller's
// mappings, which kernels find at the same addresses, are where a program usually has them, from the highest addresses
// downwards. So the two never meet, unless the system refuses this: some containers' filters of system calls do.
class OldLayout {
 public:
  OldLayout() : former_(personality(kQuery)), set_(former_ >= 0 && personality(Former() | ADDR_COMPAT_LAYOUT) >= 0) {
    static std::once_flag once;
    if (!set_) std::call_once(once, Warn);
  }
  ~OldLayout() {
    if (set_) personality(Former());
  }
  OldLayout(const OldLayout&) = delete;
  OldLayout& operator=(const OldLayout&) = delete;

 private:
  static constexpr unsigned long kQuery = 0xffff'ffff;
  static void Warn() {
    std::fprintf(stderr, "fake GPU: personality() is refused (errno %d): now and then memory cannot be registered\n",
                 errno);
  }
  unsigned Former() const { return static_cast<unsigned>(former_); }

  const int former_;
  const bool set_;
};

std::array<int, 2> SocketPair() {
  std::array<int, 2> ends{};
  Require(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) == 0, CUDA_ERROR_OPERATING_SYSTEM);
  return ends;
}

std::string OwnFile() {
  Dl_info self{};
  Require(dladdr(reinterpret_cast<void*>(&cuInit), &self) != 0, CUDA_ERROR_OPERATING_SYSTEM);
  return std::filesystem::absolute(self.dli_fname);
}

struct sigaction former_action;

void ReportStray(int number, siginfo_t* info, void*) {
  const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  if (address >= kFirstAddress && address < kEndOfAddresses) {
    PrintFault("host code touched memory of a device:", info->si_addr);
  }
  sigaction(number, &former_action, nullptr);  // the access repeats, and faults as it would without this handler
}

void WatchForStrays() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action {};
    action.sa_sigaction = ReportStray;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, &former_action);
  });
}

}  // namespace

Channel::~Channel() { close(socket_); }

bool Channel::Ask(const Request& request, std::span<const std::byte> parameter, int file, Reply* reply) const {
  const std::array pieces{std::as_bytes(std::span(&request, 1)), parameter};
  if (!SendMessage(socket_, pieces, file)) return false;
  return ReceiveMessage(socket_, std::as_writable_bytes(std::span(reply, 1)), nullptr) == sizeof *reply;
}

Processor::Processor() {
  const auto [ours, theirs] = SocketPair();
  const std::string library = OwnFile();
  const std::string program = std::filesystem::path(library).parent_path() / kProgram;
  std::array<char*, 3> arguments{const_cast<char*>(program.c_str()), const_cast<char*>(library.c_str()), nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  // A descriptor that is already in place would keep its flag to close.
  const int apart = fcntl(theirs, F_DUPFD_CLOEXEC, kControlInChild + 1);
  posix_spawn_file_actions_adddup2(&actions, apart, kControlInChild);
  pid_t child = 0;
  const int error = [&] {
    const OldLayout layout;
    return posix_spawn(&child, program.c_str(), &actions, nullptr, arguments.data(), environ);
  }();
  posix_spawn_file_actions_destroy(&actions);
  close(theirs);
  close(apart);
  if (error != 0) std::fprintf(stderr, "fake GPU: cannot start %s: errno %d\n", program.c_str(), error);
  Require(error == 0, CUDA_ERROR_OPERATING_SYSTEM);
  control_ = ours;
}

std::uintptr_t Processor::Reserve(std::size_t bytes) {
  WatchForStrays();
  static std::atomic<std::uintptr_t> next{kFirstAddress};
  const std::size_t rounded = (bytes + kGap - 1) / kGap * kGap + kGap;
  const std::uintptr_t address = next.fetch_add(rounded);
  Require(address + rounded <= kEndOfAddresses, CUDA_ERROR_OUT_OF_MEMORY);
  return address;
}

std::unique_ptr<Channel> Processor::Take() {
  const std::lock_guard lock(mutex_);
  if (!idle_.empty()) {
    auto channel = std::move(idle_.back());
    idle_.pop_back();
    return channel;
  }
  const auto [ours, theirs] = SocketPair();
  auto channel = std::make_unique<Channel>(ours);
  const std::byte nothing{};
  const std::array pieces{std::span<const std::byte>(&nothing, 1)};
  SendMessage(control_, pieces, theirs);
  close(theirs);
  return channel;
}

void Processor::Return(std::unique_ptr<Channel> channel) {
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(channel));
}

std::optional<int> Processor::Ask(const Request& request, std::span<const std::byte> parameter, int file) {
  auto channel = Take();
  Reply reply{};
  if (!channel->Ask(request, parameter, file, &reply)) return std::nullopt;
  Return(std::move(channel));
  return reply.error;
}

void Processor::Map(std::uintptr_t address, std::size_t bytes, int file, std::uint64_t offset) {
  Request request{};
  request.kind = Request::Kind::map;
  request.address = address;
  request.bytes = bytes;
  request.offset = offset;
  const int error = Ask(request, {}, file).value_or(0);
  if (error != 0) std::fprintf(stderr, "fake GPU: a processor cannot map %#lx: errno %d\n", address, error);
  Require(error == 0, CUDA_ERROR_OUT_OF_MEMORY);
}

void Processor::Unmap(std::uintptr_t address, std::size_t bytes) {
  Request request{};
  request.kind = Request::Kind::unmap;
  request.address = address;
  request.bytes = bytes;
  Ask(request);
}

bool Processor::Run(std::uint32_t kernel, const GridShape& shape, std::span<const std::byte> parameter) {
  Request request{};
  request.kind = Request::Kind::run;
  request.kernel = kernel;
  request.shape = shape;
  return Ask(request, parameter).has_value();
}

void Processor::End() { shutdown(control_, SHUT_RDWR); }

}  // namespace tutti::fake_gpu
