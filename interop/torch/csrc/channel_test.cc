#include "interop/torch/csrc/channel.h"

#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <random>
#include <utility>
#include <vector>

#include "interop/torch/csrc/failure.h"

namespace tutti::pytorch {

// Replaces the communicator: these tests only check which thread makes, stops and frees it, and when.
std::unique_ptr<Communicator> Communicator::Meet(const Meeting&, Board&, const std::atomic<bool>&) {
  return std::unique_ptr<Communicator>(new Communicator(nullptr));
}
Communicator::~Communicator() {
  if (before_end_) before_end_();
}
void Communicator::Stop() {}

namespace {

constexpr int kThreads = 4;
constexpr int kTasksOfEach = 100;
constexpr int kRounds = 20;
constexpr int kFailing = 17;  // every kFailing-th task fails
constexpr auto kHang = std::chrono::seconds(60);

class NoBoard : public Board {
  void Write(const std::string&, const std::string&) override {}
  bool Has(const std::string&) override { return true; }
  std::string Read(const std::string&) override { return ""; }
};

// The tasks that one channel ran; written without a lock, since they run one at a time.
using Log = std::vector<std::pair<int, int>>;  // thread, number

class Noting : public Task {
 public:
  Noting(Log& log, int thread, int number, std::function<void()> then = nullptr)
      : log_(log), thread_(thread), number_(number), then_(std::move(then)) {}

  bool has_ended() const { return has_ended_; }
  // Waits as a program waits in a future, without running tasks.
  bool WaitForCallbacks() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kHang, [this] { return called_back_; });
  }
  bool is_to_fail() const { return number_ % kFailing == kFailing - 1; }

 private:
  void Run(tuttiComm_t) override {
    log_.emplace_back(thread_, number_);
    if (is_to_fail()) throw Failure(tuttiInternalError, "as it was to");
  }
  std::exception_ptr Ended(std::exception_ptr error) noexcept override {
    has_ended_ = true;
    return error;
  }
  bool HasCallbacks() const override { return then_ != nullptr; }
  void RunCallbacks() noexcept override {
    then_();
    const std::lock_guard lock(mutex_);
    called_back_ = true;
    changed_.notify_all();
  }

  Log& log_;
  const int thread_;
  const int number_;
  const std::function<void()> then_;
  bool has_ended_ = false;  // read without a lock by threads that see the task done
  std::mutex mutex_;
  std::condition_variable changed_;
  bool called_back_ = false;
};

std::shared_ptr<Channel> NewChannel() {
  return std::make_shared<Channel>([](const std::atomic<bool>& cancelled) {
    NoBoard board;
    return Communicator::Meet({}, board, cancelled);
  });
}

struct Issued {
  std::shared_ptr<Channel> channel;
  std::shared_ptr<Noting> task;
};

void ExpectEnded(const Noting& task) {
  EXPECT_TRUE(task.has_ended());
  EXPECT_EQ(task.Error() != nullptr, task.is_to_fail());
}

// Does something a program may do with the operation just issued, or with an earlier one.
void UseSomehow(unsigned how, const std::vector<Issued>& issued, std::mt19937& random) {
  const auto& last = issued.back();
  const auto& any = issued[random() % issued.size()];
  switch (how) {
    case 0: last.channel->Wait(*last.task); return ExpectEnded(*last.task);
    case 1: return last.channel->Hurry();
    case 2: static_cast<void>(last.channel->WaitFor(*last.task, std::chrono::milliseconds(1))); break;
    case 3: any.channel->Wait(*any.task); return ExpectEnded(*any.task);
    case 4: std::this_thread::sleep_for(std::chrono::microseconds(random() % 900)); break;
    default: break;
  }
  if (any.task->IsDone()) ExpectEnded(*any.task);
}

TEST(Channel, RunsEachThreadsTasksOnceAndInOrderWhoeverWaitsForThem) {
  for (int round = 0; round < kRounds; ++round) {
    const std::vector<std::shared_ptr<Channel>> channels{NewChannel(), NewChannel(), NewChannel()};
    std::vector<Log> logs(channels.size());
    std::vector<std::thread> threads;
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] {
        std::mt19937 random(static_cast<unsigned>(round * kThreads + thread));
        std::vector<Issued> issued;
        for (int number = 0; number < kTasksOfEach; ++number) {
          const auto which = random() % channels.size();
          issued.push_back({channels[which], std::make_shared<Noting>(logs[which], thread, number)});
          issued.back().channel->Issue(issued.back().task);
          UseSomehow(static_cast<unsigned>(random() % 6), issued, random);
        }
        for (const auto& [channel, task] : issued) {
          channel->Wait(*task);
          ExpectEnded(*task);
        }
      });
    }
    for (auto& thread : threads) thread.join();
    for (const auto& channel : channels) channel->Close();
    std::size_t all = 0;
    for (const auto& log : logs) {
      all += log.size();
      std::vector<int> last(kThreads, -1);
      for (const auto& [thread, number] : log) {
        EXPECT_LT(last[static_cast<std::size_t>(thread)], number);
        last[static_cast<std::size_t>(thread)] = number;
      }
    }
    EXPECT_EQ(all, static_cast<std::size_t>(kThreads * kTasksOfEach));
  }
}

TEST(Channel, ACallbackMayIssueOnItsOwnChannelAndWait) {
  const auto channel = NewChannel();
  Log log;
  const auto inner = std::make_shared<Noting>(log, 1, 0);
  const auto outer = std::make_shared<Noting>(log, 0, 0, [&] {
    channel->Issue(inner);
    channel->Wait(*inner);
  });
  channel->Issue(outer);
  channel->Wait(*outer);
  EXPECT_TRUE(inner->has_ended());
  EXPECT_EQ(log, (Log{{0, 0}, {1, 0}}));
  channel->Close();
}

// Issues a task whose callbacks issue the next one, down to depth 0, and wait for its callbacks as a future does.
std::shared_ptr<Noting> IssueNested(Channel& channel, Log& log, int thread, int depth) {
  auto task = std::make_shared<Noting>(log, thread, depth, [&channel, &log, thread, depth] {
    if (depth == 0) return;
    const auto inner = IssueNested(channel, log, thread, depth - 1);
    channel.Hurry();
    EXPECT_TRUE(inner->WaitForCallbacks());
  });
  channel.Issue(task);
  return task;
}

TEST(Channel, CallbacksThatWaitInFuturesAreWaitedForByAnotherWorker) {
  constexpr int kDepth = 3;
  const auto channel = NewChannel();
  Log log;
  const auto outer = IssueNested(*channel, log, 0, kDepth);
  EXPECT_TRUE(outer->WaitForCallbacks());  // only the channel's own workers run tasks
  channel->Close();
  EXPECT_EQ(log, (Log{{0, 3}, {0, 2}, {0, 1}, {0, 0}}));
}

TEST(Channel, ManyCallbacksWaitInFuturesAtTheSameTime) {
  for (int round = 0; round < kRounds; ++round) {
    const std::vector<std::shared_ptr<Channel>> channels{NewChannel(), NewChannel(), NewChannel()};
    std::vector<Log> logs(channels.size());
    std::vector<std::thread> threads;
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] {
        std::mt19937 random(static_cast<unsigned>(round * kThreads + thread));
        std::vector<Issued> issued;
        for (int number = 0; number < 10; ++number) {
          const auto which = random() % channels.size();
          issued.push_back({channels[which], IssueNested(*channels[which], logs[which], thread, 3)});
          UseSomehow(static_cast<unsigned>(random() % 6), issued, random);
        }
        for (const auto& [channel, task] : issued) {
          channel->Wait(*task);
          EXPECT_TRUE(task->WaitForCallbacks());
        }
      });
    }
    for (auto& thread : threads) thread.join();
    std::size_t all = 0;
    for (std::size_t i = 0; i < channels.size(); ++i) {
      channels[i]->Close();
      all += logs[i].size();
    }
    EXPECT_EQ(all, static_cast<std::size_t>(kThreads * 10 * 4));
  }
}

TEST(Channel, ACallbackMayWaitForItsOwnTask) {
  const auto channel = NewChannel();
  Log log;
  std::shared_ptr<Noting> task;
  task = std::make_shared<Noting>(log, 0, 0, [&] {
    channel->Wait(*task);
    EXPECT_TRUE(task->IsDone());
    EXPECT_TRUE(channel->WaitFor(*task, kHang));
  });
  channel->Issue(task);
  channel->Hurry();
  EXPECT_TRUE(task->WaitForCallbacks());
  channel->Close();
}

TEST(Channel, ClosingRunsWhatIsQueuedAndRefusesTheRest) {
  for (int round = 0; round < kRounds; ++round) {
    const auto channel = NewChannel();
    Log log;
    std::vector<std::shared_ptr<Noting>> issued;
    std::thread issuer([&] {
      try {
        for (int number = 0; number < kTasksOfEach; ++number) {
          auto task = std::make_shared<Noting>(log, 0, number);
          channel->Issue(task);
          issued.push_back(std::move(task));
        }
      } catch (const Failure& failure) {
        EXPECT_EQ(failure.code(), tuttiInvalidUsage);
      }
    });
    std::this_thread::sleep_for(std::chrono::microseconds(10 * round));
    channel->Close();
    issuer.join();
    EXPECT_EQ(log.size(), issued.size());
    for (const auto& task : issued) {
      ASSERT_TRUE(task->IsDone());
      ExpectEnded(*task);
    }
  }
}

}  // namespace
}  // namespace tutti::pytorch
