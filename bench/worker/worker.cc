#include "bench/worker/worker.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <thread>
#include <vector>

#include "bench/worker/measured_buffers.h"
#include "bench/worker/tcp_probe.h"

namespace tutti::bench {
namespace {

double NowMicroseconds(clockid_t clock) {
  timespec now{};
  ::clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) * 1e-3;
}

class Rank {
 public:
  Rank(Library& library, int rank, const CallSettings& settings)
      : library_(library),
        rank_(rank),
        aggregate_(settings.aggregate),
        barriers_(settings.barriers),
        on_device_(settings.device),
        graph_(settings.graph),
        clock_(settings.cpu_time ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC) {}

  Json Do(const Json& request) {
    const auto& what = request.at("do").get_ref<const std::string&>();
    if (what == "prepare") return Prepare(OperationFromJson(request.at("operation")));
    if (what == "check") return {{"wrong", Check(request.at("seed"))}};
    if (what == "time") return Time(request.at("warmup"), request.at("batch"), request.at("batches"));
    if (what == "recheck") return {{"wrong", buffers_->CountWrongAfterRepeats()}};
    if (what == "tcp listen") {
      tcp_.emplace();
      return tcp_->Address();
    }
    if (what == "tcp probe") return Probe(request);
    if (what == "release") {
      Forget();
      return Json::object();
    }
    throw std::runtime_error(fmt::format("unknown request \"{}\"", what));
  }

 private:
  void Forget() {
    graphs_.clear();
    call_ = {};
    buffers_.reset();
  }

  Json Prepare(const Operation& operation) {
    if (!library_.Supports(operation)) return {{"supported", false}};
    Forget();
    buffers_ = std::make_unique<MeasuredBuffers>(library_, operation, on_device_);
    buffers_->FillInputs(0);
    call_ = library_.Bind(operation, buffers_->buffers());
    return {{"supported", true}};
  }

  std::size_t Check(std::uint64_t seed) {
    buffers_->FillInputs(seed);
    library_.Barrier();
    call_.run();  // once, even if timing uses groups: in place a second call would reduce again
    if (call_.finish) call_.finish();
    return buffers_->CountWrong();
  }

  Json Time(int warmup, int batch, int batches) {
    std::vector<double> microseconds(static_cast<std::size_t>(batches));
    const BoundCall* const graph = graph_ ? &Graph(batch) : nullptr;
    library_.Barrier();
    if (warmup > 0) Run(warmup, graph);
    double before = NowMicroseconds(clock_);
    for (double& mean : microseconds) {
      if (barriers_) {
        mean = AfterBarriers(batch) / batch / aggregate_;
        continue;
      }
      Run(batch, graph);
      const double after = NowMicroseconds(clock_);
      mean = (after - before) / batch / aggregate_;
      before = after;
    }
    return {{"us", microseconds}, {"algorithm", graph_ ? captured_algorithm_ : library_.LastAlgorithm()}};
  }

  // The time of the calls alone.
  double AfterBarriers(int calls) {
    double all = 0;
    for (int i = 0; i < calls; ++i) {
      library_.Barrier();
      const double before = NowMicroseconds(clock_);
      Run(1, nullptr);
      all += NowMicroseconds(clock_) - before;
    }
    return all;
  }

  // Captured at the first request for this number of calls.
  const BoundCall& Graph(int calls) {
    const auto known = graphs_.find(calls);
    if (known != graphs_.end()) return known->second;
    const std::function<void()> call = aggregate_ == 1 ? call_.run : [this] { RunGroup(); };
    const auto& graph = graphs_[calls] = library_.Capture({call, call_.finish}, calls);
    captured_algorithm_ = library_.LastAlgorithm();
    return graph;
  }

  // A graph runs once, whatever the number of calls in it.
  void Run(int calls, const BoundCall* graph) {
    if (graph != nullptr) {
      graph->run();
      return graph->finish();
    }
    if (aggregate_ == 1) {
      for (int i = 0; i < calls; ++i) call_.run();
    } else {
      for (int i = 0; i < calls; ++i) RunGroup();
    }
    if (call_.finish) call_.finish();
  }

  void RunGroup() {
    library_.GroupStart();
    for (int i = 0; i < aggregate_; ++i) call_.run();
    library_.GroupEnd();
  }

  // Two ranks take part; the others only reply.
  Json Probe(const Json& request) {
    Json reply = Json::object();
    if (rank_ == request.at("server")) tcp_->Serve();
    if (rank_ == request.at("client")) reply = ToJson(ProbeTcp(request.at("address")));
    tcp_.reset();
    return reply;
  }

  Library& library_;
  const int rank_;
  const int aggregate_;
  const bool barriers_, on_device_, graph_;
  const clockid_t clock_;
  std::unique_ptr<MeasuredBuffers> buffers_;
  std::optional<TcpProbeServer> tcp_;
  BoundCall call_;                   // points into buffers_, so it is destroyed first
  std::map<int, BoundCall> graphs_;  // by the number of calls; also point into buffers_
  std::string captured_algorithm_;   // theirs; replays are no calls
};

// A rank that hangs inside its library cannot read its socket, so a separate thread waits for the hang-up.
void EndWithBench(const std::shared_ptr<ControlSocket>& socket) {
  std::thread([socket] {
    socket->WaitForHangUp();
    ::_exit(EXIT_FAILURE);
  }).detach();
}

void ServeRank(const WorkerOrders& orders, int rank, const LibraryMaker& make) {
  if (orders.settings.pin) PinToCore(rank);
  const auto socket = std::make_shared<ControlSocket>(ControlSocket::Connect(orders.control));
  EndWithBench(socket);
  Serve(*socket, {rank, orders.ranks, orders.threads}, orders.settings, make);
}

}  // namespace

EndOfService Serve(ControlSocket& socket, const Place& place, const CallSettings& settings, const LibraryMaker& make) {
  double waited_us = 0;  // waiting for the other ranks: not the library's time
  const Exchange exchange = [&](int rank, int ranks, Blob mine) {
    const double start = NowMicroseconds(CLOCK_MONOTONIC);
    socket.Send({{"rank", rank}, {"ranks", ranks}, {"pid", ::getpid()}, {"offer", Json::binary(std::move(mine))}});
    const std::optional<Json> reply = socket.Receive();
    if (!reply) throw std::runtime_error("tutti-bench has ended");
    std::vector<Blob> blobs;
    for (const Json& offer : reply->at("offers")) blobs.push_back(offer.get_binary());
    waited_us = NowMicroseconds(CLOCK_MONOTONIC) - start;
    return blobs;
  };
  std::unique_ptr<Library> library;
  try {
    const double start = NowMicroseconds(CLOCK_MONOTONIC);
    library = make(place, settings, exchange);
    socket.Send({{"init_us", NowMicroseconds(CLOCK_MONOTONIC) - start - waited_us}, {"about", library->About()}});
  } catch (const std::exception& error) {
    socket.Send({{"error", error.what()}});
    throw;
  }
  Rank rank(*library, place.rank, settings);
  EndOfService end;
  while (const std::optional<Json> request = socket.Receive()) {
    end.quit = request->at("do") == "quit";
    if (end.quit) {
      if (end.error.empty()) end.error = request->value("why", "");
      break;
    }
    Json reply;
    try {
      reply = rank.Do(*request);
    } catch (const std::exception& error) {
      end.error = error.what();
      reply = {{"error", end.error}};
    }
    try {
      socket.Send(reply);
    } catch (const std::exception&) {
      break;  // the bench hung up
    }
  }
  return end;
}

int WorkerMain(const WorkerOrders& orders, const LibraryMaker& make) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  try {
    if (orders.threads == 1) {
      const int launcher = RankOfLauncher();
      ServeRank(orders, launcher >= 0 ? launcher : orders.first_rank, make);
      return EXIT_SUCCESS;
    }
    std::vector<std::thread> threads;
    for (int i = 0; i < orders.threads; ++i) {
      threads.emplace_back([&orders, &make, i] {
        try {
          ServeRank(orders, orders.first_rank + i, make);
        } catch (const std::exception& error) {
          fmt::print(stderr, "tutti-bench rank {}: {}\n", orders.first_rank + i, error.what());
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    return EXIT_SUCCESS;
  } catch (const std::exception& error) {
    fmt::print(stderr, "tutti-bench rank {}: {}\n", orders.first_rank, error.what());
    return EXIT_FAILURE;
  }
}

int RankOfLauncher() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK"}) {
    if (const char* value = std::getenv(name)) return std::atoi(value);
  }
  const char* rank = std::getenv("RANK");
  return rank != nullptr && std::getenv("TUTTI_CLUSTER") != nullptr ? std::atoi(rank) : -1;
}

std::optional<WorkerOrders> TakeOrders() {
  const char* text = std::getenv(kOrdersVariable);
  if (text == nullptr) return std::nullopt;
  WorkerOrders orders = OrdersFromJson(Json::parse(text));
  ::unsetenv(kOrdersVariable);
  return orders;
}

Json ToJson(const WorkerOrders& orders) {
  const CallSettings& call = orders.settings;
  return {{"control", orders.control},
          {"first_rank", orders.first_rank},
          {"ranks", orders.ranks},
          {"threads", orders.threads},
          {"pin", call.pin},
          {"registered", call.registered},
          {"stream", call.stream},
          {"blocking", call.blocking},
          {"aggregate", call.aggregate},
          {"barriers", call.barriers},
          {"cpu_time", call.cpu_time},
          {"device", call.device},
          {"graph", call.graph},
          {"nccl", call.nccl}};
}

WorkerOrders OrdersFromJson(const Json& json) {
  WorkerOrders orders;
  orders.control = json.at("control");
  orders.first_rank = json.at("first_rank");
  orders.ranks = json.at("ranks");
  orders.threads = json.at("threads");
  orders.settings.pin = json.at("pin");
  orders.settings.registered = json.at("registered");
  orders.settings.stream = json.at("stream");
  orders.settings.blocking = json.at("blocking");
  orders.settings.aggregate = json.at("aggregate");
  orders.settings.barriers = json.at("barriers");
  orders.settings.cpu_time = json.at("cpu_time");
  orders.settings.device = json.at("device");
  orders.settings.graph = json.at("graph");
  orders.settings.nccl = json.at("nccl");
  return orders;
}

Json ToJson(const Operation& operation) {
  return {{"collective", NameOf(operation.collective)},
          {"type", static_cast<int>(operation.type)},
          {"op", static_cast<int>(operation.op)},
          {"root", operation.root},
          {"count", operation.count},
          {"in_place", operation.in_place}};
}

Operation OperationFromJson(const Json& json) {
  const auto collective = CollectiveNamed(json.at("collective").get<std::string>());
  if (!collective) throw std::runtime_error("unknown collective in a request");
  Operation operation;
  operation.collective = *collective;
  operation.type = static_cast<tuttiDataType_t>(json.at("type").get<int>());
  operation.op = static_cast<tuttiRedOp_t>(json.at("op").get<int>());
  operation.root = json.at("root");
  operation.count = json.at("count");
  operation.in_place = json.at("in_place");
  return operation;
}

}  // namespace tutti::bench
