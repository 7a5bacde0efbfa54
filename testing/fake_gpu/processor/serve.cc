// The processor's side: it maps what it is told to, and runs grids.
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <span>
#include <thread>
#include <vector>

#include "executors/cuda/kernels/host_kernel.h"
#include "testing/fake_gpu/extension.h"
#include "testing/fake_gpu/processor/fault.h"
#include "testing/fake_gpu/processor/message.h"
#include "testing/fake_gpu/processor/sockets.h"
#include "testing/fake_gpu/stream/grid.h"

namespace tutti::fake_gpu {
namespace {

void* AddressOf(const Request& request) { return reinterpret_cast<void*>(request.address); }

int Map(const Request& request, int file) {
  void* const at = mmap(AddressOf(request), request.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE,
                        file, static_cast<off_t>(request.offset));
  return at == MAP_FAILED ? errno : 0;
}

int Obey(const Request& request, std::span<const std::byte> parameter, int file) {
  switch (request.kind) {
    case Request::Kind::map: return Map(request, file);
    case Request::Kind::unmap: return munmap(AddressOf(request), request.bytes) == 0 ? 0 : errno;
    case Request::Kind::run:
      RunGrid(cuda_kernels::HostKernels()[request.kernel], request.shape, parameter.data());
      return 0;
  }
  return EINVAL;
}

void Converse(int socket) {
  std::vector<std::byte> buffer(sizeof(Request) + kMostParameterBytes);
  for (;;) {
    int file = -1;
    const std::size_t bytes = ReceiveMessage(socket, buffer, &file);
    if (bytes < sizeof(Request)) break;
    Request request{};
    std::memcpy(&request, buffer.data(), sizeof request);
    // Aligned for any struct.
    alignas(std::max_align_t) std::array<std::byte, kMostParameterBytes> parameter{};
    std::memcpy(parameter.data(), buffer.data() + sizeof request, bytes - sizeof request);
    const Reply reply{Obey(request, parameter, file)};
    if (file >= 0) close(file);
    const std::array pieces{std::as_bytes(std::span(&reply, 1))};
    if (!SendMessage(socket, pieces)) break;
  }
  close(socket);
}

void ReportFault(int number, siginfo_t* info, void*) {
  PrintFault("a kernel touched what is no memory of its device:", info->si_addr);
  std::signal(number, SIG_DFL);
}

}  // namespace
}  // namespace tutti::fake_gpu

void fakeGpuServe(int control) {
  using namespace tutti::fake_gpu;  // NOLINT: the interface is in no namespace
  struct sigaction action {};
  action.sa_sigaction = ReportFault;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, nullptr);
  sigaction(SIGBUS, &action, nullptr);
  for (;;) {
    std::byte nothing{};
    int socket = -1;
    if (ReceiveMessage(control, std::span(&nothing, 1), &socket) == 0) break;
    if (socket >= 0) std::thread(Converse, socket).detach();
  }
  _exit(0);  // kernels may still wait for one another
}
