// Requests to replicas.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <tutti/parallel/replica_router.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../failure.h"
#include "parallel.h"

namespace nb = nanobind;

namespace tutti_python {
namespace {

using tutti::parallel::Bytes;
using tutti::parallel::ProcessGroup;
using tutti::parallel::ReplicaLayout;
using tutti::parallel::ReplicaPolicy;
using tutti::parallel::ReplicaStatistics;
using tutti::parallel::Reply;
using tutti::parallel::Request;

Bytes BytesOf(const nb::bytes& given) {
  const auto* const data = static_cast<const std::byte*>(given.data());
  return {data, data + given.size()};
}
nb::bytes Given(const Bytes& bytes) { return nb::bytes(bytes.data(), bytes.size()); }

ReplicaPolicy PolicyOf(const std::string& name) {
  if (name == "round_robin") return ReplicaPolicy::round_robin;
  if (name == "least_outstanding") return ReplicaPolicy::least_outstanding;
  Fail(tuttiInvalidArgument, "policy is " + name + ": it must be round_robin or least_outstanding");
}

// One side of a job's requests, and the communicator over which it has been made, which it keeps.
template <typename Side>
class OverCommunicator {
 public:
  template <typename... Options>
  OverCommunicator(nb::object communicator, int front, std::vector<std::vector<int>> replicas, Options... options)
      : communicator_(std::move(communicator)),
        world_(reinterpret_cast<tuttiComm_t>(nb::cast<std::uintptr_t>(communicator_.attr("_address")))) {
    tutti_python::Freely(world_, [&] {
      side_.emplace(world_, ReplicaLayout{.front = front, .replicas = std::move(replicas)}, options...);
    });
  }
  ~OverCommunicator() { Close(); }
  OverCommunicator(const OverCommunicator&) = delete;
  OverCommunicator& operator=(const OverCommunicator&) = delete;

  Side& get() {
    if (!side_) Fail(tuttiInvalidUsage, "this is closed");
    return *side_;
  }
  // REQUIRES: call() touches no Python object.
  template <typename Call>
  auto Freely(const Call& call) {
    Side& side = get();
    return tutti_python::Freely(side, [&] { return call(side); });
  }
  void Close() {
    const nb::gil_scoped_release released;  // it waits for what is under way
    side_.reset();
  }

 private:
  nb::object communicator_;  // destroyed last
  ProcessGroup world_;
  std::optional<Side> side_;
};

class Router : public OverCommunicator<tutti::parallel::ReplicaRouter> {
 public:
  Router(nb::object communicator, int front, std::vector<std::vector<int>> replicas, const std::string& policy)
      : OverCommunicator(std::move(communicator), front, std::move(replicas), PolicyOf(policy)) {}

  std::uint64_t Submit(const nb::bytes& request, std::uint64_t cost) {
    return Freely([bytes = BytesOf(request), cost](auto& router) { return router.submit(bytes, cost); });
  }
  std::optional<Reply> Poll() {
    return Freely([](auto& router) { return router.poll(); });
  }
  void Stop() {
    Freely([](auto& router) { router.stop(); });
  }
  ReplicaStatistics Statistics(std::size_t replica) { return get().statistics(replica); }
};

class Replica : public OverCommunicator<tutti::parallel::Replica> {
 public:
  Replica(nb::object communicator, int front, std::vector<std::vector<int>> replicas)
      : OverCommunicator(std::move(communicator), front, std::move(replicas)) {}

  std::optional<Request> Poll() {
    return Freely([](auto& replica) { return replica.poll(); });
  }
  void Answer(std::uint64_t id, const nb::bytes& reply) {
    Freely([id, bytes = BytesOf(reply)](auto& replica) { replica.reply(id, bytes); });
  }
};

}  // namespace

void BindServing(nb::module_& module) {
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const tutti::parallel::ReplicaError& error) {
      if (PyErr_CheckSignals() != 0) return;  // Ctrl-C ended the call
      const nb::object kind = nb::module_::import_("tutti.parallel").attr("ReplicaError");
      const nb::object raised = kind(error.what(), error.replica(), error.outstanding());
      PyErr_SetObject(kind.ptr(), raised.ptr());
    }
  });
  using Replicas = std::vector<std::vector<int>>;
  nb::class_<Request>(module, "Request").def_ro("id", &Request::id).def_prop_ro("bytes", [](const Request& self) {
    return Given(self.bytes);
  });
  nb::class_<Reply>(module, "Reply")
      .def_ro("id", &Reply::id, "What submit() returned.")
      .def_ro("replica", &Reply::replica, "Its place in the router's replicas.")
      .def_prop_ro("bytes", [](const Reply& self) { return Given(self.bytes); });
  nb::class_<ReplicaStatistics>(module, "ReplicaStatistics")
      .def_ro("alive", &ReplicaStatistics::alive)
      .def_ro("submitted", &ReplicaStatistics::submitted, "Requests.")
      .def_ro("replied", &ReplicaStatistics::replied, "Requests.")
      .def_ro("outstanding_cost", &ReplicaStatistics::outstanding_cost);
  nb::class_<Router>(module, "ReplicaRouter")
      .def(nb::init<nb::object, int, Replicas, const std::string&>(), nb::arg("comm"), nb::arg("front"),
           nb::arg("replicas"), nb::arg("policy"))
      .def("submit", &Router::Submit, nb::arg("request"), nb::arg("cost") = 1,
           "Queues a request for a replica that lives; returns its id. cost, such as tokens, counts as outstanding "
           "until the reply is taken. Raises RemoteError if no replica is left, InvalidUsageError after stop().")
      .def("poll", &Router::Poll,
           "A reply, if one is here. Raises ReplicaError once for each replica that is gone. Call it often: requests "
           "and replies move only in poll(), wait() and stop().")
      .def(
          "stop", &Router::Stop,
          "Tells all replicas that no request comes any more. Raises InvalidUsageError while requests are outstanding, "
          "and ReplicaError if a replica is gone, once the others have been told.")
      .def("statistics", &Router::Statistics, nb::arg("replica"))
      .def_prop_ro(
          "outstanding", [](Router& self) { return self.get().outstanding(); }, "Requests without a reply.")
      .def("close", &Router::Close, "Ends what is under way: replicas that have not been stopped get an error.");
  nb::class_<Replica>(module, "Replica")
      .def(nb::init<nb::object, int, Replicas>(), nb::arg("comm"), nb::arg("front"), nb::arg("replicas"))
      .def("poll", &Replica::Poll,
           "The next request, if one has come. The replica's ranks call it together, and all get the same.")
      .def("reply", &Replica::Answer, nb::arg("id"), nb::arg("reply"),
           "Answers a request, once; in any order. Each of the replica's ranks calls it; one of them sends. Raises "
           "InvalidUsageError for what poll() has not returned.")
      .def_prop_ro(
          "stopped", [](Replica& self) { return self.get().stopped(); },
          "The front has stopped: no request comes any more.")
      .def("close", &Replica::Close, "Ends what is under way: the front and the replica's other ranks get an error.");
}

}  // namespace tutti_python
