#include "src/device/signals.h"

#include <cstring>
#include <thread>

#include "base/numbers/datatype.h"
#include "transports/cuda/capture.h"

namespace tutti::device {
namespace {

std::uint64_t Published(const std::uint64_t* word) {
  return std::atomic_ref(*const_cast<std::uint64_t*>(word)).load(std::memory_order_acquire);
}

}  // namespace

DeviceSignals::DeviceSignals(const cuda_transport::CudaDevice& device, const cuda_transport::DeviceFabric& fabric,
                             const cuda::KernelModule& kernels, cuda_kernels::DeviceRank* rank, int nranks)
    : device_(device),
      fabric_(fabric),
      kernels_(kernels),
      rank_(rank),
      nranks_(static_cast<std::size_t>(nranks)),
      counts_(cuda_transport::CudaMemory::OnDevice(device.driver(), device.context(),
                                                   nranks_ * (2 * ring::kSignals + 1) * sizeof(std::uint64_t))),
      pinned_(cuda_transport::CudaMemory::Pinned(device.driver(), device.context(),
                                                 (1 + nranks_) * sizeof(std::uint64_t))) {
  cuda_transport::SideStream(device.driver(), device.context()).Zero(counts_.data(), counts_.bytes());
  std::memset(pinned_.data(), 0, pinned_.bytes());
}

cuda_kernels::SignalWork DeviceSignals::WorkOf(const plan::Operation& operation) const {
  const bool waits = operation.collective == schedule::Collective::wait_signal;
  const auto peer = static_cast<std::size_t>(operation.root);
  const int me = fabric_.rank();
  const std::size_t place = (waits ? nranks_ + peer : peer) * ring::kSignals + operation.signal;
  return {
      .counter = (waits ? fabric_.Signals(operation.root, me) : fabric_.Signals(me, operation.root)) + operation.signal,
      .own = Word(place),
      .sequence = Word(2 * nranks_ * ring::kSignals + peer),
      .done = reinterpret_cast<std::uint64_t*>(pinned_.data()) + 1 + peer,
      .amount = operation.count,
      .call = plan::PackCall(operation),
      .waits = waits};
}

void DeviceSignals::Enqueue(std::span<const plan::Operation* const> operations, cuda_transport::CuStream stream) {
  const auto& driver = device_.driver();
  const cuda_transport::CurrentDevice current(driver, device_.context());
  const bool captured = cuda_transport::PlaceInCapture(driver, stream).capture.has_value();
  if (captured) captured_.store(true, std::memory_order_release);
  cuda_kernels::SignalLaunch launch{};
  launch.rank = rank_;
  launch.ended = captured ? nullptr : reinterpret_cast<std::uint64_t*>(pinned_.data());
  const auto flush = [&] {
    if (launch.count == 0) return;
    if (!captured) launched_.fetch_add(1, std::memory_order_release);
    kernels_.Launch(launch, stream);
    launch.count = 0;
  };
  for (const plan::Operation* const operation : operations) {
    const auto work = WorkOf(*operation);
    const bool copies = operation->collective == schedule::Collective::put && operation->count > 0;
    if (launch.count == cuda_kernels::kMostSignals || (copies && launch.count > 0 && launch.works[0].waits)) flush();
    if (copies) {
      cuda_transport::EnqueueCopy(driver, operation->output, operation->input,
                                  operation->count * SizeOf(operation->type), stream);
    }
    launch.works[launch.count++] = work;
  }
  flush();
}

std::uint64_t DeviceSignals::Done(int peer) const {
  return Published(reinterpret_cast<const std::uint64_t*>(pinned_.data()) + 1 + peer);
}

bool DeviceSignals::LaunchesRun() const {
  return Published(reinterpret_cast<const std::uint64_t*>(pinned_.data())) < launched_.load(std::memory_order_acquire);
}

bool DeviceSignals::AwaitIdle(std::chrono::milliseconds most) const {
  constexpr std::chrono::microseconds kLookEvery{50};
  const auto deadline = std::chrono::steady_clock::now() + most;
  while (LaunchesRun()) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(kLookEvery);
  }
  return true;
}

}  // namespace tutti::device
