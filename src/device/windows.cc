#include "src/device/windows.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/all_gather.h"
#include "base/error.h"
#include "transports/cuda/phase.h"
#include "transports/cuda/piece_exchange.h"

namespace tutti::device {
namespace {

[[noreturn]] void ThrowUnmapped(const std::string& why) {
  Throw(tuttiInvalidArgument, "buff cannot be mapped by all ranks: {}", why);
}

}  // namespace

// A rank's part of a window, as offered to the others.
struct DeviceWindows::Offer {
  enum class How : std::uint8_t { not_at_all, by_handle, in_pieces, unmapped, not_shareable };

  How how;
  int device;                              // for ranks of the same process
  cuda_transport::ShareableBuffer buffer;  // by_handle
  std::uint64_t offset;                    // in_pieces: of the part in the first one
  std::uint64_t address;                   // for ranks of the same process
  std::uint64_t bytes;
  memory::WindowNumbers::Taken taken;
};

DeviceWindows::Offer DeviceWindows::MakeOffer(const void* buffer, std::size_t bytes,
                                              const cuda_transport::Pieces& pieces) const {
  Offer offer{
      Offer::How::not_at_all, device_.ordinal(), {}, pieces.offset, reinterpret_cast<std::uint64_t>(buffer), bytes,
      numbers().taken()};
  using Fault = cuda_transport::Pieces::Fault;
  const bool leaves_process = std::ranges::any_of(shm_.local(), [this](int rank) { return !shm_.same_process(rank); });
  if (pieces.fault == Fault::hole) {
    offer.how = Offer::How::unmapped;
  } else if (pieces.fault == Fault::not_shareable && leaves_process) {
    offer.how = Offer::How::not_shareable;
  } else if (!pieces.all.empty()) {
    offer.how = Offer::How::in_pieces;
  } else if (const auto shareable = cuda_transport::ShareableBufferOf(device_, buffer, bytes)) {
    offer.how = Offer::How::by_handle;
    offer.buffer = *shareable;
  }
  return offer;
}

void DeviceWindows::RequireShareable(const std::vector<Offer>& offers) {
  const auto refuse = [&](Offer::How how, std::string_view what) {
    std::vector<std::size_t> ranks;
    for (std::size_t r = 0; r < offers.size(); ++r) {
      if (offers[r].how == how) ranks.push_back(r);
    }
    if (ranks.empty()) return;
    Throw(tuttiInvalidArgument, "buff is {}, on rank{} {}", what, ranks.size() > 1 ? "s" : "", fmt::join(ranks, ", "));
  };
  refuse(Offer::How::not_at_all,
         "not inside one allocation of cudaMalloc or tuttiMemAlloc that other processes can open");
  refuse(Offer::How::unmapped, "a range of cuMemMap with a part that is not mapped");
  refuse(Offer::How::not_shareable,
         "memory of cuMemCreate that was made without a handle type for other processes "
         "(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)");
}

std::span<std::byte> DeviceWindows::Reach(int r, const Offer& offer, Reached& reached) const {
  if (!shm_.is_local(r)) return {};
  const auto rank = static_cast<std::size_t>(r);
  if (reached.mapped.size() > rank && reached.mapped[rank].data() != nullptr) {
    const auto& mapped = reached.mapped[rank];
    if (offer.offset > mapped.bytes() || offer.bytes > mapped.bytes() - offer.offset) {
      Throw(tuttiInternalError, "rank {} offered {} bytes from byte {} of pieces that have {} bytes", r, offer.bytes,
            offer.offset, mapped.bytes());
    }
    return {mapped.data() + offer.offset, offer.bytes};
  }
  if (shm_.same_process(r)) {
    // Memory of cudaMalloc needs access from one GPU to the other, which the rings may have done without.
    if (offer.device != device_.ordinal() &&
        !device_.Reaches(cuda_transport::CudaDevice(device_.driver(), offer.device))) {
      Throw(tuttiInvalidArgument, "its GPU does not reach that of rank {}", r);
    }
    return {reinterpret_cast<std::byte*>(offer.address), offer.bytes};
  }
  reached.opened.emplace_back(device_, offer.buffer.handle);
  return {reached.opened.back().Part(offer.buffer.offset, offer.bytes), offer.bytes};
}

DeviceWindows::DeviceWindows(const cuda_transport::CudaDevice& device, const shm::Fabric& shm)
    : Windows(shm),
      device_(device),
      shm_(shm),
      table_(cuda_transport::CudaMemory::OnDevice(
          device.driver(), device.context(),
          cuda_kernels::kDeviceWindows * static_cast<std::size_t>(shm.nranks()) * sizeof(cuda_kernels::DeviceWindow))) {
  cuda_transport::SideStream(device.driver(), device.context()).Zero(table_.data(), table_.bytes());
}

std::vector<cuda_transport::MappedMemory> DeviceWindows::MapPieces(const std::vector<Offer>& offers,
                                                                   const cuda_transport::Pieces& pieces,
                                                                   const AllGather& all_gather,
                                                                   Deadline deadline) const {
  std::vector<bool> in_pieces(offers.size());  // on ranks whose addresses do not work here
  bool any_in_pieces = false;
  for (std::size_t r = 0; r < offers.size(); ++r) {
    if (offers[r].how != Offer::How::in_pieces) continue;
    any_in_pieces = true;
    const int rank = static_cast<int>(r);
    in_pieces[r] = shm_.is_local(rank) && !(shm_.same_process(rank) && offers[r].device == device_.ordinal());
  }
  if (!any_in_pieces) return {};
  std::string why;
  auto mapped = cuda_transport::ExchangePieces(device_, shm_, pieces, in_pieces, all_gather, deadline, &why);
  if (!why.empty()) ThrowUnmapped(why);
  return mapped;
}

tuttiWindow* DeviceWindows::Register(void* buffer, std::size_t bytes, const AllGather& all_gather, Deadline deadline) {
  CloseRetired();
  const auto pieces = cuda_transport::PiecesUnder(device_.driver(), device_.context(), buffer, bytes);
  const auto offers = GatherValues(all_gather, MakeOffer(buffer, bytes, pieces));
  RequireShareable(offers);
  const std::uint16_t number = FreeNumber(offers, kMostWindows);
  auto reached = std::make_shared<Reached>();
  reached->mapped = MapPieces(offers, pieces, all_gather, deadline);
  Parts parts;
  // A rank that cannot reach another's memory must not leave the others waiting.
  const std::string why = cuda_transport::InPhase(all_gather, [&] {
    for (int r = 0; r < shm_.nranks(); ++r) {
      parts.push_back(Reach(r, offers[static_cast<std::size_t>(r)], *reached));
    }
  });
  if (!why.empty()) ThrowUnmapped(why);
  std::vector<cuda_kernels::DeviceWindow> row;
  for (const auto& part : parts) row.push_back({part.data(), part.size()});
  cuda_transport::SideStream(device_.driver(), device_.context())
      .Copy(Row(number), row.data(), row.size() * sizeof row.front());
  numbers().Take(number);
  all_gather({});  // no rank may use the window before every rank has it
  return Keep(number, buffer, bytes, std::move(parts), std::move(reached));
}

void DeviceWindows::Close(std::uint16_t number) {
  cuda_transport::SideStream(device_.driver(), device_.context())
      .Zero(Row(number), static_cast<std::size_t>(shm_.nranks()) * sizeof(cuda_kernels::DeviceWindow));
}

}  // namespace tutti::device
