// Windows: memory of every rank that every other rank of the host can reach. Each side of a communicator has its own kind;
// this is what they share.
//
// A rank that deregisters a window keeps the others' parts until they have deregistered it, too, because they may still
// send what lies there. It lets go of them at its next call that concerns windows.
//
// Thread-safety: Register is a collective control call. The Finds may run concurrently with each other, but not with
// Register, Deregister and CloseRetired. The communicator's lock ensures that. PartOf of a handle may be called at any time.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/all_gather.h"
#include "base/clocks/deadline.h"
#include "executors/host/run.h"
#include "transports/shm/fabric.h"

struct tuttiWindow {
  std::uint16_t number;
};

namespace tutti::memory {

// The numbers of windows. All ranks register a window together, under one number; each deregisters it on its own. A
// number is free again when no rank has it any more. Other ranks' numbers are read from their control blocks.
class WindowNumbers {
 public:
  // Sent to the other ranks when a window is registered.
  using Taken = std::array<std::uint64_t, ring::kWindowWords>;

  explicit WindowNumbers(const shm::Fabric& fabric) : fabric_(fabric) {}

  Taken taken() const;
  // The lowest number that no rank has. Throws tuttiInvalidUsage if all `most` are taken.
  static std::uint16_t Free(std::span<const Taken> all, std::size_t most);
  // This rank has the number from now on, or no longer.
  void Take(std::uint16_t number) const;
  void Release(std::uint16_t number) const;
  // Whether another rank of this host may still refer to its part of the window. False means that it no longer reads or
  // sends what it registered.
  bool OthersHave(std::uint16_t number) const;

 private:
  const shm::Fabric& fabric_;
};

class Windows {
 public:
  virtual ~Windows() = default;

  // Collective. Throws tuttiInvalidArgument, on every rank, if some rank's memory cannot be shared, naming the ranks;
  // tuttiInternalError if a rank offers memory that is not all its own.
  virtual tuttiWindow* Register(void* buffer, std::size_t bytes, const AllGather& all_gather, Deadline deadline) = 0;
  // Local. False, without effect, if the window is not, or no longer, one of these.
  bool Deregister(const tuttiWindow* window);
  // `peer`'s part of a window as this rank reaches it; empty: it does not. Null if there is no such window.
  std::optional<std::span<std::byte>> PartOf(const tuttiWindow* window, int peer) const;
  // How peers access [pointer, pointer + bytes), if a window of this rank holds it, or a symmetric one.
  std::optional<host::RemoteAccess> Find(const void* pointer, std::size_t bytes, bool symmetric = false) const;
  // All ranks promise to name equal offsets in the window (TUTTI_WIN_SYMMETRIC).
  void MakeSymmetric(const tuttiWindow* window);
  // `rank`'s part of the window of that number, also of one that is retired; empty: there is none. As the Finds.
  std::span<std::byte> PartOf(std::uint16_t number, int rank) const {
    if (number >= windows_.size() || windows_[number].parts.empty()) return {};
    return windows_[number].parts[static_cast<std::size_t>(rank)];
  }
  // Closes what no rank of the host uses any more.
  void CloseRetired();

 protected:
  explicit Windows(const shm::Fabric& fabric) : numbers_(fabric) {}

  using Parts = std::vector<std::span<std::byte>>;  // by rank
  // The lowest number that no rank has, as `offers`, each rank's with numbers().taken(), say.
  template <typename Offer>
  static std::uint16_t FreeNumber(const std::vector<Offer>& offers, std::size_t most) {
    std::vector<WindowNumbers::Taken> taken;
    for (const Offer& offer : offers) taken.push_back(offer.taken);
    return WindowNumbers::Free(taken, most);
  }
  const WindowNumbers& numbers() const { return numbers_; }
  // Keeps a window. `reach`: what keeps the parts within reach. REQUIRES: its number is free and has been taken.
  tuttiWindow* Keep(std::uint16_t number, const void* buffer, std::size_t bytes, Parts parts,
                    std::shared_ptr<const void> reach);

 private:
  struct Window {
    std::unique_ptr<tuttiWindow> handle;  // null: it is retired
    const std::byte* begin = nullptr;
    std::size_t bytes = 0;
    Parts parts;
    bool symmetric = false;
    std::shared_ptr<const void> reach;
  };
  // Called before the window is closed.
  virtual void Close(std::uint16_t number) = 0;

  WindowNumbers numbers_;
  mutable std::mutex mutex_;     // held while windows_ changes, and by PartOf
  std::vector<Window> windows_;  // by number
  std::size_t live_ = 0, retired_ = 0;
};

}  // namespace tutti::memory
