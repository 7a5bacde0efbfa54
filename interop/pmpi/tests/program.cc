// A program of MPI, which knows nothing of Tutti: checks what its collectives do. The test runs it with the layer and
// without it.
//   program collectives | types | long | communicators | many | operators | threads | progress | unaligned | disagree |
//     killed | spawn
//   program session    by a session, without MPI_Init
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <thread>

#include "interop/pmpi/tests/checks.h"

namespace tutti::pmpi_test {
namespace {

constexpr int kRounds = 20;  // more than the calls after which the layer takes a communicator over

void Collectives() {
  for (int round = 0; round < kRounds; ++round) MPI_Barrier(MPI_COMM_WORLD);
  CheckMovement(MPI_COMM_WORLD);
  CheckVectors(MPI_COMM_WORLD);
  CheckReductions(MPI_COMM_WORLD);
  CheckEmptyTypes(MPI_COMM_WORLD);
}

// Only with the layer.
void LongTypes() {
  for (int round = 0; round < kRounds; ++round) MPI_Barrier(MPI_COMM_WORLD);
  CheckLongTypes(MPI_COMM_WORLD);
}

// MPICH 4.0 crashes here, without the layer, too.
void OtherTypes() { CheckOtherTypes(MPI_COMM_WORLD); }

// Only with the layer.
void Unaligned() {
  for (int round = 0; round < kRounds; ++round) MPI_Barrier(MPI_COMM_WORLD);
  CheckUnaligned(MPI_COMM_WORLD);
}

// The sum of the ranks of a communicator, many times.
void CheckSums(MPI_Comm comm, int rounds = kRounds) {
  const int rank = RankOf(comm), ranks = RanksOf(comm);
  for (int round = 0; round < rounds; ++round) {
    const int mine = rank + round;
    int sum = -1;
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, comm);
    Require(sum == ranks * (ranks - 1) / 2 + ranks * round, "MPI_Allreduce of ranks, round " + std::to_string(round));
  }
}

// Made, copied and freed, so that MPI gives handles away again; reversed; of one rank; between groups.
void Communicators() {
  const int rank = RankOf(MPI_COMM_WORLD), ranks = RanksOf(MPI_COMM_WORLD);
  CheckSums(MPI_COMM_WORLD);
  CheckSums(MPI_COMM_SELF);
  for (int turn = 0; turn < kRounds; ++turn) {
    MPI_Comm copy{}, part{};
    MPI_Comm_dup(MPI_COMM_WORLD, &copy);
    MPI_Comm_split(copy, turn % 2 == 0 ? 0 : rank % 2, -rank, &part);
    CheckSums(part);
    CheckSums(copy);
    Require(RankOf(part) == (turn % 2 == 0 ? ranks - 1 - rank : (ranks - 1 - rank) / 2) || turn % 2 != 0,
            "MPI_Comm_split's order");
    MPI_Comm_free(&part);
    MPI_Comm_free(&copy);
  }
  if (ranks < 2) return;
  MPI_Comm half{}, between{};
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 0, &between);
  for (int round = 0; round < kRounds; ++round) {
    int sum = -1;
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, between);
    int others = 0;
    for (int r = 1 - rank % 2; r < ranks; r += 2) others += r;
    Require(sum == others, "MPI_Allreduce between two groups");
  }
  MPI_Comm whole{};
  MPI_Intercomm_merge(between, rank % 2, &whole);
  CheckSums(whole);
  MPI_Comm_free(&whole);
  MPI_Comm_free(&between);
  MPI_Comm_free(&half);
}

// More communicators at once than there are descriptors, on all ranks and on one part of them; and files after that.
void Many() {
  constexpr int kMany = 100, kFiles = 20, kFewRounds = 6;  // enough for the layer to take a communicator over
  const int rank = RankOf(MPI_COMM_WORLD);
  std::vector<MPI_Comm> comms(kMany);
  for (int i = 0; i < kMany; ++i) {
    // Reversed now and then.
    MPI_Comm_split(MPI_COMM_WORLD, 0, i % 7 == 3 ? -rank : rank, &comms[static_cast<std::size_t>(i)]);
    CheckSums(comms[static_cast<std::size_t>(i)], kFewRounds);
  }
  std::vector<std::FILE*> files;
  for (int i = 0; i < kFiles; ++i) files.push_back(std::fopen("/dev/null", "r"));
  Require(std::ranges::find(files, nullptr) == files.end(), "the program cannot open its files");
  for (auto* const file : files) std::fclose(file);
  for (int i = 0; i < kMany; ++i) CheckSums(comms[static_cast<std::size_t>((i * 7) % kMany)], 1);
  for (auto& comm : comms) MPI_Comm_free(&comm);
}

void Concatenate(void* in, void* inout, int* length, MPI_Datatype*) {
  for (int i = 0; i < *length; ++i) {
    auto& to = static_cast<int*>(inout)[i];
    to = static_cast<int*>(in)[i] * 10 + to;  // associative on one-digit ranks only: the order shows
  }
}

struct Place {
  double value;
  int index;
};

void Operators() {
  const int rank = RankOf(MPI_COMM_WORLD), ranks = RanksOf(MPI_COMM_WORLD);
  MPI_Op own{};
  MPI_Op_create(Concatenate, 0, &own);
  for (int round = 0; round < kRounds; ++round) {
    const int bit = 1 << rank, one = rank == 0 ? 1 : 0;
    int all = 0, any = 0, exclusive = 0, mine = -1;
    MPI_Allreduce(&bit, &all, 1, MPI_INT, MPI_BOR, MPI_COMM_WORLD);
    MPI_Allreduce(&one, &any, 1, MPI_INT, MPI_LOR, MPI_COMM_WORLD);
    MPI_Allreduce(&bit, &exclusive, 1, MPI_INT, MPI_BXOR, MPI_COMM_WORLD);
    Require(all == (1 << ranks) - 1 && any == 1 && exclusive == all, "MPI_BOR, MPI_LOR or MPI_BXOR");
    const Place place{static_cast<double>((rank + round) % ranks), rank};
    Place greatest{};
    MPI_Allreduce(&place, &greatest, 1, MPI_DOUBLE_INT, MPI_MAXLOC, MPI_COMM_WORLD);
    Require(greatest.value == ranks - 1 && (greatest.index + round) % ranks == ranks - 1, "MPI_MAXLOC");
    const int digit = rank + 1;
    MPI_Reduce(&digit, &mine, 1, MPI_INT, own, 0, MPI_COMM_WORLD);
    if (ranks == 2 && rank == 0) Require(mine == 12, "an operator of the program");
    int before = 0;
    MPI_Scan(&digit, &before, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    Require(before == (rank + 1) * (rank + 2) / 2, "MPI_Scan");
    MPI_Request request{};
    int later = 0;
    MPI_Iallreduce(&digit, &later, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &request);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    Require(later == ranks * (ranks + 1) / 2, "MPI_Iallreduce around MPI_Barrier");
  }
  MPI_Op_free(&own);
}

void Threads() {
  constexpr int kThreads = 3;
  int provided = 0;
  MPI_Query_thread(&provided);
  if (provided < MPI_THREAD_MULTIPLE) return;
  std::vector<MPI_Comm> comms(kThreads);
  for (auto& comm : comms) MPI_Comm_dup(MPI_COMM_WORLD, &comm);
  std::vector<std::thread> threads;
  for (const auto comm : comms) {
    threads.emplace_back([comm] {
      for (int turn = 0; turn < kRounds; ++turn) CheckSums(comm);
    });
  }
  for (auto& thread : threads) thread.join();
  for (auto& comm : comms) MPI_Comm_free(&comm);
}

// What a rank has done before a barrier, others see after it when they ask once.
void CheckSeenAfterBarrier() {
  constexpr int kAsked = 100;
  const int rank = RankOf(MPI_COMM_WORLD), first = 0;
  MPI_Group all{}, others{}, only_first{};
  MPI_Comm_group(MPI_COMM_WORLD, &all);
  MPI_Group_excl(all, 1, &first, &others);
  MPI_Group_incl(all, 1, &first, &only_first);
  char data = 0;
  MPI_Win window{};
  MPI_Win_create(&data, 1, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
  int unseen = 0;
  for (int round = 0; round < kAsked; ++round) {
    int seen = 1;
    if (rank == first) MPI_Win_start(others, 0, window);
    if (rank != first) MPI_Win_post(only_first, 0, window);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == first) MPI_Win_complete(window);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank != first) MPI_Win_test(window, &seen);
    if (seen == 0) {
      ++unseen;
      MPI_Win_wait(window);
    }
  }
  Require(unseen == 0, std::to_string(unseen) + " of " + std::to_string(kAsked) + " ends of accesses were not seen");
  MPI_Win_free(&window);
  for (auto* const group : {&only_first, &others, &all}) MPI_Group_free(group);
}

// A rank waits in a collective while another needs its part of a message, or of a one-sided call, to come there.
void Progress() {
  constexpr int kBig = 16 << 20;
  const int rank = RankOf(MPI_COMM_WORLD);
  CheckSums(MPI_COMM_WORLD);
  std::vector<char> data(kBig, static_cast<char>(rank + 1));
  for (int round = 0; round < 3; ++round) {
    if (rank == 0) {
      MPI_Request request{};
      MPI_Isend(data.data(), kBig, MPI_CHAR, 1, round, MPI_COMM_WORLD, &request);
      CheckSums(MPI_COMM_WORLD);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else if (rank == 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds(200 * round));  // the other ranks spin, or sleep by now
      MPI_Recv(data.data(), kBig, MPI_CHAR, 0, round, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      Require(data.front() == 1 && data.back() == 1, "MPI_Recv");
      CheckSums(MPI_COMM_WORLD);
    } else {
      CheckSums(MPI_COMM_WORLD);
    }
  }
  MPI_Win window{};
  MPI_Win_create(data.data(), kBig, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
  if (rank == 1) {
    std::vector<char> got(kBig);
    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, window);
    MPI_Get(got.data(), kBig, MPI_CHAR, 0, 0, kBig, MPI_CHAR, window);
    MPI_Win_unlock(0, window);
    Require(got.front() == 1 && got.back() == 1, "MPI_Get");
  }
  CheckSums(MPI_COMM_WORLD);
  MPI_Win_free(&window);
  CheckSeenAfterBarrier();
}

// The ranks broadcast different lengths: an error with a sentence, or at least no success. Only with the layer.
void Disagree() {
  const int rank = RankOf(MPI_COMM_WORLD);
  CheckSums(MPI_COMM_WORLD);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  std::vector<int> data(100);
  int code = MPI_Bcast(data.data(), rank == 0 ? 100 : 50, MPI_INT, 0, MPI_COMM_WORLD);
  if (code == MPI_SUCCESS) code = MPI_Barrier(MPI_COMM_WORLD);  // the root may learn of it later
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  if (code != MPI_SUCCESS) MPI_Error_string(code, text, &length);
  std::printf("rank %d: code %s: %s\n", rank, code == MPI_SUCCESS ? "success" : "error", text);
  std::fflush(stdout);
  std::this_thread::sleep_for(std::chrono::milliseconds(500));  // the other rank's lines are to come through, too
  Require(code != MPI_SUCCESS, "ranks that broadcast different lengths got no error");
  MPI_Abort(MPI_COMM_WORLD, 0);
}

// Rank 1 dies while the others wait for it: MPI ends the job. Only with the layer.
void Killed() {
  CheckSums(MPI_COMM_WORLD);
  if (RankOf(MPI_COMM_WORLD) == 1) std::raise(SIGKILL);
  CheckSums(MPI_COMM_WORLD);
}

constexpr const char* kSpawned = "spawned";

// In the processes that MPI starts, with the layer or without it, and in those that start them.
void CheckSpawned(MPI_Comm between, bool started) {
  CheckSums(MPI_COMM_WORLD);
  MPI_Comm whole{};
  MPI_Intercomm_merge(between, started ? 1 : 0, &whole);
  CheckSums(whole);
  MPI_Comm_free(&whole);
  MPI_Comm_disconnect(&between);
}

void Spawn(const char* program) {
  MPI_Comm between{};
  std::string argument = kSpawned;
  char* arguments[] = {argument.data(), nullptr};
  MPI_Comm_spawn(program, arguments, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &between, MPI_ERRCODES_IGNORE);
  CheckSpawned(between, false);
}

int Spawned() {
  MPI_Comm between{};
  MPI_Init(nullptr, nullptr);
  MPI_Comm_get_parent(&between);
  CheckSpawned(between, true);
  return MPI_Finalize();
}

// MPI 4's other beginning. REQUIRES: MPI_Init is not called.
int Session() {
#if MPI_VERSION >= 4
  MPI_Session session{};
  MPI_Group group{};
  MPI_Comm comm{};
  MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
  MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
  MPI_Comm_create_from_group(group, "tutti", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
  MPI_Group_free(&group);
  CheckSums(comm);
  if (RankOf(comm) == 0) std::printf("passed: session\n");
  MPI_Comm_free(&comm);
  return MPI_Session_finalize(&session);
#else
  return EXIT_FAILURE;  // this MPI has none
#endif
}

}  // namespace
}  // namespace tutti::pmpi_test

int main(int argc, char** argv) {
  using namespace tutti::pmpi_test;  // NOLINT
  if (argc == 2 && argv[1] == std::string("session")) return Session();
  if (argc == 2 && argv[1] == std::string(kSpawned)) return Spawned();
  const std::map<std::string, std::function<void()>> checks = {
      {"collectives", Collectives}, {"communicators", Communicators},
      {"operators", Operators},     {"types", OtherTypes},
      {"long", LongTypes},          {"threads", Threads},
      {"progress", Progress},       {"unaligned", Unaligned},
      {"disagree", Disagree},       {"many", Many},
      {"killed", Killed},           {"spawn", [&] { Spawn(argv[0]); }}};
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  for (int i = 1; i < argc; ++i) {
    Require(checks.contains(argv[i]), std::string("there is no check ") + argv[i]);
    checks.at(argv[i])();
    MPI_Barrier(MPI_COMM_WORLD);
    if (RankOf(MPI_COMM_WORLD) == 0) std::printf("passed: %s\n", argv[i]);
  }
  return MPI_Finalize();
}
