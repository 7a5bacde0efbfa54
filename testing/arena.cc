#include "testing/arena.h"

#include "testing/ranks.h"

namespace tutti::testing {
namespace {

constexpr std::size_t kFirstInPiece = Gpu::kPiece - 512;

}  // namespace

std::size_t Arena::PieceCount() const { return (kFirstInPiece + bytes_ + Gpu::kPiece - 1) / Gpu::kPiece; }

Arena::Arena(Kind kind, std::size_t bytes) : kind_(kind), bytes_(bytes), send_(New()), receive_(New()) {}

Arena::Arena(const Gpu& gpu, std::size_t bytes, Kind kind)
    : kind_(kind), gpu_(&gpu), bytes_(bytes), send_(New()), receive_(New()) {}

Arena::~Arena() {
  for (auto* buffer : {send_, receive_}) {
    if (kind_ == Kind::plain) {
      delete[] buffer;
    } else if (kind_ == Kind::device) {
      gpu_->Free(buffer);
    } else if (kind_ == Kind::in_pieces) {
      gpu_->UnmapPieces(buffer - kFirstInPiece, PieceCount());
    } else {
      EXPECT_TRUE(Ok(tuttiMemFree(buffer)));
    }
  }
}

std::byte* Arena::New() const {
  if (kind_ == Kind::plain) return new std::byte[bytes_];
  if (kind_ == Kind::device) return gpu_->Allocate(bytes_);
  if (kind_ == Kind::in_pieces) return gpu_->MapPieces(PieceCount()) + kFirstInPiece;
  void* memory = nullptr;
  EXPECT_TRUE(Ok(tuttiMemAlloc(&memory, bytes_)));
  return static_cast<std::byte*>(memory);
}

void Arena::Put(std::byte* buffer, const std::vector<std::byte>& bytes) const {
  if (gpu_ != nullptr) return gpu_->Put(buffer, bytes.data(), bytes.size());
  std::copy(bytes.begin(), bytes.end(), buffer);
}

std::vector<std::byte> Arena::Get(const std::byte* buffer, std::size_t bytes) const {
  std::vector<std::byte> got(bytes);
  if (gpu_ != nullptr) {
    gpu_->Get(got.data(), buffer, bytes);
  } else {
    std::copy_n(buffer, bytes, got.begin());
  }
  return got;
}

void Arena::Register(tuttiComm_t comm) {
  for (auto* buffer : {send_, receive_}) {
    tuttiWindow_t window = nullptr;
    EXPECT_TRUE(Ok(tuttiCommWindowRegister(comm, buffer, bytes_, &window, TUTTI_WIN_DEFAULT)));
    windows_.push_back(window);
  }
}

void Arena::Deregister(tuttiComm_t comm) {
  for (auto* window : windows_) EXPECT_TRUE(Ok(tuttiCommWindowDeregister(comm, window)));
  windows_.clear();
}

}  // namespace tutti::testing
