#include "src/device_launcher.h"

#include <algorithm>
#include <map>
#include <vector>

#include "base/datatype.h"

namespace tutti {
namespace {

// One rank's calls of a group.
struct RankCalls {
  Communicator* communicator;
  std::vector<const Operation*> operations;
  std::vector<CuStream> streams;
  std::vector<const Operation*> to_itself, from_itself;

  void AddStream(CuStream stream) {
    if (std::find(streams.begin(), streams.end(), stream) == streams.end()) streams.push_back(stream);
  }
};

void Add(RankCalls& rank, const DeviceLaunched& call) {
  const auto& side = *rank.communicator->device();
  const Operation& operation = *call.operation;
  if (side.DoneByCopy(operation, call.stream)) return;
  if (operation.point_to_point() && operation.root == rank.communicator->rank()) {
    (operation.collective == Collective::send ? rank.to_itself : rank.from_itself).push_back(&operation);
    rank.AddStream(call.stream);
    return;
  }
  rank.operations.push_back(&operation);
  rank.AddStream(call.stream);
}

// The k-th message to oneself meets the k-th from oneself. Throws tuttiInvalidUsage where they do not match.
void CopyToItself(const RankCalls& rank) {
  RequireOwnMessagesMatch(rank.communicator->rank(), rank.to_itself, rank.from_itself);
  for (std::size_t i = 0; i < rank.to_itself.size(); ++i) {
    const auto& send = *rank.to_itself[i];
    rank.communicator->device()->Copy(rank.from_itself[i]->output, send.input, send.count * SizeOf(send.type),
                                      rank.streams.front());
  }
}

bool Kills(const Error& error) { return error.code() != tuttiInvalidUsage && error.code() != tuttiInvalidArgument; }

}  // namespace

std::optional<Error> EnqueueAll(std::span<const DeviceLaunched> group) {
  // By clique, in the order of their addresses, so that two threads never wait for each other's next one.
  std::map<std::shared_ptr<DeviceClique>, std::vector<RankCalls>> cliques;
  std::optional<Error> first;
  try {
    for (const auto& call : group) {
      auto& ranks = cliques[call.communicator->device()->clique()];
      auto rank = std::find_if(ranks.begin(), ranks.end(),
                               [&](const RankCalls& each) { return each.communicator == call.communicator; });
      if (rank == ranks.end()) rank = ranks.insert(ranks.end(), {call.communicator, {}, {}, {}, {}});
      Add(*rank, call);
    }
    for (auto& [clique, ranks] : cliques) {
      std::vector<DevicePart> parts;
      for (auto& rank : ranks) {
        CopyToItself(rank);
        if (rank.operations.empty()) continue;
        const std::vector<CuStream> others(rank.streams.begin() + 1, rank.streams.end());
        parts.push_back(rank.communicator->device()->Prepare(rank.operations, rank.streams.front(), others));
        rank.communicator->NoteEnqueued(*rank.operations.back());
      }
      if (parts.empty()) continue;
      const auto timeout =
          std::chrono::milliseconds(ranks.front().communicator->options().settings.operation_timeout_ms);
      const auto check = [&]() -> std::optional<Error> {
        for (const auto& rank : ranks) {
          if (auto failure = rank.communicator->failure()) return failure;
        }
        return std::nullopt;
      };
      const auto failure = clique->Launch(std::move(parts), timeout, check);
      if (!failure) continue;
      // A call that was refused has left nothing behind. After anything else nobody knows what ran.
      for (const auto& rank : ranks) {
        if (Kills(*failure)) rank.communicator->Fail(*failure);
      }
      if (!first) first = failure;
    }
  } catch (const Error& error) {
    if (Kills(error)) {
      for (const auto& call : group) call.communicator->Fail(error);
    }
    return error;
  } catch (const std::exception& exception) {
    const Error error(tuttiInternalError, exception.what());
    for (const auto& call : group) call.communicator->Fail(error);
    return error;
  }
  return first;
}

}  // namespace tutti
