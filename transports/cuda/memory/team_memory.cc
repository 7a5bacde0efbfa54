#include "transports/cuda/memory/team_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "base/all_gather.h"
#include "base/error.h"
#include "base/file_descriptor.h"
#include "base/fork_safe_mutex.h"
#include "base/numbers/rounding.h"
#include "base/threads/made_once.h"
#include "transports/cuda/phase.h"
#include "transports/shm/descriptors/descriptor_exchange.h"
#include "transports/shm/process_register.h"

namespace tutti::cuda_transport {
namespace {

CuMulticastProperties PropertiesOf(std::size_t ranks, std::size_t bytes) {
  return {static_cast<unsigned>(ranks), bytes, kCuFileDescriptor, 0};
}

struct Introduction {
  CuUuid uuid;
  bool wanted, capable;
};

// Why some host's ranks have no switch that adds, as far as each of them knows; "": they may have.
std::string WhyNot(const std::vector<Introduction>& all, const shm::Hosts& hosts) {
  for (std::size_t r = 0; r < all.size(); ++r) {
    if (!all[r].wanted) return fmt::format("rank {} has TUTTI_NVLS=0 or TUTTI_GPU_P2P=0", r);
    if (!all[r].capable) return fmt::format("rank {}'s GPU or driver has no multicast", r);
    const auto local = hosts.RanksWith(static_cast<int>(r));
    if (local.size() == 1) return all.size() > 1 ? fmt::format("rank {} is alone on its host", r) : "there is one rank";
    for (const int q : local) {
      if (q < static_cast<int>(r) &&
          std::memcmp(&all[static_cast<std::size_t>(q)].uuid, &all[r].uuid, sizeof(CuUuid)) == 0)
        return fmt::format("ranks {} and {} share a GPU", q, r);
    }
  }
  return "";
}

}  // namespace

TeamMemory::TeamMemory(const CudaDevice& device, std::size_t granularity, std::size_t bytes)
    : device_(device), granularity_(granularity), bytes_(bytes) {
  device.driver().Check(device.driver().cuDeviceGet(&number_, device.ordinal()), "cuDeviceGet");
}

void TeamMemory::Map(CuMemory memory, Mapped& mapped) {
  const auto& driver = device_.driver();
  driver.Check(driver.cuMemAddressReserve(&mapped.address, bytes_, granularity_, 0, 0), "cuMemAddressReserve");
  driver.Check(driver.cuMemMap(mapped.address, bytes_, 0, memory, 0), "cuMemMap");
  mapped.mapped = true;
  const CuAccess access{{kCuOnDevice, device_.ordinal()}, kCuReadWrite};
  driver.Check(driver.cuMemSetAccess(mapped.address, bytes_, &access, 1), "cuMemSetAccess");
}

void TeamMemory::Unmap(const Mapped& mapped) {
  const auto& driver = device_.driver();
  if (mapped.mapped) driver.cuMemUnmap(mapped.address, bytes_);
  if (mapped.address != 0) driver.cuMemAddressFree(mapped.address, bytes_);
}

std::unique_ptr<TeamMemory> TeamMemory::Make(const CudaDevice& device, const shm::Fabric& shm, std::size_t bytes,
                                             bool wanted, const AllGather& all_gather, Deadline deadline,
                                             std::string* why) {
  const auto& driver = device.driver();
  const bool capable = driver.multicast && device.Attribute(kCuMulticast) != 0;
  const auto introductions = GatherValues(all_gather, Introduction{device.uuid(), wanted, capable});
  *why = WhyNot(introductions, shm.hosts());
  if (!why->empty()) return nullptr;

  const std::size_t ranks = shm.local().size();
  const int first = shm.local().front();
  const bool makes = shm.rank() == first;
  std::unique_ptr<TeamMemory> team;
  FileDescriptor shared;
  *why = InPhase(all_gather, [&] {
    const CurrentDevice current(driver, device.context());
    auto properties = PropertiesOf(ranks, bytes);
    std::size_t granularity = 0;
    driver.Check(driver.cuMulticastGetGranularity(&granularity, &properties, kCuLeastGranularity),
                 "cuMulticastGetGranularity");
    team.reset(new TeamMemory(device, granularity, RoundUp(bytes, granularity)));
    if (!makes) {
      // Every rank must give a descriptor; only the first one's means something.
      shared = FileDescriptor(memfd_create("tutti-none", MFD_CLOEXEC));
      if (shared.get() < 0) Throw(tuttiSystemError, "memfd_create failed");
      return;
    }
    properties.bytes = team->bytes_;
    CuMemory object = 0;
    driver.Check(driver.cuMulticastCreate(&object, &properties), "cuMulticastCreate");
    team->object_ = std::make_shared<PhysicalMemory>(driver, object);
    shared = team->object_->Export();
  });
  if (!why->empty()) return nullptr;

  std::optional<shm::Offer> offer;
  if (makes) offer.emplace(shm.rank(), team->object_);
  const auto keys = GatherValues(all_gather, offer ? offer->key() : shm::RegisterKey{});
  std::string import_error;
  const auto import = [&](const FileDescriptor& file) {
    const CurrentDevice current(driver, device.context());
    team->object_ = std::make_shared<PhysicalMemory>(PhysicalMemory::Import(driver, file));
  };
  const int mine = shared.get();
  shm::ExchangeDescriptors(shm.locality(), std::span(&mine, 1), all_gather, deadline,
                           [&](int r, const std::vector<FileDescriptor>& fds) {
                             if (r != first) return;
                             try {
                               import(fds.at(0));
                             } catch (const Error& error) {
                               import_error = error.what();
                             }
                           });
  *why = InPhase(all_gather, [&] {
    if (!import_error.empty()) Throw(tuttiUnhandledCudaError, "{}", import_error);
    if (!makes && shm.same_process(first)) {
      team->object_ = shm::FindOffer<PhysicalMemory>(keys[static_cast<std::size_t>(first)], first);
    }
    if (team->object_ == nullptr) Throw(tuttiRemoteError, "rank {} of this process left", first);
    const CurrentDevice current(driver, device.context());
    driver.Check(driver.cuMulticastAddDevice(team->object_->handle(), team->number_), "cuMulticastAddDevice");
  });
  if (!why->empty()) return nullptr;
  // Memory can be bound only when all devices belong to the object.
  *why = InPhase(all_gather, [&] {
    const CurrentDevice current(driver, device.context());
    const auto properties = ShareableMemoryOf(device.ordinal());
    driver.Check(driver.cuMemCreate(&team->memory_, team->bytes_, &properties, 0), "cuMemCreate");
    driver.Check(driver.cuMulticastBindMem(team->object_->handle(), 0, team->memory_, 0, team->bytes_, 0),
                 "cuMulticastBindMem");
    team->bound_ = true;
  });
  if (!why->empty()) return nullptr;
  *why = InPhase(all_gather, [&] {
    const CurrentDevice current(driver, device.context());
    team->Map(team->memory_, team->own_);
    team->Map(team->object_->handle(), team->all_);
  });
  if (!why->empty()) return nullptr;
  return team;
}

TeamMemory::~TeamMemory() {
  const auto& driver = device_.driver();
  ReleaseIn(driver, device_.context(), [&] {
    Unmap(all_);
    Unmap(own_);
    if (bound_) driver.cuMulticastUnbind(object_->handle(), number_, 0, bytes_);
    if (memory_ != 0) driver.cuMemRelease(memory_);
  });
}

void TeamMemory::Abandon(std::unique_ptr<TeamMemory> memory) {
  struct Abandoned {
    ForkSafeMutex mutex;
    std::vector<std::unique_ptr<TeamMemory>> all;
  };
  static constinit MadeOnce<Abandoned> abandoned;
  const std::lock_guard lock(abandoned.Get().mutex);
  abandoned.Get().all.push_back(std::move(memory));
}

}  // namespace tutti::cuda_transport
