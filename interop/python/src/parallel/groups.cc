// Groups of ranks, and the state that has them.
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <tutti/parallel/p2p_communication.h>
#include <tutti/parallel/parallel_state.h>

#include <algorithm>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../failure.h"
#include "../handle.h"
#include "parallel.h"

namespace nb = nanobind;

namespace tutti_python {
namespace {

using tutti::parallel::ModelParallelSizes;
using tutti::parallel::P2P;
using tutti::parallel::P2POp;
using tutti::parallel::ParallelState;
using tutti::parallel::ProcessGroup;

// The innermost call in which the main thread is now. Under the GIL.
const Inside* of_main_thread = nullptr;

tuttiRedOp_t OperatorOf(const std::string& name) {
  static constexpr std::pair<const char*, tuttiRedOp_t> kOperators[] = {
      {"sum", tuttiSum}, {"prod", tuttiProd}, {"max", tuttiMax}, {"min", tuttiMin}, {"avg", tuttiAvg}};
  const auto* const found = std::ranges::find(kOperators, name, [](const auto& one) { return std::string(one.first); });
  if (found == std::end(kOperators))
    Fail(tuttiInvalidArgument, "op is " + name + ": it must be sum, prod, max, min or avg");
  return found->second;
}

tuttiStream_t StreamAt(std::uintptr_t stream) { return reinterpret_cast<tuttiStream_t>(stream); }

void BindGroup(nb::module_& module) {
  nb::class_<ProcessGroup>(
      module, "Group", nb::is_weak_referenceable(),
      "Some ranks of a job that do something together. Its communicator is made at its first call.")
      .def_prop_ro("name", &ProcessGroup::name, "What messages call it.")
      .def_prop_ro("ranks", &ProcessGroup::ranks, "Its ranks, as numbers of the job, ascending.")
      .def_prop_ro("rank", &ProcessGroup::rank, "This rank's number in it.")
      .def_prop_ro("size", &ProcessGroup::size, "The number of its ranks.")
      .def_prop_ro("bytes_sent", &ProcessGroup::bytes_sent, "Payload that this rank has sent by it.")
      .def(
          "all_reduce",
          [](ProcessGroup& self, nb::handle send, nb::handle recv, const std::string& op, std::uintptr_t stream) {
            const Lent input(send, "send"), output(recv, "recv", Access::kWrite);
            const auto operation = OperatorOf(op);
            Freely(self, [&] { self.all_reduce(input, output, operation, StreamAt(stream)); });
          },
          nb::arg("send"), nb::arg("recv"), nb::arg("op") = "sum", nb::arg("stream") = 0)
      .def(
          "all_gather",
          [](ProcessGroup& self, nb::handle send, nb::handle recv, std::uintptr_t stream) {
            const Lent input(send, "send"), output(recv, "recv", Access::kWrite);
            Freely(self, [&] { self.all_gather(input, output, StreamAt(stream)); });
          },
          nb::arg("send"), nb::arg("recv"), nb::arg("stream") = 0)
      .def(
          "all_gather_v",
          [](ProcessGroup& self, nb::handle send, const std::vector<std::size_t>& counts, nb::handle recv,
             std::uintptr_t stream) {
            const Lent input(send, "send"), output(recv, "recv", Access::kWrite);
            Freely(self, [&] { self.all_gather_v(input, counts, output, StreamAt(stream)); });
          },
          nb::arg("send"), nb::arg("counts"), nb::arg("recv"), nb::arg("stream") = 0,
          "counts: every rank's number of elements.")
      .def(
          "reduce_scatter",
          [](ProcessGroup& self, nb::handle send, nb::handle recv, const std::string& op, std::uintptr_t stream) {
            const Lent input(send, "send"), output(recv, "recv", Access::kWrite);
            const auto operation = OperatorOf(op);
            Freely(self, [&] { self.reduce_scatter(input, output, operation, StreamAt(stream)); });
          },
          nb::arg("send"), nb::arg("recv"), nb::arg("op") = "sum", nb::arg("stream") = 0)
      .def(
          "broadcast",
          [](ProcessGroup& self, nb::handle array, int root, std::uintptr_t stream) {
            const Lent tensor(array, "array", Access::kWrite);
            Freely(self, [&] { self.broadcast(tensor, root, StreamAt(stream)); });
          },
          nb::arg("array"), nb::arg("root") = 0, nb::arg("stream") = 0)
      .def(
          "all_to_all",
          [](ProcessGroup& self, nb::handle send, const std::vector<std::size_t>& send_counts, nb::handle recv,
             const std::vector<std::size_t>& receive_counts, std::uintptr_t stream) {
            const Lent input(send, "send"), output(recv, "recv", Access::kWrite);
            Freely(self, [&] { self.all_to_all(input, send_counts, output, receive_counts, StreamAt(stream)); });
          },
          nb::arg("send"), nb::arg("send_counts"), nb::arg("recv"), nb::arg("receive_counts"), nb::arg("stream") = 0)
      .def(
          "exchange",
          [](ProcessGroup& self, const std::vector<std::pair<nb::object, int>>& sends,
             const std::vector<std::pair<nb::object, int>>& receives, std::uintptr_t stream) {
            std::list<Lent> lent;  // which cannot move
            std::vector<P2POp> operations;
            for (const auto& [array, peer] : sends) {
              operations.push_back({P2P::isend, *lent.emplace_back(array, "what is sent"), peer});
            }
            for (const auto& [array, peer] : receives) {
              operations.push_back({P2P::irecv, *lent.emplace_back(array, "what is received", Access::kWrite), peer});
            }
            Freely(self, [&] { batch_isend_irecv(self, operations, StreamAt(stream)); });
          },
          nb::arg("sends"), nb::arg("receives"), nb::arg("stream") = 0,
          "Sends and receives, (array, rank of the group) each, that run together.")
      .def("barrier", [](ProcessGroup& self) { Freely(self, [&] { self.barrier(); }); })
      .def(
          "revoke", [](ProcessGroup& self) { self.revoke(); },
          "Ends everything under way on it, here and on the others, for good.");
}

// The groups of a job, whose communicator they keep.
class State {
 public:
  State(nb::object communicator, const ModelParallelSizes& sizes, std::optional<bool> deterministic)
      : communicator_(std::move(communicator)) {
    tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
    if (deterministic) config.deterministic = *deterministic ? 1 : 0;
    const auto world = nb::cast<std::uintptr_t>(communicator_.attr("_address"));
    state_ = initialize_model_parallel(reinterpret_cast<tuttiComm_t>(world), sizes, config);
  }

  ParallelState& get() {
    if (closed_) Fail(tuttiInvalidUsage, "the groups are closed");
    return *state_;
  }
  // By the names of Megatron's getters.
  ProcessGroup& Group(const std::string& name) {
    auto& state = get();
    if (name == "world") return state.get_world_group();
    if (name == "tensor_model_parallel") return state.get_tensor_model_parallel_group();
    if (name == "pipeline_model_parallel") return state.get_pipeline_model_parallel_group();
    if (name == "data_parallel") return state.get_data_parallel_group();
    if (name == "data_context_parallel") return state.get_data_parallel_group(true);
    if (name == "context_parallel") return state.get_context_parallel_group();
    if (name == "ulysses_parallel") return state.get_ulysses_parallel_group();
    if (name == "ring_parallel") return state.get_ring_parallel_group();
    if (name == "model_parallel") return state.get_model_parallel_group();
    if (name == "embedding") return state.get_embedding_group();
    if (name == "expert_model_parallel") return state.get_expert_model_parallel_group();
    if (name == "expert_tensor_parallel") return state.get_expert_tensor_parallel_group();
    if (name == "expert_data_parallel") return state.get_expert_data_parallel_group();
    Fail(tuttiInvalidArgument, "there is no group of the name " + name);
  }
  void Close() {
    if (std::exchange(closed_, true)) return;
    LeaveExchanges();
    const nb::gil_scoped_release released;
    state_->close();  // a Group that Python still has says so
  }

 private:
  nb::object communicator_;  // destroyed last
  std::unique_ptr<ParallelState> state_;
  bool closed_ = false;
};

void BindLayouts(nb::module_& module) {
  using tutti::parallel::MeshLayout;
  using tutti::parallel::ModelParallelLayouts;
  nb::class_<MeshLayout>(module, "MeshLayout")
      .def_prop_ro(
          "axes",
          [](const MeshLayout& self) {
            std::vector<std::pair<std::string, int>> axes;
            for (const auto& axis : self.axes()) axes.emplace_back(axis.name, axis.size);
            return axes;
          },
          "(name, size), from the axis that varies slowest with the rank to the fastest.")
      .def("coordinate", &MeshLayout::coordinate, nb::arg("rank"), nb::arg("axis"))
      .def("groups", &MeshLayout::groups, nb::arg("axes"));
  nb::class_<ModelParallelLayouts>(module, "Layouts")
      .def_ro("dense", &ModelParallelLayouts::dense)
      .def_ro("expert", &ModelParallelLayouts::expert)
      .def_ro("context", &ModelParallelLayouts::context);
  module.def("layouts", &tutti::parallel::layouts_of, nb::arg("sizes"), nb::arg("world_size"));
}

}  // namespace

Inside::Inside(std::function<void()> end) : end_(std::move(end)), around_(of_main_thread) {
  if (!IsMainThread()) return;
  CheckSignals();
  of_main_thread = this;
}
Inside::~Inside() {
  if (IsMainThread()) of_main_thread = around_;
}
std::vector<std::function<void()>> Inside::Ends() {
  std::vector<std::function<void()>> ends;
  for (const auto* call = of_main_thread; call != nullptr; call = call->around_) ends.push_back(call->end_);
  return ends;
}

void BindGroups(nb::module_& module) {
  BindGroup(module);
  nb::class_<ModelParallelSizes>(module, "Sizes")
      .def(nb::init<>())
      .def_rw("tensor_model_parallel_size", &ModelParallelSizes::tensor_model_parallel_size)
      .def_rw("pipeline_model_parallel_size", &ModelParallelSizes::pipeline_model_parallel_size)
      .def_rw("context_parallel_size", &ModelParallelSizes::context_parallel_size)
      .def_rw("ulysses_size", &ModelParallelSizes::ulysses_size)
      .def_rw("expert_model_parallel_size", &ModelParallelSizes::expert_model_parallel_size)
      .def_rw("expert_tensor_parallel_size", &ModelParallelSizes::expert_tensor_parallel_size)
      .def_rw("data_parallel_size", &ModelParallelSizes::data_parallel_size)
      .def_rw("order", &ModelParallelSizes::order);
  BindLayouts(module);
  module.def(
      "interrupt",
      [] {
        const auto ends = Inside::Ends();
        const nb::gil_scoped_release released;
        for (const auto& end : ends) end();
      },
      "Ends the call in which the main thread waits.");
  nb::class_<State>(module, "State")
      .def(nb::init<nb::object, const ModelParallelSizes&, std::optional<bool>>(), nb::arg("communicator"),
           nb::arg("sizes"), nb::arg("deterministic") = nb::none())
      .def("group", &State::Group, nb::arg("name"), nb::rv_policy::reference_internal)
      .def("bytes_sent", [](State& self) { return self.get().bytes_sent(); })
      .def("close", &State::Close);
}

}  // namespace tutti_python
