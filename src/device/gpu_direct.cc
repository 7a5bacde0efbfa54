#include "src/device/gpu_direct.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <exception>

#include "topology/graph/paths.h"
#include "transports/cuda/direct_memory.h"

namespace tutti::device {
namespace {

topology::PathClass FarthestAllowed(const std::string& word) {
  using enum topology::PathClass;
  constexpr std::array kWords = {LOC, PIX, PXB, PHB, SYS};
  const auto found = std::ranges::find(kWords, word, [](auto each) { return topology::NameOf(each); });
  return found == kWords.end() ? LOC : *found;
}

std::string WhyTooFar(const std::string& nic, const init::NearNics& nics, topology::PathClass allowed) {
  if (allowed == topology::PathClass::SYS) return "";
  const auto found = nics.distances.find(nic);
  if (found == nics.distances.end()) {
    return fmt::format(
        "the topology does not show how far {} is from the GPU (TUTTI_TOPO_FILE tells distances; TUTTI_GPUDIRECT=SYS "
        "asks for none)",
        nic);
  }
  if (found->second <= allowed) return "";
  return fmt::format("the GPU is {} from {}, but {} at most is allowed (TUTTI_GPUDIRECT; TUTTI_IB_HCA leaves NICs out)",
                     topology::NameOf(found->second), nic, topology::NameOf(allowed));
}

std::string WhyNotTried(const cuda_transport::CudaDevice& device, const init::NearNics& nics,
                        const progress::NetworkKind& network, const Settings& settings) {
  const auto allowed = FarthestAllowed(settings.gpudirect);
  if (allowed == topology::PathClass::LOC) {
    return "TUTTI_GPUDIRECT is LOC (PXB lets near NICs use the GPU's memory, which has never run on a real GPU or NIC)";
  }
  if (network.why_not_direct == nullptr) {
    return fmt::format("{} moves data of host memory alone; verbs also move that of GPUs (TUTTI_NET=verbs)",
                       network.name);
  }
  std::string why = cuda_transport::DirectMemory::WhyNot(device);
  if (!why.empty()) return why;
  constexpr std::size_t kTried = std::size_t{1} << 20;
  cuda_transport::DirectMemory memory(device, kTried);
  memory.Fill(0, kTried);
  const auto too_far = [&](const std::string& nic) { return WhyTooFar(nic, nics, allowed); };
  return network.why_not_direct(settings, nics.names, too_far, memory, memory.data(), kTried);
}

}  // namespace

std::string WhyNotDirect(const cuda_transport::CudaDevice& device, const init::NearNics& nics,
                         const progress::NetworkKind& network, const Settings& settings) {
  try {
    return WhyNotTried(device, nics, network, settings);
  } catch (const std::exception& exception) {
    return exception.what();
  }
}

}  // namespace tutti::device
