#include "tests/races/world.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace tutti::races {
namespace {

void Must(tuttiResult_t result, const char* what) {
  if (result == tuttiSuccess || result == tuttiInProgress) return;
  std::fprintf(stderr, "races: %s: %s\n", what, tuttiGetLastError(nullptr));
  std::abort();
}

tuttiComm_t Seen(tuttiComm_t& place) { return __atomic_load_n(&place, __ATOMIC_ACQUIRE); }

void AwaitJoined(tuttiComm_t comm) {
  auto state = tuttiInProgress;
  while (state == tuttiInProgress) {
    Must(tuttiCommGetAsyncError(comm, &state), "tuttiCommGetAsyncError");
    if (state == tuttiInProgress) usleep(100);
  }
  Must(state, "joining without blocking");
}

}  // namespace

std::string_view NameOf(State state) {
  constexpr std::array<std::string_view, kStates> kNames{
      "one",       "two",     "queued",    "calling",   "joining", "joining_later", "nonblocking", "nonblocking_busy",
      "splitting", "revoked", "finalised", "destroyed", "aborted"};
  return kNames[static_cast<std::size_t>(state)];
}

std::uint64_t Dice::Next() {  // splitmix64
  std::uint64_t z = (state_ += 0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

tuttiConfig_t World::Config(bool blocking) {
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.blocking = blocking ? 1 : 0;
  // Longer than a trial, so that only the rescue ends calls.
  config.initTimeoutMs = 20'000;
  config.operationTimeoutMs = 20'000;
  return config;
}

World::World(State state) {
  for (auto& stream : streams) Must(tuttiStreamCreate(&stream), "tuttiStreamCreate");
  Must(tuttiMemAlloc(&memory, kWindowBytes), "tuttiMemAlloc");
  sides[1].rank = 1;
  Begin(state);
}

void World::JoinBoth(bool blocking) {
  auto config = Config(blocking);
  tuttiUniqueId id;
  Must(tuttiGetUniqueId(&id), "tuttiGetUniqueId");
  Must(tuttiGroupStart(), "tuttiGroupStart");
  for (auto& side : sides) Must(tuttiCommInitRankConfig(&side.place, nranks, id, side.rank, &config), "joining");
  Must(tuttiGroupEnd(), "joining in a group");
  if (blocking) return;
  for (auto& side : sides) AwaitJoined(side.comm());
}

void World::Begin(State state) {
  auto& [first, second] = sides;
  auto config = Config(state != State::joining_later);
  tuttiUniqueId id;
  switch (state) {
    case State::one:
      nranks = 1;
      Must(tuttiGetUniqueId(&id), "tuttiGetUniqueId");
      Must(tuttiCommInitRankConfig(&first.place, 1, id, 0, &config), "joining");
      return;
    case State::joining:
    case State::joining_later:
      Must(tuttiGetUniqueId(&id), "tuttiGetUniqueId");
      if (state == State::joining_later) {
        Must(tuttiCommInitRankConfig(&first.place, 2, id, 0, &config), "joining");
        return;
      }
      third_ =
          std::thread([this, id, config]() mutable { tuttiCommInitRankConfig(&sides[0].place, 2, id, 0, &config); });
      while (first.comm() == nullptr) usleep(20);
      return;
    default: break;
  }
  JoinBoth(state != State::nonblocking && state != State::nonblocking_busy);
  const auto stuck = [this](tuttiStream_t stream) {
    return tuttiAllReduce(sides[0].in.data() + 32, sides[0].out.data() + 32, 8, tuttiFloat32, tuttiSum, sides[0].comm(),
                          stream);
  };
  switch (state) {
    case State::queued: Must(stuck(streams[0]), "tuttiAllReduce"); break;
    case State::nonblocking_busy: Must(stuck(nullptr), "tuttiAllReduce"); break;
    case State::calling: third_ = std::thread([=] { stuck(nullptr); }); break;
    case State::splitting:
      third_ = std::thread([this, comm = first.comm()] { tuttiCommSplit(comm, 0, 0, NewComm(), nullptr); });
      break;
    case State::revoked: Must(tuttiCommRevoke(first.comm(), TUTTI_REVOKE_DEFAULT), "tuttiCommRevoke"); break;
    case State::finalised: Must(tuttiCommFinalize(first.comm()), "tuttiCommFinalize"); break;
    case State::destroyed: Must(tuttiCommDestroy(first.comm()), "tuttiCommDestroy"); break;
    case State::aborted: Must(tuttiCommAbort(first.comm()), "tuttiCommAbort"); break;
    default: break;
  }
}

tuttiComm_t* World::NewComm() { return &made_.at(made_count_.fetch_add(1)); }

void World::Rescue() {
  const auto abort = [](tuttiComm_t& place) {
    if (auto* const comm = Seen(place)) tuttiCommAbort(comm);
  };
  for (auto& side : sides) abort(side.place);
  for (auto& comm : made_) abort(comm);
}

World::~World() {
  Rescue();
  if (third_.joinable()) third_.join();
  Rescue();  // also communicators made since
  for (auto* stream : streams) tuttiStreamDestroy(stream);
  tuttiMemFree(memory);
}

}  // namespace tutti::races
