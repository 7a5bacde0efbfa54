// One measured rank: serves the bench's requests on its control socket and sleeps in between. No rank spins while
// another library is measured, and none outlives the bench: when the socket hangs up, the process ends wherever it is.
//
// Requests (field "do") and replies; every reply may be {"error": text} instead:
//   prepare {operation}              -> {supported}        allocates and fills
//   check   {seed}                   -> {wrong}            fresh inputs, one call, every element compared
//   time    {warmup, batch, batches} -> {us, algorithm}    mean time of a call in each batch
//   recheck {}                       -> {wrong}            the output the timed loop left; 0 in place, where it is
//                                                          spent
//   release {}                       -> {}                 frees
//   tcp listen {}                    -> {host, port}       for a probe by
//   tcp probe {server, client, address}                    two ranks
//                                    -> {}, the client: TcpLimits
//   quit    {why}                    -> none               the rank shuts its library down cleanly; `why` only if a
//                                                          job's team is lost
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "bench/backends/library.h"
#include "bench/worker/control_socket.h"
#include "bench/worker/pin.h"

namespace tutti::bench {

using LibraryMaker = std::function<std::unique_ptr<Library>(const Place&, const CallSettings&, const Exchange&)>;

// Why a rank stopped serving.
struct EndOfService {
  bool quit = false;  // the bench said so; else it hung up
  std::string error;  // of the last request that failed, else of the team; "" if nothing failed
};

// Serves until quit or hang-up. Throws what `make` throws.
EndOfService Serve(ControlSocket& socket, const Place& place, const CallSettings& settings, const LibraryMaker& make);

// The data that a process needs to become a rank. One environment variable carries it.
struct WorkerOrders {
  std::string control;  // the bench's Listener
  int first_rank = 0;   // of this process; a launcher's own numbering takes precedence
  int ranks = 1;        // in all
  int threads = 1;      // ranks in this process
  CallSettings settings;
};
inline constexpr char kOrdersVariable[] = "TUTTI_BENCH_WORKER";
Json ToJson(const WorkerOrders& orders);
WorkerOrders OrdersFromJson(const Json& json);

// A worker process's main function. Returns its exit status.
int WorkerMain(const WorkerOrders& orders, const LibraryMaker& make);
// The orders in this process's environment, if it was started as a worker; removes them from the environment.
std::optional<WorkerOrders> TakeOrders();

// This process's rank according to mpirun, -1 without one.
int RankOfLauncher();

Json ToJson(const Operation& operation);
Operation OperationFromJson(const Json& json);

}  // namespace tutti::bench
