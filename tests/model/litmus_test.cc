// Tests the checker itself: for each classic litmus test it must find exactly the outcomes that the memory model
// allows.
#include <gtest/gtest.h>

#include <array>
#include <initializer_list>
#include <set>
#include <vector>

#include "tests/model/checker.h"

namespace tutti::model {
namespace {

constexpr auto relaxed = std::memory_order_relaxed;
constexpr auto acquire = std::memory_order_acquire;
constexpr auto release = std::memory_order_release;
constexpr auto acq_rel = std::memory_order_acq_rel;
constexpr auto seq_cst = std::memory_order_seq_cst;

struct Shared {
  std::array<std::atomic<int>, 3> at{};
  std::array<int, 4> got{};

  std::atomic<int>& x() { return at[0]; }
  std::atomic<int>& y() { return at[1]; }
  std::atomic<int>& z() { return at[2]; }
};

using Outcomes = std::set<std::vector<int>>;
using Body = std::function<void(Shared&)>;

Outcomes OutcomesBy(const Options& options, const std::vector<Body>& bodies, int count, int finals) {
  Outcomes outcomes;
  const auto result = Explore(
      [&] {
        auto* const shared = new Shared;
        Program program;
        for (const auto& body : bodies) program.threads.emplace_back([&body, shared] { body(*shared); });
        program.finally = [&outcomes, count, finals, shared] {
          std::vector<int> outcome(shared->got.begin(), shared->got.begin() + count);
          for (int i = 0; i < finals; ++i) outcome.push_back(shared->at[i].load(relaxed));
          outcomes.insert(outcome);
        };
        return program;
      },
      options);
  EXPECT_EQ(result.failure, "");
  return outcomes;
}

// The `count` results of each execution, followed by the final values of the first `finals` atomics. The checker's
// shortcuts must not lose an outcome.
Outcomes OutcomesOf(const std::vector<Body>& bodies, int count, int finals = 0) {
  const auto outcomes = OutcomesBy({}, bodies, count, finals);
  Options naive;
  naive.naive = true;
  EXPECT_EQ(outcomes, OutcomesBy(naive, bodies, count, finals));
  return outcomes;
}

// All vectors of zeros and ones except these.
Outcomes AllBut(int length, const Outcomes& forbidden) {
  Outcomes all;
  for (int bits = 0; bits < 1 << length; ++bits) {
    std::vector<int> each;
    for (int i = length - 1; i >= 0; --i) each.push_back(bits >> i & 1);
    if (!forbidden.contains(each)) all.insert(each);
  }
  return all;
}

Outcomes MessagePassing(std::memory_order stores, std::memory_order loads, bool store_fence = false,
                        bool load_fence = false) {
  return OutcomesOf({[=](Shared& s) {
                       s.x().store(1, relaxed);
                       if (store_fence) std::atomic_thread_fence(release);
                       s.y().store(1, stores);
                     },
                     [=](Shared& s) {
                       s.got[0] = s.y().load(loads);
                       if (load_fence) std::atomic_thread_fence(acquire);
                       s.got[1] = s.x().load(relaxed);
                     }},
                    2);
}

TEST(ModelLitmus, MessagesNeedReleaseAndAcquire) {
  EXPECT_EQ(MessagePassing(relaxed, relaxed), AllBut(2, {}));
  EXPECT_EQ(MessagePassing(release, relaxed), AllBut(2, {}));
  EXPECT_EQ(MessagePassing(relaxed, acquire), AllBut(2, {}));
  EXPECT_EQ(MessagePassing(release, acquire), AllBut(2, {{1, 0}}));
  EXPECT_EQ(MessagePassing(seq_cst, seq_cst), AllBut(2, {{1, 0}}));
}

TEST(ModelLitmus, FencesPassMessagesToo) {
  EXPECT_EQ(MessagePassing(relaxed, relaxed, true, true), AllBut(2, {{1, 0}}));
  EXPECT_EQ(MessagePassing(relaxed, acquire, true, false), AllBut(2, {{1, 0}}));
  EXPECT_EQ(MessagePassing(release, relaxed, false, true), AllBut(2, {{1, 0}}));
  EXPECT_EQ(MessagePassing(relaxed, relaxed, true, false), AllBut(2, {}));
  EXPECT_EQ(MessagePassing(relaxed, relaxed, false, true), AllBut(2, {}));
}

Outcomes StoreBuffering(std::memory_order stores, std::memory_order loads, int fences = 0) {
  const auto thread = [=](int own) {
    return [=](Shared& s) {
      s.at[own].store(1, stores);
      if (own < fences) std::atomic_thread_fence(seq_cst);
      s.got[own] = s.at[1 - own].load(loads);
    };
  };
  return OutcomesOf({thread(0), thread(1)}, 2);
}

TEST(ModelLitmus, StoreBuffersNeedSequentialConsistency) {
  EXPECT_EQ(StoreBuffering(relaxed, relaxed), AllBut(2, {}));
  EXPECT_EQ(StoreBuffering(release, acquire), AllBut(2, {}));
  EXPECT_EQ(StoreBuffering(seq_cst, acquire), AllBut(2, {}));
  EXPECT_EQ(StoreBuffering(release, seq_cst), AllBut(2, {}));
  EXPECT_EQ(StoreBuffering(seq_cst, seq_cst), AllBut(2, {{0, 0}}));
  EXPECT_EQ(StoreBuffering(relaxed, relaxed, 2), AllBut(2, {{0, 0}}));
  EXPECT_EQ(StoreBuffering(relaxed, relaxed, 1), AllBut(2, {}));
}

// The one thing that C++20's text leaves open: values out of thin air. As in RC11, no load reads a store of its own
// thread that comes later and depends on it.
TEST(ModelLitmus, LoadsAreNotBuffered) {
  EXPECT_EQ(OutcomesOf({[](Shared& s) {
                          s.got[0] = s.x().load(relaxed);
                          s.y().store(1, relaxed);
                        },
                        [](Shared& s) {
                          s.got[1] = s.y().load(relaxed);
                          s.x().store(1, relaxed);
                        }},
                       2),
            AllBut(2, {{1, 1}}));
}

Outcomes IndependentReads(std::memory_order stores, std::memory_order loads, bool fences = false) {
  const auto reader = [=](int first) {
    return [=](Shared& s) {
      s.got[first * 2] = s.at[first].load(loads);
      if (fences) std::atomic_thread_fence(seq_cst);
      s.got[first * 2 + 1] = s.at[1 - first].load(loads);
    };
  };
  return OutcomesOf(
      {[=](Shared& s) { s.x().store(1, stores); }, [=](Shared& s) { s.y().store(1, stores); }, reader(0), reader(1)},
      4);
}

TEST(ModelLitmus, IndependentReadsOfIndependentWrites) {
  EXPECT_EQ(IndependentReads(relaxed, relaxed), AllBut(4, {}));
  EXPECT_EQ(IndependentReads(release, acquire), AllBut(4, {}));
  EXPECT_EQ(IndependentReads(seq_cst, seq_cst), AllBut(4, {{1, 0, 1, 0}}));
  EXPECT_EQ(IndependentReads(relaxed, seq_cst), AllBut(4, {{1, 0, 1, 0}}));
  EXPECT_EQ(IndependentReads(relaxed, relaxed, true), AllBut(4, {{1, 0, 1, 0}}));
}

TEST(ModelLitmus, ReadsOfOneLocationAreCoherent) {
  EXPECT_EQ(OutcomesOf({[](Shared& s) {
                          s.x().store(1, relaxed);
                          s.x().store(2, relaxed);
                        },
                        [](Shared& s) {
                          s.got[0] = s.x().load(relaxed);
                          s.got[1] = s.x().load(relaxed);
                        }},
                       2),
            (Outcomes{{0, 0}, {0, 1}, {0, 2}, {1, 1}, {1, 2}, {2, 2}}));
}

// Two readers agree on the order of two writers' stores.
TEST(ModelLitmus, StoresToOneLocationHaveOneOrder) {
  const auto reader = [](int at) {
    return [=](Shared& s) {
      s.got[at] = s.x().load(relaxed);
      s.got[at + 1] = s.x().load(relaxed);
    };
  };
  const auto outcomes = OutcomesOf(
      {[](Shared& s) { s.x().store(1, relaxed); }, [](Shared& s) { s.x().store(2, relaxed); }, reader(0), reader(2)},
      4);
  EXPECT_FALSE(outcomes.contains({1, 2, 2, 1}));
  EXPECT_FALSE(outcomes.contains({2, 1, 1, 2}));
  EXPECT_TRUE(outcomes.contains({1, 2, 1, 2}));
  EXPECT_TRUE(outcomes.contains({2, 1, 2, 1}));
  // Each reader alone may see any pair except those that go back to 0; together, all pairs except those that disagree.
  EXPECT_EQ(outcomes.size(), 7U * 7U - 2U);
}

Outcomes TwoPlusTwo(std::memory_order order) {
  const auto writer = [=](int first) {
    return [=](Shared& s) {
      s.at[first].store(1, order);
      s.at[1 - first].store(2, order);
    };
  };
  return OutcomesOf({writer(0), writer(1)}, 0, 2);
}

TEST(ModelLitmus, TwoWritesEach) {
  EXPECT_EQ(TwoPlusTwo(relaxed), (Outcomes{{1, 1}, {1, 2}, {2, 1}, {2, 2}}));
  EXPECT_EQ(TwoPlusTwo(release), (Outcomes{{1, 1}, {1, 2}, {2, 1}, {2, 2}}));
  EXPECT_EQ(TwoPlusTwo(seq_cst), (Outcomes{{1, 2}, {2, 1}, {2, 2}}));
}

// A thread's release also publishes what the thread has read.
Outcomes WriteToRead(std::memory_order loads, std::memory_order stores) {
  return OutcomesOf({[](Shared& s) { s.x().store(1, relaxed); },
                     [=](Shared& s) {
                       s.got[0] = s.x().load(relaxed);
                       s.y().store(1, stores);
                     },
                     [=](Shared& s) {
                       s.got[1] = s.y().load(loads);
                       s.got[2] = s.x().load(relaxed);
                     }},
                    3);
}

TEST(ModelLitmus, WriteToReadCausality) {
  EXPECT_EQ(WriteToRead(relaxed, relaxed), AllBut(3, {}));
  EXPECT_EQ(WriteToRead(acquire, release), AllBut(3, {{1, 1, 0}}));
}

Outcomes Chain(std::memory_order loads, std::memory_order stores) {
  return OutcomesOf({[=](Shared& s) {
                       s.x().store(1, relaxed);
                       s.y().store(1, stores);
                     },
                     [=](Shared& s) {
                       s.got[0] = s.y().load(loads);
                       s.z().store(1, stores);
                     },
                     [=](Shared& s) {
                       s.got[1] = s.z().load(loads);
                       s.got[2] = s.x().load(relaxed);
                     }},
                    3);
}

TEST(ModelLitmus, ReleasesChain) {
  EXPECT_EQ(Chain(relaxed, relaxed), AllBut(3, {}));
  EXPECT_EQ(Chain(acquire, release), AllBut(3, {{1, 1, 0}}));
}

// A read-modify-write continues the release sequence of the store before it; a plain store does not.
TEST(ModelLitmus, ReleaseSequences) {
  const auto outcomes = [](bool changes) {
    return OutcomesOf({[](Shared& s) {
                         s.x().store(1, relaxed);
                         s.y().store(1, release);
                       },
                       [=](Shared& s) {
                         if (s.y().load(relaxed) != 1) return;
                         if (changes) {
                           s.y().fetch_add(1, relaxed);
                         } else {
                           s.y().store(2, relaxed);
                         }
                       },
                       [](Shared& s) {
                         s.got[0] = s.y().load(acquire);
                         s.got[1] = s.x().load(relaxed);
                       }},
                      2);
  };
  EXPECT_FALSE(outcomes(true).contains({2, 0}));
  EXPECT_TRUE(outcomes(true).contains({2, 1}));
  EXPECT_TRUE(outcomes(false).contains({2, 0}));
}

TEST(ModelLitmus, ReadModifyWritesAreAtomic) {
  const auto add = [](int at) { return [=](Shared& s) { s.got[at] = s.x().fetch_add(1, relaxed); }; };
  EXPECT_EQ(OutcomesOf({add(0), add(1), add(2)}, 3, 1),
            (Outcomes{{0, 1, 2, 3}, {0, 2, 1, 3}, {1, 0, 2, 3}, {1, 2, 0, 3}, {2, 0, 1, 3}, {2, 1, 0, 3}}));
  const auto claim = [](int at) {
    return [=](Shared& s) {
      int none = 0;
      s.got[at] = s.x().compare_exchange_strong(none, at + 1, acq_rel, relaxed);
    };
  };
  EXPECT_EQ(OutcomesOf({claim(0), claim(1)}, 2, 1), (Outcomes{{0, 1, 2}, {1, 0, 1}}));
}

// Store buffering. One side has only a compiler fence; the other makes all threads execute a full fence.
TEST(ModelLitmus, MembarrierIsAFenceOfTheOtherSide) {
  const auto outcomes = [](bool barrier) {
    return OutcomesOf({[](Shared& s) {
                         s.x().store(1, release);
                         std::atomic_signal_fence(seq_cst);
                         s.got[0] = s.y().load(relaxed);
                       },
                       [=](Shared& s) {
                         s.y().store(1, relaxed);
                         if (barrier) Membarrier();
                         s.got[1] = s.x().load(acquire);
                       }},
                      2);
  };
  EXPECT_EQ(outcomes(false), AllBut(2, {}));
  EXPECT_EQ(outcomes(true), AllBut(2, {{0, 0}}));
}

}  // namespace
}  // namespace tutti::model
