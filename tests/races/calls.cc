#include "tests/races/calls.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

// Present if the address sanitizer is. Its allocator (GCC 12's) may stay locked in a child of fork(), which the library
// cannot prevent, so then the test forks no such children.
extern "C" void __asan_init(void) __attribute__((weak));

namespace tutti::races {
namespace {

constexpr auto kF = tuttiFloat32;

// In a child of fork() every call is refused. The child then ends.
tuttiResult_t Fork(World& world, Side& side) {
  auto* const comm = side.comm();
  const pid_t child = fork();
  if (child == 0) {
    int number = 0;
    if (tuttiCommCount(comm, &number) == tuttiSuccess) _exit(1);
    if (tuttiCommAbort(comm) == tuttiSuccess) _exit(2);
    if (tuttiStreamQuery(world.streams[0]) == tuttiSuccess) _exit(3);
    _exit(0);
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
  }
  if (status != 0) std::abort();
  return tuttiSuccess;
}

tuttiResult_t InGroup(const std::function<tuttiResult_t()>& calls) {
  tuttiGroupStart();
  const auto result = calls();
  const auto ended = tuttiGroupEnd();
  return result != tuttiSuccess ? result : ended;
}

// Room for each rank's block, never in place.
struct Layouts {
  tuttiTensorLayout_t part{2, {4, 2}, {2, 1}}, whole;
  explicit Layouts(int nranks) : whole{2, {4 * static_cast<std::size_t>(nranks), 2}, {2, 1}} {}
};

std::vector<RacingCall> Collectives() {
  return {
      {"AllReduce",
       [](World&, Side& s) { return tuttiAllReduce(s.in.data(), s.out.data(), 4, kF, tuttiSum, s.comm(), nullptr); }},
      {"AllReduce on a stream",
       [](World& w, Side& s) {
         return tuttiAllReduce(s.in.data(), s.out.data(), 4, kF, tuttiSum, s.comm(), w.streams[0]);
       }},
      {"AllReduce with an operator of one's own",
       [](World& w, Side& s) {
         const int op = w.op.load();
         return tuttiAllReduce(s.in.data(), s.out.data(), 4, kF, op == 0 ? tuttiSum : static_cast<tuttiRedOp_t>(op),
                               s.comm(), nullptr);
       }},
      {"Reduce",
       [](World&, Side& s) { return tuttiReduce(s.in.data(), s.out.data(), 4, kF, tuttiMax, 0, s.comm(), nullptr); }},
      {"Broadcast",
       [](World& w, Side& s) {
         return tuttiBroadcast(s.in.data(), s.out.data(), 4, kF, w.nranks - 1, s.comm(), w.streams[1]);
       }},
      {"Bcast", [](World&, Side& s) { return tuttiBcast(s.out.data(), 4, kF, 0, s.comm(), nullptr); }},
      {"ReduceScatter",
       [](World&, Side& s) {
         return tuttiReduceScatter(s.in.data(), s.out.data(), 4, kF, tuttiSum, s.comm(), nullptr);
       }},
      {"AllGather",
       [](World&, Side& s) { return tuttiAllGather(s.in.data(), s.out.data(), 4, kF, s.comm(), nullptr); }},
      {"AlltoAll", [](World&, Side& s) { return tuttiAlltoAll(s.in.data(), s.out.data(), 4, kF, s.comm(), nullptr); }},
      {"Gather", [](World&, Side& s) { return tuttiGather(s.in.data(), s.out.data(), 4, kF, 0, s.comm(), nullptr); }},
      {"Scatter", [](World&, Side& s) { return tuttiScatter(s.in.data(), s.out.data(), 4, kF, 0, s.comm(), nullptr); }},
      {"Barrier", [](World&, Side& s) { return tuttiBarrier(s.comm(), nullptr); }},
      {"AllGatherV",
       [](World&, Side& s) {
         const std::size_t counts[] = {3, 3}, places[] = {0, 4};
         return tuttiAllGatherV(s.in.data(), 3, s.out.data(), counts, places, kF, s.comm(), nullptr);
       }},
      {"ReduceScatterV",
       [](World&, Side& s) {
         const std::size_t counts[] = {3, 3};
         return tuttiReduceScatterV(s.in.data(), s.out.data(), counts, kF, tuttiSum, s.comm(), nullptr);
       }},
      {"AlltoAllV",
       [](World&, Side& s) {
         const std::size_t counts[] = {3, 3}, places[] = {0, 4};
         return tuttiAlltoAllV(s.in.data(), counts, places, s.out.data(), counts, places, kF, s.comm(), nullptr);
       }},
      {"AllGatherTensor",
       [](World& w, Side& s) {
         const Layouts l(w.nranks);
         return tuttiAllGatherTensor(s.in.data(), &l.part, s.out.data(), &l.whole, 0, kF, s.comm(), nullptr);
       }},
      {"ReduceScatterTensor",
       [](World& w, Side& s) {
         const Layouts l(w.nranks);
         return tuttiReduceScatterTensor(s.in.data(), &l.whole, s.out.data(), &l.part, 0, kF, tuttiSum, s.comm(),
                                         nullptr);
       }},
      {"AlltoAllTensor",
       [](World& w, Side& s) {
         const Layouts l(w.nranks);
         return tuttiAlltoAllTensor(s.in.data(), &l.whole, 0, s.out.data(), &l.whole, 0, kF, s.comm(), nullptr);
       }},
      {"Send",
       [](World& w, Side& s) { return tuttiSend(s.in.data(), 4, kF, w.nranks - 1 - s.rank, s.comm(), nullptr); }},
      {"Recv",
       [](World& w, Side& s) { return tuttiRecv(s.out.data(), 4, kF, w.nranks - 1 - s.rank, s.comm(), w.streams[0]); }},
      {"Signal", [](World& w, Side& s) { return tuttiSignal(w.nranks - 1 - s.rank, 0, 0, 0, s.comm(), nullptr); }},
      {"WaitSignal",
       [](World& w, Side& s) {
         tuttiWaitSignalDesc_t one{1, w.nranks - 1 - s.rank, 0, 0};
         return tuttiWaitSignal(1, &one, s.comm(), w.streams[1]);
       }},
  };
}

std::vector<RacingCall> Groups() {
  return {
      {"a group of messages",
       [](World& w, Side& s) {
         return InGroup([&] {
           tuttiSend(s.in.data(), 4, kF, w.nranks - 1 - s.rank, s.comm(), nullptr);
           return tuttiRecv(s.out.data(), 4, kF, w.nranks - 1 - s.rank, s.comm(), nullptr);
         });
       }},
      {"a group on two streams",
       [](World& w, Side& s) {
         return InGroup([&] {
           tuttiAllReduce(s.in.data(), s.out.data(), 4, kF, tuttiSum, s.comm(), w.streams[0]);
           return tuttiAllReduce(s.in.data() + 8, s.out.data() + 8, 4, kF, tuttiSum, s.comm(), w.streams[1]);
         });
       }},
      {"a group here and on a stream",
       [](World& w, Side& s) {
         return InGroup([&] {
           tuttiAllReduce(s.in.data(), s.out.data(), 4, kF, tuttiSum, s.comm(), w.streams[1]);
           return tuttiAllReduce(s.in.data() + 8, s.out.data() + 8, 4, kF, tuttiSum, s.comm(), nullptr);
         });
       }},
      {"a group of both ranks",
       [](World& w, Side&) {
         return InGroup([&] {
           auto result = tuttiSuccess;
           for (auto& each : w.sides) {
             auto* const comm = each.comm();
             if (comm == nullptr) continue;
             const auto one = tuttiAllReduce(each.in.data() + 16, each.out.data() + 16, 4, kF, tuttiSum, comm, nullptr);
             if (one != tuttiSuccess) result = one;
           }
           return result;
         });
       }},
      {"a group of splits",
       [](World& w, Side& s) {
         return InGroup([&] {
           tuttiCommSplit(s.comm(), 0, 0, w.NewComm(), nullptr);
           return tuttiCommSplit(s.comm(), 1, 0, w.NewComm(), nullptr);
         });
       }},
  };
}

std::vector<RacingCall> Lives() {
  std::vector<RacingCall> calls{
      {"InitRank",
       [](World& w, Side&) {
         auto config = World::Config(true);
         config.initTimeoutMs = 2000;
         tuttiUniqueId id;
         const auto result = tuttiGetUniqueId(&id);
         return result != tuttiSuccess ? result : tuttiCommInitRankConfig(w.NewComm(), 2, id, 0, &config);
       }},
      {"InitAll", [](World& w, Side&) { return tuttiCommInitAll(w.NewComm(), 1, nullptr); }},
      {"Split", [](World& w, Side& s) { return tuttiCommSplit(s.comm(), 0, 0, w.NewComm(), nullptr); }},
      {"Split without blocking",
       [](World& w, Side& s) {
         auto config = World::Config(false);
         return tuttiCommSplit(s.comm(), 0, 0, w.NewComm(), &config);
       }},
      {"Split into nothing",
       [](World& w, Side& s) { return tuttiCommSplit(s.comm(), TUTTI_SPLIT_NOCOLOR, 0, w.NewComm(), nullptr); }},
      {"Shrink",
       [](World& w, Side& s) {
         return tuttiCommShrink(s.comm(), nullptr, 0, w.NewComm(), nullptr, TUTTI_SHRINK_DEFAULT);
       }},
      {"Shrink to one",
       [](World& w, Side& s) {
         const int other = 1 - s.rank;
         return tuttiCommShrink(s.comm(), &other, w.nranks - 1, w.NewComm(), nullptr, TUTTI_SHRINK_DEFAULT);
       }},
      {"Grow",
       [](World& w, Side& s) {
         tuttiUniqueId id;
         const auto result = tuttiGetUniqueId(&id);
         return result != tuttiSuccess ? result : tuttiCommGrow(s.comm(), w.nranks + 1, &id, 0, w.NewComm(), nullptr);
       }},
      {"Revoke", [](World&, Side& s) { return tuttiCommRevoke(s.comm(), TUTTI_REVOKE_DEFAULT); }},
      {"Finalize", [](World&, Side& s) { return tuttiCommFinalize(s.comm()); }},
      {"Destroy", [](World&, Side& s) { return tuttiCommDestroy(s.comm()); }},
      {"Abort", [](World&, Side& s) { return tuttiCommAbort(s.comm()); }},
  };
  if (__asan_init == nullptr) calls.push_back({"fork", Fork});
  return calls;
}

std::vector<RacingCall> Questions() {
  return {
      {"GetAsyncError",
       [](World&, Side& s) {
         auto state = tuttiNumResults;
         return tuttiCommGetAsyncError(s.comm(), &state);
       }},
      {"Count",
       [](World&, Side& s) {
         int number = 0;
         return tuttiCommCount(s.comm(), &number);
       }},
      {"UserRank",
       [](World&, Side& s) {
         int number = 0;
         return tuttiCommUserRank(s.comm(), &number);
       }},
      {"CuDevice",
       [](World&, Side& s) {
         int number = 0;
         return tuttiCommCuDevice(s.comm(), &number);
       }},
      {"GetCounters",
       [](World&, Side& s) {
         tuttiCounters_t counters;
         counters.size = sizeof counters;
         return tuttiCommGetCounters(s.comm(), &counters);
       }},
      {"DescribeLastOperation",
       [](World&, Side& s) {
         std::array<char, 300> text{};
         return tuttiCommDescribeLastOperation(s.comm(), text.data(), text.size());
       }},
      {"Dump", [](World&, Side& s) { return tuttiCommDump(s.comm(), "/dev/null"); }},
      {"GetLastAlgorithm",
       [](World&, Side& s) {
         auto algorithm = tuttiAlgorithmNone;
         return tuttiCommGetLastAlgorithm(s.comm(), &algorithm);
       }},
      {"GetLastError",
       [](World&, Side& s) { return tuttiGetLastError(s.comm()) == nullptr ? tuttiInternalError : tuttiSuccess; }},
  };
}

std::vector<RacingCall> Objects() {
  return {
      {"StreamCreate and StreamDestroy",
       [](World&, Side&) {
         tuttiStream_t stream = nullptr;
         const auto result = tuttiStreamCreate(&stream);
         return result != tuttiSuccess ? result : tuttiStreamDestroy(stream);
       }},
      {"StreamDestroy", [](World& w, Side&) { return tuttiStreamDestroy(w.streams[0]); }},
      {"StreamSynchronize", [](World& w, Side&) { return tuttiStreamSynchronize(w.streams[0]); }, true},
      {"StreamQuery", [](World& w, Side&) { return tuttiStreamQuery(w.streams[1]); }, true},
      {"WindowRegister",
       [](World& w, Side& s) {
         tuttiWindow_t window = nullptr;
         const auto result =
             tuttiCommWindowRegister(s.comm(), w.memory, World::kWindowBytes, &window, TUTTI_WIN_DEFAULT);
         if (result == tuttiSuccess) w.window.store(window);
         return result;
       }},
      {"WindowDeregister", [](World& w, Side& s) { return tuttiCommWindowDeregister(s.comm(), w.window.load()); }},
      {"Register and Deregister",
       [](World&, Side& s) {
         void* handle = nullptr;
         const auto result = tuttiCommRegister(s.comm(), s.in.data(), sizeof s.in, &handle);
         return result != tuttiSuccess ? result : tuttiCommDeregister(s.comm(), handle);
       }},
      {"RedOpCreatePreMulSum",
       [](World& w, Side& s) {
         float scalar = 2;
         auto op = tuttiSum;
         const auto result = tuttiRedOpCreatePreMulSum(&op, &scalar, kF, tuttiScalarHostImmediate, s.comm());
         if (result == tuttiSuccess) w.op.store(op);
         return result;
       }},
      {"RedOpDestroy",
       [](World& w, Side& s) { return tuttiRedOpDestroy(static_cast<tuttiRedOp_t>(w.op.load()), s.comm()); }},
  };
}

}  // namespace

const std::vector<RacingCall>& Calls() {
  static const auto* const all = [] {
    auto* const calls = new std::vector<RacingCall>;
    for (const auto& part : {Collectives(), Groups(), Lives(), Questions(), Objects()}) {
      calls->insert(calls->end(), part.begin(), part.end());
    }
    return calls;
  }();
  return *all;
}

}  // namespace tutti::races
