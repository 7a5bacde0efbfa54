#include "interop/torch/csrc/task_queue.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <future>
#include <limits>
#include <mutex>
#include <random>
#include <string>
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
  std::string Claim(const std::string&, const std::string& value) override { return value; }
  bool Has(const std::string&) override { return true; }
  std::string Read(const std::string&) override { return ""; }
};

// The tasks that one queue ran; written without a lock, since they run one at a time.
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

std::shared_ptr<TaskQueue> NewChannel() {
  return std::make_shared<TaskQueue>([](const std::atomic<bool>& cancelled) {
    NoBoard board;
    return Communicator::Meet({}, board, cancelled);
  });
}

struct Issued {
  std::shared_ptr<TaskQueue> queue;
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
    case 0: last.queue->Wait(*last.task); return ExpectEnded(*last.task);
    case 1: return last.queue->Hurry();
    case 2: static_cast<void>(last.queue->WaitFor(*last.task, std::chrono::milliseconds(1))); break;
    case 3: any.queue->Wait(*any.task); return ExpectEnded(*any.task);
    case 4: std::this_thread::sleep_for(std::chrono::microseconds(random() % 900)); break;
    default: break;
  }
  if (any.task->IsDone()) ExpectEnded(*any.task);
}

TEST(TaskQueue, RunsEachThreadsTasksOnceAndInOrderWhoeverWaitsForThem) {
  for (int round = 0; round < kRounds; ++round) {
    const std::vector<std::shared_ptr<TaskQueue>> queues{NewChannel(), NewChannel(), NewChannel()};
    std::vector<Log> logs(queues.size());
    std::vector<std::thread> threads;
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] {
        std::mt19937 random(static_cast<unsigned>(round * kThreads + thread));
        std::vector<Issued> issued;
        for (int number = 0; number < kTasksOfEach; ++number) {
          const auto which = random() % queues.size();
          issued.push_back({queues[which], std::make_shared<Noting>(logs[which], thread, number)});
          issued.back().queue->Issue(issued.back().task);
          UseSomehow(static_cast<unsigned>(random() % 6), issued, random);
        }
        for (const auto& [queue, task] : issued) {
          queue->Wait(*task);
          ExpectEnded(*task);
        }
      });
    }
    for (auto& thread : threads) thread.join();
    for (const auto& queue : queues) queue->Close();
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

// Counts how often this process's other threads have gone to sleep.
long TimesSlept() {
  long times = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    if (task.path().filename() == std::to_string(gettid())) continue;
    std::ifstream status(task.path() / "status");
    const std::string name = "voluntary_ctxt_switches:";
    for (std::string line; std::getline(status, line);) {
      if (line.starts_with(name)) times += std::stol(line.substr(name.size()));
    }
  }
  return times;
}

void WaitForATask(TaskQueue& queue, Log& log) {
  const auto task = std::make_shared<Noting>(log, 0, 0);
  queue.Issue(task);
  queue.Wait(*task);
}

void WaitForTasks(TaskQueue& queue, Log& log, std::chrono::milliseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) WaitForATask(queue, log);
}

// While the worker looks, no waiting thread has its core.
TEST(TaskQueue, ItsWorkerLooksRarelyWhereEveryTaskIsWaitedFor) {
  // Another process may have the core between issue and wait, which looks like a program that does something else there.
  constexpr int kTries = 20;
  constexpr long kFew = 100;  // one in 400 us is 250, one in 5 ms is 20
  long least = std::numeric_limits<long>::max();
  for (int attempt = 0; attempt < kTries && least >= kFew; ++attempt) {
    const auto queue = NewChannel();
    Log log;
    WaitForTasks(*queue, log, std::chrono::milliseconds(60));  // the worker learns it
    const auto before = TimesSlept();
    WaitForTasks(*queue, log, std::chrono::milliseconds(100));
    least = std::min(least, TimesSlept() - before);
    queue->Close();
  }
  EXPECT_LT(least, kFew);
}

TEST(TaskQueue, ItsWorkerTakesTasksThatAProgramOverlapsWithItsWork) {
  constexpr int kTries = 5;  // on a busy machine the worker may come late
  constexpr int kOverlaps = 20;
  constexpr int kBetween = 500;
  int most = 0;
  for (int attempt = 0; attempt < kTries && most < kOverlaps * 3 / 4; ++attempt) {
    const auto queue = NewChannel();
    Log log;
    WaitForTasks(*queue, log, std::chrono::milliseconds(100));
    int overlapped = 0;
    for (int round = 0; round < kOverlaps; ++round) {
      const auto task = std::make_shared<Noting>(log, 0, 0);
      queue->Issue(task);
      std::this_thread::sleep_for(std::chrono::milliseconds(4));
      if (task->IsDone()) ++overlapped;
      queue->Wait(*task);
      for (int i = 0; i < kBetween; ++i) WaitForATask(*queue, log);
    }
    most = std::max(most, overlapped);
    queue->Close();
  }
  EXPECT_GE(most, kOverlaps * 3 / 4);  // all but the first
}

TEST(TaskQueue, ACallbackMayIssueOnItsOwnChannelAndWait) {
  const auto queue = NewChannel();
  Log log;
  const auto inner = std::make_shared<Noting>(log, 1, 0);
  const auto outer = std::make_shared<Noting>(log, 0, 0, [&] {
    queue->Issue(inner);
    queue->Wait(*inner);
  });
  queue->Issue(outer);
  queue->Wait(*outer);
  EXPECT_TRUE(inner->has_ended());
  EXPECT_EQ(log, (Log{{0, 0}, {1, 0}}));
  queue->Close();
}

// Issues a task whose callbacks issue the next one, down to depth 0, and wait for its callbacks as a future does.
std::shared_ptr<Noting> IssueNested(TaskQueue& queue, Log& log, int thread, int depth) {
  auto task = std::make_shared<Noting>(log, thread, depth, [&queue, &log, thread, depth] {
    if (depth == 0) return;
    const auto inner = IssueNested(queue, log, thread, depth - 1);
    queue.Hurry();
    EXPECT_TRUE(inner->WaitForCallbacks());
  });
  queue.Issue(task);
  return task;
}

TEST(TaskQueue, CallbacksThatWaitInFuturesAreWaitedForByAnotherWorker) {
  constexpr int kDepth = 3;
  const auto queue = NewChannel();
  Log log;
  const auto outer = IssueNested(*queue, log, 0, kDepth);
  EXPECT_TRUE(outer->WaitForCallbacks());  // only the queue's own workers run tasks
  queue->Close();
  EXPECT_EQ(log, (Log{{0, 3}, {0, 2}, {0, 1}, {0, 0}}));
}

TEST(TaskQueue, ManyCallbacksWaitInFuturesAtTheSameTime) {
  for (int round = 0; round < kRounds; ++round) {
    const std::vector<std::shared_ptr<TaskQueue>> queues{NewChannel(), NewChannel(), NewChannel()};
    std::vector<Log> logs(queues.size());
    std::vector<std::thread> threads;
    for (int thread = 0; thread < kThreads; ++thread) {
      threads.emplace_back([&, thread] {
        std::mt19937 random(static_cast<unsigned>(round * kThreads + thread));
        std::vector<Issued> issued;
        for (int number = 0; number < 10; ++number) {
          const auto which = random() % queues.size();
          issued.push_back({queues[which], IssueNested(*queues[which], logs[which], thread, 3)});
          UseSomehow(static_cast<unsigned>(random() % 6), issued, random);
        }
        for (const auto& [queue, task] : issued) {
          queue->Wait(*task);
          EXPECT_TRUE(task->WaitForCallbacks());
        }
      });
    }
    for (auto& thread : threads) thread.join();
    std::size_t all = 0;
    for (std::size_t i = 0; i < queues.size(); ++i) {
      queues[i]->Close();
      all += logs[i].size();
    }
    EXPECT_EQ(all, static_cast<std::size_t>(kThreads * 10 * 4));
  }
}

TEST(TaskQueue, ACallbackMayWaitForItsOwnTask) {
  const auto queue = NewChannel();
  Log log;
  std::shared_ptr<Noting> task;
  task = std::make_shared<Noting>(log, 0, 0, [&] {
    queue->Wait(*task);
    EXPECT_TRUE(task->IsDone());
    EXPECT_TRUE(queue->WaitFor(*task, kHang));
  });
  queue->Issue(task);
  queue->Hurry();
  EXPECT_TRUE(task->WaitForCallbacks());
  queue->Close();
}

// The destructor of a task that holds tensors may wait for Python's lock. A thread that has that lock may be waiting for
// the queue's.
class AnotherUsesTheQueueMeanwhile : public Task {
 public:
  AnotherUsesTheQueueMeanwhile(TaskQueue& queue, std::promise<bool>& is_free) : queue_(queue), is_free_(is_free) {}
  ~AnotherUsesTheQueueMeanwhile() override {
    std::promise<void> used;
    auto has_been_used = used.get_future();
    std::thread([queue = &queue_, used = std::move(used)]() mutable {
      queue->Hurry();
      used.set_value();
    }).detach();
    is_free_.set_value(has_been_used.wait_for(kFreed) == std::future_status::ready);
  }

 private:
  static constexpr auto kFreed = std::chrono::seconds(10);

  void Run(tuttiComm_t) override {}

  TaskQueue& queue_;
  std::promise<bool>& is_free_;
};

TEST(TaskQueue, IsNotLockedWhileATaskIsFreed) {
  for (const bool is_waited_for : {false, true}) {
    const auto queue = NewChannel();
    std::promise<bool> is_free;
    queue->Issue(std::make_shared<AnotherUsesTheQueueMeanwhile>(*queue, is_free));
    Log log;
    const auto next = std::make_shared<Noting>(log, 0, 0);
    queue->Issue(next);
    if (is_waited_for) queue->Wait(*next);
    EXPECT_TRUE(is_free.get_future().get());
    queue->Close();
  }
}

TEST(TaskQueue, ClosingRunsWhatIsQueuedAndRefusesTheRest) {
  for (int round = 0; round < kRounds; ++round) {
    const auto queue = NewChannel();
    Log log;
    std::vector<std::shared_ptr<Noting>> issued;
    std::thread issuer([&] {
      try {
        for (int number = 0; number < kTasksOfEach; ++number) {
          auto task = std::make_shared<Noting>(log, 0, number);
          queue->Issue(task);
          issued.push_back(std::move(task));
        }
      } catch (const Failure& failure) {
        EXPECT_EQ(failure.code(), tuttiInvalidUsage);
      }
    });
    std::this_thread::sleep_for(std::chrono::microseconds(10 * round));
    queue->Close();
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
