// Other processes write arbitrary values into memory that this rank reads: the rank still always returns an answer.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "base/all_gather.h"
#include "base/numbers/datatype.h"
#include "src/diagnostics/dump.h"
#include "src/diagnostics/failure_detector.h"
#include "src/diagnostics/recorder.h"
#include "transports/shm/fabric_testing.h"

namespace tutti::diagnostics {
namespace {

constexpr std::uint64_t kLargest = std::numeric_limits<std::uint64_t>::max();

// Rank 0 of two looks, with rank 1's block forged.
std::optional<Error> LookAt(const std::function<void(ring::ControlBlock&)>& forge) {
  std::optional<Error> seen;
  const auto thrown = shm::RunThreadRanks(2, [&](int rank, const AllGather& all_gather) {
    shm::Fabric fabric(rank, {{0, 0}, {0, 0}}, 1, Settings{}, all_gather, Deadline::After(std::chrono::seconds(60)));
    if (rank == 0) {
      forge(fabric.control(1));
      FailureDetector failure_detector(fabric, nullptr, std::vector<bootstrap::Process>(2), "", std::chrono::hours(1));
      plan::Operation operation;
      operation.collective = schedule::Collective::all_reduce;
      operation.count = 10;
      seen = failure_detector.Look({&operation, 5, 17}, {{1}}, std::chrono::milliseconds(1));
    }
    all_gather({});
  });
  EXPECT_EQ(thrown, std::vector<std::string>(2));
  return seen;
}

void Fail(ring::ControlBlock& control, std::uint32_t code, std::string_view text) {
  std::memset(control.fault_text.data(), 'x', control.fault_text.size());
  std::memcpy(control.fault_text.data(), text.data(), text.size());
  control.fault_code.store(code);
  control.state.store(ring::RankState::failed);
}

TEST(PeerWords, AFailureIsNeverSuccess) {
  for (const std::uint32_t code :
       {static_cast<std::uint32_t>(tuttiSuccess), static_cast<std::uint32_t>(tuttiInProgress),
        static_cast<std::uint32_t>(tuttiNumResults), 255U, std::numeric_limits<std::uint32_t>::max()}) {
    const auto seen = LookAt([&](ring::ControlBlock& control) { Fail(control, code, std::string_view("ended\0", 6)); });
    ASSERT_TRUE(seen);
    EXPECT_EQ(seen->code(), tuttiRemoteError) << code;
    EXPECT_NE(std::string(seen->what()).find("ended"), std::string::npos) << seen->what();
  }
  const auto known = LookAt(
      [](ring::ControlBlock& control) { Fail(control, tuttiTimeoutError, std::string_view("nothing moved\0", 14)); });
  ASSERT_TRUE(known);
  EXPECT_EQ(known->code(), tuttiTimeoutError);
  EXPECT_EQ(std::string(known->what()), "nothing moved");
}

TEST(PeerWords, AFailuresTextEndsAndMovesNoCursor) {
  const auto endless = LookAt([](ring::ControlBlock& control) { Fail(control, tuttiSystemError, ""); });
  ASSERT_TRUE(endless);
  EXPECT_EQ(std::string(endless->what()), std::string(ring::kFaultText, 'x'));
  const auto escapes =
      LookAt([](ring::ControlBlock& control) { Fail(control, tuttiSystemError, std::string_view("a\x1b[2Jb\0", 7)); });
  ASSERT_TRUE(escapes);
  EXPECT_EQ(std::string(escapes->what()).find('\x1b'), std::string::npos) << escapes->what();
}

TEST(PeerWords, NoNumberOfRecordsIsEndless) {
  auto control = std::make_unique<ring::ControlBlock>();
  for (const std::uint64_t newest : {std::uint64_t{0}, std::uint64_t{1}, kLargest, kLargest - 1, kLargest / 2}) {
    control->newest.store(newest);
    EXPECT_EQ(ReadRecords(*control).size(), 0U) << newest;
    EXPECT_FALSE(ReadRecord(*control, newest)) << newest;
    EXPECT_FALSE(FindRecord(*control, [](const RecordedCall&) { return true; })) << newest;
  }
  EXPECT_FALSE(LookAt([](ring::ControlBlock& block) {
    block.newest.store(kLargest);
    block.started.store(kLargest);
  }));
  // The largest numbers possible.
  ring::WriteRecord(*control, kLargest, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(ReadRecords(*control).size(), 1U);
}

TEST(PeerWords, ACallThatNobodyMadeIsDescribed) {
  for (std::uint64_t word = 0; word < 256; ++word) {
    const std::uint64_t packed = word | word << 8 | word << 16 | word << 24 | word << 32;
    const auto operation = plan::UnpackCall(packed, kLargest);
    EXPECT_TRUE(IsDataType(operation.type) || operation.type == tuttiNumTypes) << word;
    EXPECT_FALSE(plan::DescribeCall(packed, kLargest).empty());
  }
  for (const std::uint64_t word : {0ULL, 14ULL, 200ULL, 255ULL}) {
    const auto seen = LookAt([&](ring::ControlBlock& control) {
      constexpr auto kLongAgo = std::numeric_limits<std::int64_t>::min();
      ring::WriteRecord(control, 1, {5, 18, word | word << 8 | word << 16 | word << 24, kLargest, kLongAgo, kLargest});
      control.started.store(5);
    });
    ASSERT_TRUE(seen) << word;
    EXPECT_EQ(seen->code(), tuttiInvalidUsage) << seen->what();
  }
}

TEST(PeerWords, ADumpOfForgedRecordsIsWritten) {
  auto control = std::make_unique<ring::ControlBlock>();
  ring::WriteRecord(*control, kLargest,
                    {kLargest, kLargest, kLargest, kLargest, std::numeric_limits<std::int64_t>::min(), kLargest});
  DumpedRank dumped{};
  dumped.scale = {1, 0, 1};
  const auto text = DumpOf(dumped, *control);
  EXPECT_NE(text.find("unknown"), std::string::npos) << text;
}

}  // namespace
}  // namespace tutti::diagnostics
