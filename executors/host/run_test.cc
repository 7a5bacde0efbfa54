#include "executors/host/run.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <limits>
#include <numeric>

#include "algorithms/builders/build.h"
#include "executors/host/run_testing.h"

namespace tutti::host {
namespace {

using testing::OneWindow;
using testing::RankBesideStranger;

using TheRun = Run;  // a test of GoogleTest's has another

constexpr std::uint32_t kTag = 7;
constexpr std::size_t kBytes = 256;

// A broadcast from a peer in another process: {from(1)} -> {out}, one slot.
class RunBesideStranger : public ::testing::Test {
 protected:
  void Receive(ring::Protocol protocol, std::size_t bytes = kBytes) {
    const auto schedule =
        builders::Build(tuttiAlgorithmRing, {schedule::Collective::broadcast, 0, 2, RankBesideStranger::kStranger});
    ASSERT_TRUE(schedule);
    const auto extents = schedule::UniformExtents(schedule::Collective::broadcast, 2, schedule->blocks, bytes);
    plan_ = std::make_unique<Plan>(*schedule, extents, schedule::ProtocolConfig{protocol, bytes, fetches_}, tuttiUint8,
                                   tuttiSum, beside_.fabric(), 0);
    run_ = std::make_unique<TheRun>(*plan_, beside_.fabric(), nullptr, window_);
    output_.assign(bytes, std::byte{0});
    run_->Start([&](Launch& launch) {
      launch.input = launch.output = output_.data();
      launch.tag = kTag;
    });
    beside_.Next(0, protocol, false).header->flag.store(0);  // clears a slot that an earlier run refused
    ASSERT_EQ(run_->Advance(0, 1), TheRun::Progress::blocked);
  }

  // The fault that the next slot causes, which is of `kind` and refers to `address` of `window`.
  Fault::Kind Sent(ring::Protocol protocol, int kind, std::uint64_t address = 0,
                   std::uint16_t window = OneWindow::kNumber, std::size_t bytes = kBytes) {
    Receive(protocol, bytes);
    auto slot = beside_.Next(0, protocol, false);
    slot.header->bytes = static_cast<std::uint32_t>(bytes);
    slot.header->kind = static_cast<ring::SlotKind>(kind);
    slot.header->window = window;
    std::memcpy(&slot.header->address, &address, sizeof address);
    slot.Publish(kTag);
    const auto progress = run_->Advance(0, 1);
    const auto& fault = run_->fault(0, 1);
    EXPECT_EQ(progress, fault.kind == Fault::Kind::none ? TheRun::Progress::done : TheRun::Progress::faulted);
    if (fault.kind != Fault::Kind::none) {
      EXPECT_EQ(fault.peer, RankBesideStranger::kStranger);
    }
    return fault.kind;
  }

  RankBesideStranger beside_{1};
  OneWindow window_{4 * kBytes};
  std::unique_ptr<Plan> plan_;
  std::unique_ptr<TheRun> run_;
  std::vector<std::byte> output_;
  bool fetches_ = false;  // ProtocolConfig::cma
};

// The peer's call fails, and it takes back what its slots refer to: while this rank reads it, or before.
TEST_F(RunBesideStranger, RefusesWhatThePeerHasTakenBack) {
  const auto& layout = beside_.fabric().layout();
  auto* const recall = beside_.fabric().segment(0) + layout.RecallOffset(0, RankBesideStranger::kStranger);
  auto& taken_back = *reinterpret_cast<std::atomic<std::uint32_t>*>(recall);
  EXPECT_EQ(Sent(ring::Protocol::bulk, static_cast<int>(ring::SlotKind::window)), Fault::Kind::none);
  taken_back.store(1);
  EXPECT_EQ(Sent(ring::Protocol::bulk, static_cast<int>(ring::SlotKind::window)), Fault::Kind::recalled);
  // A slot that carries its data is the ring's.
  EXPECT_EQ(Sent(ring::Protocol::bulk, static_cast<int>(ring::SlotKind::value)), Fault::Kind::none);
}

TEST_F(RunBesideStranger, TakesWhatAnHonestPeerSends) {
  std::iota(reinterpret_cast<std::uint8_t*>(window_.memory().data()),
            reinterpret_cast<std::uint8_t*>(window_.memory().data() + kBytes), std::uint8_t{0});
  EXPECT_EQ(Sent(ring::Protocol::bulk, static_cast<int>(ring::SlotKind::window), 0), Fault::Kind::none);
  EXPECT_EQ(std::memcmp(output_.data(), window_.memory().data(), kBytes), 0);
  EXPECT_EQ(Sent(ring::Protocol::bulk, static_cast<int>(ring::SlotKind::window), 3 * kBytes), Fault::Kind::none);
  for (const auto protocol : {ring::Protocol::line, ring::Protocol::inlined, ring::Protocol::bulk}) {
    EXPECT_EQ(Sent(protocol, static_cast<int>(ring::SlotKind::value), 0, 0, 16), Fault::Kind::none);
  }
}

TEST_F(RunBesideStranger, RefusesAPointerOfAnotherProcess) {
  static const std::array<std::byte, kBytes> secret{std::byte{42}};
  EXPECT_EQ(Sent(ring::Protocol::bulk, static_cast<int>(ring::SlotKind::pointer),
                 reinterpret_cast<std::uint64_t>(secret.data())),
            Fault::Kind::forged);
  EXPECT_EQ(output_.front(), std::byte{0});
  EXPECT_EQ(Sent(ring::Protocol::bulk, static_cast<int>(ring::SlotKind::pointer), 0), Fault::Kind::forged);
}

TEST_F(RunBesideStranger, RefusesKindsThatThereAreNot) {
  for (const int kind : {4, 5, 255, 4096, 65535}) {
    for (const auto protocol : {ring::Protocol::line, ring::Protocol::inlined, ring::Protocol::bulk}) {
      EXPECT_EQ(Sent(protocol, kind, 0, 0, 16), Fault::Kind::forged) << kind << " on " << ring::NameOf(protocol);
      EXPECT_EQ(run_->fault(0, 1).got, static_cast<std::uint64_t>(kind));
    }
  }
}

TEST_F(RunBesideStranger, RefusesWhatLiesOutsideAWindow) {
  constexpr auto kEnd = std::numeric_limits<std::uint64_t>::max();
  for (const std::uint64_t offset : {std::uint64_t{3 * kBytes + 1}, std::uint64_t{4 * kBytes}, std::uint64_t{1} << 40,
                                     kEnd, kEnd - kBytes + 1, std::uint64_t{1} << 63}) {
    EXPECT_EQ(Sent(ring::Protocol::bulk, static_cast<int>(ring::SlotKind::window), offset), Fault::Kind::forged)
        << offset;
  }
  EXPECT_EQ(Sent(ring::Protocol::bulk, static_cast<int>(ring::SlotKind::window), 0, OneWindow::kNumber + 1),
            Fault::Kind::forged);
  EXPECT_EQ(Sent(ring::Protocol::bulk, static_cast<int>(ring::SlotKind::window), 0, 65535), Fault::Kind::forged);
}

// In these slots the first bytes of the data lie where a bulk slot has its address.
TEST_F(RunBesideStranger, RefusesReferencesInSlotsThatHaveNoRoomForThem) {
  for (const auto protocol : {ring::Protocol::line, ring::Protocol::inlined}) {
    for (const auto kind : {ring::SlotKind::pointer, ring::SlotKind::window, ring::SlotKind::cma}) {
      EXPECT_EQ(Sent(protocol, static_cast<int>(kind), 0, OneWindow::kNumber, 16), Fault::Kind::forged)
          << ring::NameOf(protocol);
    }
  }
}

TEST_F(RunBesideStranger, SaysSoWhereAPeersMemoryCannotBeRead) {
  if (!beside_.fabric().cma()) GTEST_SKIP() << "this system does not let processes read each other";
  fetches_ = true;
  EXPECT_EQ(Sent(ring::Protocol::bulk, static_cast<int>(ring::SlotKind::cma), 8), Fault::Kind::unreachable);
}

// The ranks agree on it, so a peer that refers to its memory all the same is no honest one.
TEST_F(RunBesideStranger, FetchesNothingWhereThePlanCopies) {
  EXPECT_EQ(Sent(ring::Protocol::bulk, static_cast<int>(ring::SlotKind::cma), reinterpret_cast<std::uint64_t>(&kTag)),
            Fault::Kind::forged);
}

// Data fetched from the peer lies in one piece, and a strided output does not.
TEST_F(RunBesideStranger, FetchesNothingBetweenTheRunsOfATensor) {
  if (!beside_.fabric().cma()) GTEST_SKIP() << "this system does not let processes read each other";
  constexpr std::size_t kRun = 8, kRuns = kBytes / kRun;
  fetches_ = true;
  Receive(ring::Protocol::bulk);
  const std::array<schedule::StridedDim, 2> dims = {{{kRuns, 2 * kRun}, {kRun, 1}}};
  const schedule::Strided strided(dims, 1);
  std::vector<std::byte> output(2 * kBytes, std::byte{1});
  run_->Start([&](Launch& launch) {
    launch.input = launch.output = output.data();
    launch.input_strided = launch.output_strided = &strided;
    launch.tag = kTag;
  });
  auto slot = beside_.Next(0, ring::Protocol::bulk, false);
  slot.header->bytes = kBytes;
  slot.header->kind = ring::SlotKind::cma;
  // The stranger is a child of this process: its memory has the same bytes at this address, and can be read.
  slot.header->address = reinterpret_cast<std::uint64_t>(&kTag);
  slot.Publish(kTag);
  EXPECT_EQ(run_->Advance(0, 1), TheRun::Progress::faulted);
  EXPECT_EQ(run_->fault(0, 1).kind, Fault::Kind::forged);
  for (const auto byte : output) ASSERT_EQ(byte, std::byte{1});
}

TEST_F(RunBesideStranger, SaysWhatLengthItExpected) {
  Receive(ring::Protocol::bulk);
  auto slot = beside_.Next(0, ring::Protocol::bulk, false);
  slot.header->bytes = std::numeric_limits<std::uint32_t>::max();
  slot.header->kind = ring::SlotKind::value;
  slot.Publish(kTag);
  EXPECT_EQ(run_->Advance(0, 1), TheRun::Progress::faulted);
  EXPECT_EQ(run_->fault(0, 1).kind, Fault::Kind::length);
  EXPECT_EQ(run_->fault(0, 1).expected, kBytes);
}

}  // namespace
}  // namespace tutti::host
