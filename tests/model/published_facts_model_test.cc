// State that each rank publishes in its control block: what its sequence locks guard, and the failure.
#include <gtest/gtest.h>

#include <array>
#include <tuple>

#include "src/diagnostics/recorder.h"
#include "tests/model/checker.h"
#include "transports/ring/sequence_lock.h"

namespace tutti::model {
namespace {

constexpr std::uint64_t kSecond = ring::kRecords + 1;  // in the same place as the first record

ring::RecordedOperation OperationOf(std::uint64_t index) {
  return {index * 2, index * 3, index * 4, index * 5, static_cast<std::int64_t>(index * 6), index * 7};
}

bool IsWhole(const diagnostics::RecordedCall& call) {
  const auto expected = OperationOf(call.index);
  return call.sequence == expected.sequence && call.signature == expected.signature && call.call == expected.call &&
         call.count == expected.count && call.started == expected.started && call.origin == expected.origin;
}

using MutateBlock = std::function<void(ring::ControlBlock&)>;

// Successive records in one place of the ring, and a reader at any time that asks for one (0: the newest).
Result Recording(const MutateBlock& mutate, std::uint64_t records, std::uint64_t asked) {
  return Explore([&, records, asked] {
    auto* const control = new ring::ControlBlock{};
    ring::WriteRecord(*control, 1, OperationOf(1));
    mutate(*control);
    return Program{{[=] {
                      for (std::uint64_t r = 1; r <= records; ++r) {
                        ring::WriteRecord(*control, r * ring::kRecords + 1, OperationOf(r * ring::kRecords + 1));
                      }
                    },
                    [=] {
                      const auto record =
                          diagnostics::ReadRecord(*control, asked == 0 ? diagnostics::NewestRecord(*control) : asked);
                      Require(!record || IsWhole(*record), "a record is read whole or not at all");
                    }},
                   nullptr};
  });
}

ring::OperationRecord& RecordOf(ring::ControlBlock& control) { return control.records[1]; }

TEST(RecorderModel, RecordsAreReadWholeOrNotAtAll) {
  for (const std::uint64_t asked : {std::uint64_t{0}, std::uint64_t{1}, kSecond}) {
    EXPECT_EQ(Recording([](auto&) {}, 1, asked).failure, "");
    EXPECT_EQ(Recording([](auto&) {}, 2, asked).failure, "");
  }
}

TEST(RecorderModel, EveryOrderOfTheSequenceLockIsNeeded) {
  const auto fails = [](const MutateBlock& mutate) {
    return !Recording(mutate, 1, 1).failure.empty() || !Recording(mutate, 1, kSecond).failure.empty();
  };
  EXPECT_TRUE(fails([](auto& c) { Weaken(RecordOf(c).index, Operation::store); }));
  EXPECT_TRUE(fails([](auto& c) { Weaken(RecordOf(c).index, Operation::load); }));
  EXPECT_TRUE(fails([](auto& c) { Weaken(RecordOf(c).sequence, Operation::store); }));
  EXPECT_TRUE(fails([](auto& c) { Weaken(RecordOf(c).sequence, Operation::load); }));
  EXPECT_TRUE(fails([](auto& c) { Weaken(RecordOf(c).origin, Operation::store); }));
  EXPECT_TRUE(fails([](auto& c) { Weaken(RecordOf(c).origin, Operation::load); }));
}

// The lock alone, with words in both forms: the entries of the site table (call_site.cc) are too long to be explored, but
// have no other code.
struct LockedWords {
  std::atomic<std::uint64_t> number;
  std::atomic<std::uint64_t> one;
  std::array<std::atomic<std::uint64_t>, 2> several;

  auto words() { return std::tie(one, several); }
  void Write(std::uint64_t next) { ring::WriteWhole(number, next, words(), next * 2, std::array{next * 3, next * 4}); }
};

using MutateWords = std::function<void(LockedWords&)>;

// Versions 1 to `last`, all in one place, and a reader at any time that asks for one.
Result Locking(const MutateWords& mutate, std::uint64_t last, std::uint64_t asked) {
  return Explore([&, last, asked] {
    auto* const locked = new LockedWords{};
    locked->Write(1);
    mutate(*locked);
    return Program{{[=] {
                      for (std::uint64_t next = 2; next <= last; ++next) locked->Write(next);
                    },
                    [=] {
                      const auto whole = ring::ReadWhole(locked->number, asked, locked->words());
                      if (!whole) return;
                      const auto& [one, several] = *whole;
                      Require(one == asked * 2 && several == std::array{asked * 3, asked * 4},
                              "the words are read whole or not at all");
                    }},
                   nullptr};
  });
}

TEST(SequenceLockModel, WordsAreReadWholeOrNotAtAll) {
  for (const std::uint64_t asked : {1, 2, 3}) EXPECT_EQ(Locking([](auto&) {}, 3, asked).failure, "");
}

TEST(SequenceLockModel, EveryOrderIsNeeded) {
  const auto fails = [](const MutateWords& mutate) {
    return !Locking(mutate, 2, 1).failure.empty() || !Locking(mutate, 2, 2).failure.empty();
  };
  for (const auto operation : {Operation::store, Operation::load}) {
    EXPECT_TRUE(fails([&](auto& l) { Weaken(l.number, operation); }));
    EXPECT_TRUE(fails([&](auto& l) { Weaken(l.one, operation); }));
    for (std::size_t i = 0; i < 2; ++i) EXPECT_TRUE(fails([&](auto& l) { Weaken(l.several[i], operation); })) << i;
  }
}

// A rank that sees that a collective has started finds its record (src/communicator/communicator.cc).
TEST(RecorderModel, BegunOperationsHaveTheirRecords) {
  const auto result = [](const MutateBlock& mutate) {
    return Explore([&] {
      auto* const control = new ring::ControlBlock{};
      mutate(*control);
      return Program{{[=] {
                        ring::WriteRecord(*control, 1, OperationOf(1));
                        control->started.store(1, std::memory_order_release);
                      },
                      [=] {
                        if (control->started.load(std::memory_order_acquire) < 1) return;
                        const auto record =
                            diagnostics::FindRecord(*control, [](const diagnostics::RecordedCall&) { return true; });
                        Require(record && IsWhole(*record), "the record of what has begun is there");
                      }},
                     nullptr};
    });
  };
  EXPECT_EQ(result([](auto&) {}).failure, "");
  EXPECT_NE(result([](auto& c) { Weaken(c.started, Operation::store); }).failure, "");
  EXPECT_NE(result([](auto& c) { Weaken(c.started, Operation::load); }).failure, "");
}

// Like FailureDetector::Fail and FailureDetector::LookAtFailures: writes or reads the text and the code, then the
// state.
TEST(FaultModel, FailuresAreReadWithTheirSentence) {
  const auto result = [](const MutateBlock& mutate) {
    return Explore([&] {
      auto* const control = new ring::ControlBlock{};
      mutate(*control);
      const auto reader = [=] {
        if (control->state.load(std::memory_order_acquire) != ring::RankState::failed) return;
        Require(control->fault_text[0] == 'n' && control->fault_text[1] == 'o', "the sentence is there");
        Require(control->fault_code.load(std::memory_order_relaxed) == 7, "the code is there");
      };
      return Program{{[=] {
                        control->fault_text[0] = 'n';
                        control->fault_text[1] = 'o';
                        control->fault_code.store(7, std::memory_order_relaxed);
                        control->state.store(ring::RankState::failed, std::memory_order_release);
                      },
                      reader, reader},
                     nullptr};
    });
  };
  EXPECT_EQ(result([](auto&) {}).failure, "");
  EXPECT_NE(result([](auto& c) { Weaken(c.state, Operation::store); }).failure, "");
  EXPECT_NE(result([](auto& c) { Weaken(c.state, Operation::load); }).failure, "");
}

}  // namespace
}  // namespace tutti::model
