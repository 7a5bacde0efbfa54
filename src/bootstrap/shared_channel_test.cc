#include "src/bootstrap/shared_channel.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <thread>

#include "net/net_testing.h"

namespace tutti::bootstrap {
namespace {

using testing::Ample;
using testing::BlobOf;

// Both ends of a connection.
struct Ends {
  Ends() {
    int fds[2] = {-1, -1};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    const auto there = auth::SecretKey::Random(), back = auth::SecretKey::Random();
    a = std::make_shared<SharedChannel>(auth::SecureChannel(net::Socket(fds[0]), there, back));
    b = std::make_shared<SharedChannel>(auth::SecureChannel(net::Socket(fds[1]), back, there));
  }

  std::shared_ptr<SharedChannel> a, b;
};

// The next frame; empty once the other end has closed, or after a long time.
std::vector<std::byte> Next(Subchannel& channel) {
  for (const auto give_up = Ample(); !give_up.Passed();) {
    if (auto frame = channel.Receive()) return *frame;
    if (channel.closed()) return {};
    std::vector fds{channel.Watch()};
    AwaitFrames(std::array{&channel}, fds, give_up, {});
  }
  ADD_FAILURE() << "no frame";
  return {};
}

TEST(SharedChannel, EachSubchannelGetsItsOwnFramesInOrder) {
  const Ends ends;
  Subchannel a1(ends.a, 1), a2(ends.a, 2), b1(ends.b, 1), b2(ends.b, 2);
  for (int i = 0; i < 3; ++i) {
    a1.Queue(BlobOf(i, 10));
    a2.Queue(BlobOf(i, 20));
  }
  EXPECT_EQ(Next(b2), BlobOf(0, 20));
  EXPECT_TRUE(b1.waiting()) << "what was read for another is not passed on";
  for (int i = 0; i < 3; ++i) EXPECT_EQ(Next(b1), BlobOf(i, 10));
  EXPECT_FALSE(b1.waiting());
  EXPECT_EQ(Next(b2), BlobOf(1, 20));
  b2.Queue(BlobOf(7, 5));
  EXPECT_EQ(Next(a2), BlobOf(7, 5));
  EXPECT_EQ(a1.Receive(), std::nullopt);
}

TEST(SharedChannel, ClosingOneSubchannelLeavesTheOthers) {
  const Ends ends;
  Subchannel a2(ends.a, 2), b1(ends.b, 1), b2(ends.b, 2);
  {
    Subchannel a1(ends.a, 1);
    a1.Queue(BlobOf(1, 10));
  }
  EXPECT_EQ(Next(b1), BlobOf(1, 10)) << "what came before the end is lost";
  EXPECT_EQ(Next(b1), std::vector<std::byte>());
  EXPECT_TRUE(b1.closed());
  b1.Queue(BlobOf(1, 10));  // nobody takes it, and it disturbs nobody
  b2.Queue(BlobOf(2, 10));
  EXPECT_EQ(Next(a2), BlobOf(2, 10));
  EXPECT_FALSE(ends.a->closed());
}

TEST(SharedChannel, WhyOneWasClosedArrivesBeforeItIsOpen) {
  const Ends ends;
  // Numbers that are never opened here must not crowd out later ones.
  for (std::uint64_t number = 1; number < 1000; ++number) {
    Subchannel(ends.a, number).Queue(BlobOf(1, 100));
    EXPECT_FALSE(ends.b->closed());  // takes in what has arrived
  }
  {
    Subchannel a(ends.a, 1000);
    a.Queue(BlobOf(5, 10));
  }
  Subchannel b(ends.b, 1000);
  EXPECT_EQ(Next(b), BlobOf(5, 10));
  EXPECT_EQ(Next(b), std::vector<std::byte>());
}

TEST(SharedChannel, FramesThatNobodyReadsAreNotTakenInWithoutEnd) {
  constexpr std::size_t kFrame = 100'000, kFrames = 200;
  const Ends ends;
  Subchannel a1(ends.a, 1), a2(ends.a, 2), b1(ends.b, 1), b2(ends.b, 2);
  for (std::size_t i = 0; i < kFrames; ++i) a1.Queue(BlobOf(static_cast<int>(i), kFrame));
  a2.Queue(BlobOf(3, 10));
  // The second's thread reads nothing beyond a bound until the first's has read.
  for (std::size_t i = 0; i < kFrames; ++i) {
    EXPECT_EQ(b2.Receive(), std::nullopt);
    a1.Flush();
  }
  EXPECT_TRUE(a1.sending()) << "20 MB were taken in for a thread that does not read";
  for (std::size_t i = 0; i < kFrames; ++i) {
    a1.Flush();
    EXPECT_EQ(Next(b1), BlobOf(static_cast<int>(i), kFrame));
  }
  EXPECT_EQ(Next(b2), BlobOf(3, 10));
}

TEST(SharedChannel, TheEndOfTheConnectionClosesAllSubchannels) {
  Ends ends;
  Subchannel b1(ends.b, 1), b2(ends.b, 2);
  ends.a.reset();
  EXPECT_EQ(Next(b1), std::vector<std::byte>());
  EXPECT_TRUE(b1.closed());
  EXPECT_TRUE(b2.left());
  EXPECT_TRUE(ends.b->closed());
}

TEST(SharedChannel, ThreadsUseTheirSubchannelsAtTheSameTime) {
  constexpr int kThreads = 4, kRounds = 300;
  const Ends ends;
  std::vector<std::thread> threads;
  for (const bool first : {true, false}) {
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&ends, first, t] {
        Subchannel mine(first ? ends.a : ends.b, static_cast<std::uint64_t>(t));
        for (int round = 0; round < kRounds; ++round) {
          if (first) mine.Queue(BlobOf(t, static_cast<std::size_t>(round + 1)));
          EXPECT_EQ(Next(mine), BlobOf(t, static_cast<std::size_t>(round + 1)));
          if (!first) mine.Queue(BlobOf(t, static_cast<std::size_t>(round + 1)));
        }
      });
    }
  }
  for (auto& thread : threads) thread.join();
}

TEST(SharedChannels, ForgetThoseThatHaveEnded) {
  SharedChannels channels;
  Ends ends, later;
  channels.Add(3, ends.a);
  EXPECT_EQ(channels.Find(3), ends.a);
  EXPECT_EQ(channels.Find(2), nullptr);
  channels.Add(3, later.a);
  EXPECT_EQ(channels.Find(3), ends.a) << "an open connection was replaced";
  ends.b.reset();
  EXPECT_EQ(channels.Find(3), nullptr);
  channels.Add(3, later.a);
  EXPECT_EQ(channels.Find(3), later.a);
}

}  // namespace
}  // namespace tutti::bootstrap
