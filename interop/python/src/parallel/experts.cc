// Expert parallelism: routing, dispatch and combine.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>
#include <tutti/parallel/index_range.h>
#include <tutti/parallel/token_dispatcher.h>

#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "../failure.h"
#include "parallel.h"

namespace nb = nanobind;

namespace tutti_python {
namespace {

using tutti::parallel::Buffer;
using tutti::parallel::Combined;
using tutti::parallel::DispatchHandle;
using tutti::parallel::LoadStatistics;
using tutti::parallel::MoEAlltoAllTokenDispatcher;
using tutti::parallel::ProcessGroup;
using tutti::parallel::require_shape;
using tutti::parallel::require_type;
using tutti::parallel::Routing;
using tutti::parallel::RowsUnderWay;
using tutti::parallel::Tensor;
using tutti::parallel::TokenDispatcherConfig;
using tutti::parallel::TopKRouter;
using tutti::parallel::TopKRouterConfig;

// HostCompute has kernels for float32 alone.
void RequireKernels(const PythonCompute& compute, const char* what, const Tensor& tensor) {
  if (compute.place().framework == Framework::numpy) require_type(what, tensor, tuttiFloat32);
}

// A routing, with what its backward pass needs.
class Routed {
 public:
  Routed(nb::object compute, ProcessGroup* group, const TopKRouterConfig& config, nb::handle logits)
      : compute_(std::move(compute)), config_(config) {
    const Lent from(logits, "the logits");
    require_type("the logits", from, tuttiFloat32);
    config_.num_experts = (*from).columns();
    TopKRouter router(Processor(), config_);
    const auto route = [&] {
      routing_ = router.forward(from);
      load_ = load_statistics(routing_);
      if (group != nullptr) load_.all_reduce(*group);
      aux_loss_ = router.aux_loss(routing_, load_);
    };
    if (group != nullptr) {
      Freely(*group, route);
    } else {
      const nb::gil_scoped_release released;
      route();
    }
  }

  void Backward(float grad_aux_loss, nb::handle grad_weights, nb::handle grad_logits) {
    const Lent grad(grad_weights, "the weights' gradient"), to(grad_logits, "the logits' gradient", Access::kWrite);
    auto config = config_;
    config.aux_loss_coeff *= grad_aux_loss;  // the loss is linear in it
    TopKRouter router(Processor(), config);
    const nb::gil_scoped_release released;
    router.backward(routing_, load_, grad, to);
  }

  // Python's arrays over the routing's memory, which `self` keeps.
  static nb::object Weights(nb::handle self) { return Get(self).Over(self, Get(self).routing_.topk_weights); }
  static nb::object Probabilities(nb::handle self) { return Get(self).Over(self, Get(self).routing_.probabilities); }
  static nb::object Indices(nb::handle self) {
    auto& routing = Get(self).routing_;
    return ArrayOver(Tensor(routing.topk_indices.data(), {routing.tokens(), routing.topk}, tuttiInt32),
                     {Get(self).PlaceOf().framework, -1}, self);
  }
  const LoadStatistics& load() const { return load_; }
  float aux_loss() const { return aux_loss_; }

 private:
  static Routed& Get(nb::handle self) { return nb::cast<Routed&>(self); }
  tutti::parallel::Compute& Processor() const { return nb::cast<PythonCompute&>(compute_).compute(); }
  Place PlaceOf() const { return nb::cast<PythonCompute&>(compute_).place(); }
  nb::object Over(nb::handle self, const Tensor& tensor) const { return ArrayOver(tensor, PlaceOf(), self); }

  nb::object compute_;  // destroyed last
  TopKRouterConfig config_;
  Routing routing_;
  LoadStatistics load_;
  float aux_loss_ = 0;
};

class Exchange;
std::set<Exchange*> under_way;  // under the GIL

// An exchange between its begin and its end. Without an end, the group is revoked.
class Exchange {
 public:
  explicit Exchange(RowsUnderWay rows) : rows_(std::move(rows)) { under_way.insert(this); }
  ~Exchange() { Leave(); }
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  RowsUnderWay Take() {
    if (!rows_) Fail(tuttiInvalidUsage, "the exchange of tokens has ended before");
    under_way.erase(this);
    RowsUnderWay rows(std::move(*rows_));
    rows_.reset();
    return rows;
  }
  void Leave() {
    under_way.erase(this);
    if (!rows_) return;
    const nb::gil_scoped_release released;
    rows_.reset();
  }

 private:
  std::optional<RowsUnderWay> rows_;
};

// A handle, and the dispatcher that has made it.
struct Handle {
  nb::object dispatcher;  // destroyed last
  DispatchHandle handle;
};

class Dispatcher {
 public:
  // like: an array of the tokens' type.
  Dispatcher(ProcessGroup& group, nb::object compute, nb::handle like, TokenDispatcherConfig config)
      : group_(group), compute_(std::move(compute)) {
    const Lent tokens(like, "tokens");
    RequireKernels(Processor(), "tokens", tokens);
    config.dtype = (*tokens).dtype;
    Freely(group, [&] { dispatcher_.emplace(group, Processor().compute(), config); });
  }

  // indices: [tokens, topk], on the host. whole: one handle, else one for each of config.parts.
  static std::vector<std::unique_ptr<Handle>> Layouts(nb::handle self, nb::handle indices, std::size_t num_experts,
                                                      bool whole) {
    auto& me = nb::cast<Dispatcher&>(self);
    const Lent chosen(indices, "indices");
    const Tensor& tensor = chosen;
    require_type("indices", tensor, tuttiInt32);
    require_shape("indices", tensor, {tensor.rows(), tensor.columns()});
    const auto* const first = static_cast<const std::int32_t*>(tensor.data);
    Routing routing{num_experts, tensor.columns(), {first, first + tensor.count()}, {}, {}};
    std::vector<DispatchHandle> handles;
    Freely(me.group_, [&] {
      if (!whole) {
        handles = me.dispatcher_->get_dispatch_layouts(routing);
      } else {
        handles.push_back(me.dispatcher_->get_dispatch_layout(routing));
      }
    });
    std::vector<std::unique_ptr<Handle>> result;
    for (auto& handle : handles) result.emplace_back(new Handle{nb::borrow(self), std::move(handle)});
    return result;
  }

  std::unique_ptr<Exchange> DispatchBegin(nb::handle tokens, const Handle& handle, bool overlapped) {
    const Lent from(tokens, "tokens");
    return Begun([&] { return dispatcher_->dispatch_begin(from, handle.handle, overlapped); });
  }
  nb::object DispatchEnd(Exchange& exchange, const Handle& handle) {
    auto rows = exchange.Take();
    return Given(Freely(group_, [&] { return dispatcher_->dispatch_end(std::move(rows), handle.handle); }));
  }
  std::unique_ptr<Exchange> CombineBegin(nb::handle expert_output, nb::handle weights, const Handle& handle,
                                         bool overlapped) {
    const Lent from(expert_output, "expert_output"), weight(weights, "weights");
    require_type("weights", weight, tuttiFloat32);
    return Begun([&] { return dispatcher_->combine_begin(from, weight, handle.handle, overlapped); });
  }
  // The members of Combined, which the backward pass needs.
  std::pair<nb::object, nb::object> CombineEnd(Exchange& exchange, nb::handle weights, const Handle& handle,
                                               nb::handle output) {
    const Lent weight(weights, "weights"), to(output, "output", Access::kWrite);
    auto rows = exchange.Take();
    auto combined =
        Freely(group_, [&] { return dispatcher_->combine_end(std::move(rows), weight, handle.handle, to); });
    return {Given(std::move(combined.returned)), Given(std::move(combined.weights))};
  }
  std::unique_ptr<Exchange> CombineBackwardBegin(nb::handle grad_output, nb::handle returned, nb::handle weights,
                                                 const Handle& handle, nb::handle grad_weights, bool overlapped) {
    const Lent grad(grad_output, "the output's gradient"), rows(returned, "returned"), weight(weights, "weights"),
        to(grad_weights, "the weights' gradient", Access::kWrite);
    const auto lent = [](const Tensor& tensor) { return Buffer(tensor, [](void*) {}); };
    const Combined combined{lent(rows), lent(weight)};
    return Begun([&] { return dispatcher_->combine_backward_begin(grad, combined, handle.handle, to, overlapped); });
  }
  std::unique_ptr<Exchange> DispatchBackwardBegin(nb::handle grad_rows, const Handle& handle, bool overlapped) {
    const Lent grad(grad_rows, "the rows' gradient");
    return Begun([&] { return dispatcher_->dispatch_backward_begin(grad, handle.handle, overlapped); });
  }
  void DispatchBackwardEnd(Exchange& exchange, const Handle& handle, nb::handle grad_tokens) {
    const Lent to(grad_tokens, "the tokens' gradient", Access::kWrite);
    auto rows = exchange.Take();
    Freely(group_, [&] { dispatcher_->dispatch_backward_end(std::move(rows), handle.handle, to); });
  }

 private:
  PythonCompute& Processor() const { return nb::cast<PythonCompute&>(compute_); }
  template <typename Begin>
  std::unique_ptr<Exchange> Begun(const Begin& begin) {
    return std::make_unique<Exchange>(Freely(group_, begin));
  }
  nb::object Given(Buffer buffer) const { return ArrayOf(std::move(buffer), Processor().place(), compute_); }

  ProcessGroup& group_;
  nb::object compute_;
  std::optional<MoEAlltoAllTokenDispatcher> dispatcher_;
};

void BindRouting(nb::module_& module) {
  nb::class_<LoadStatistics>(module, "LoadStatistics", "How evenly the experts are used.")
      .def_ro("tokens_per_expert", &LoadStatistics::tokens_per_expert, "Before any is dropped.")
      .def("max_over_mean", &LoadStatistics::max_over_mean,
           "1: all experts have equally many tokens; their number: one has all tokens.");
  nb::class_<Routed>(module, "Routed")
      .def(
          "__init__",
          [](Routed* self, nb::object compute, ProcessGroup* group, std::size_t topk, bool renormalize,
             float aux_loss_coeff, nb::handle logits) {
            new (self) Routed(std::move(compute), group,
                              {.topk = topk, .renormalize = renormalize, .aux_loss_coeff = aux_loss_coeff}, logits);
          },
          nb::arg("compute"), nb::arg("group").none(), nb::arg("topk"), nb::arg("renormalize"),
          nb::arg("aux_loss_coeff"), nb::arg("logits"))
      .def("backward", &Routed::Backward, nb::arg("grad_aux_loss"), nb::arg("grad_weights"), nb::arg("grad_logits"))
      .def_prop_ro("weights", &Routed::Weights)
      .def_prop_ro("probabilities", &Routed::Probabilities)
      .def_prop_ro("indices", &Routed::Indices)
      .def_prop_ro("load", &Routed::load, nb::rv_policy::copy)
      .def_prop_ro("aux_loss", &Routed::aux_loss);
}

}  // namespace

void LeaveExchanges() {
  while (!under_way.empty()) (*under_way.begin())->Leave();
}

void BindExperts(nb::module_& module) {
  BindRouting(module);
  module.def(
      "part_of",
      [](std::size_t count, std::size_t part, std::size_t parts) {
        const auto range = tutti::parallel::part_of(count, part, parts);
        return std::pair(range.begin, range.end);
      },
      nb::arg("count"), nb::arg("part"), nb::arg("parts"));
  nb::class_<Exchange>(module, "Exchange");
  nb::class_<Handle>(module, "DispatchHandle", "Where tokens go: any number of dispatches and combines may use it.")
      .def_prop_ro(
          "tokens", [](const Handle& self) { return self.handle.tokens; }, "Of this rank.")
      .def_prop_ro(
          "tokens_per_expert", [](const Handle& self) { return self.handle.tokens_per_expert(); },
          "Rows that dispatch gives this rank, by local expert.")
      .def_prop_ro(
          "dropped", [](const Handle& self) { return self.handle.dropped; },
          "Choices of this rank's tokens beyond an expert's capacity.");
  nb::class_<Dispatcher>(module, "Dispatcher")
      .def(
          "__init__",
          [](Dispatcher* self, ProcessGroup& group, nb::object compute, nb::handle like, std::size_t num_experts,
             std::size_t topk, std::size_t hidden_size, double capacity_factor, std::size_t parts) {
            new (self) Dispatcher(group, std::move(compute), like,
                                  {.num_experts = num_experts,
                                   .topk = topk,
                                   .hidden_size = hidden_size,
                                   .capacity_factor = capacity_factor,
                                   .parts = parts});
          },
          nb::arg("group"), nb::arg("compute"), nb::arg("like"), nb::arg("num_experts"), nb::arg("topk"),
          nb::arg("hidden_size"), nb::arg("capacity_factor"), nb::arg("parts"), nb::keep_alive<1, 2>())
      .def("layouts", &Dispatcher::Layouts, nb::arg("indices"), nb::arg("num_experts"), nb::arg("whole"))
      .def("dispatch_begin", &Dispatcher::DispatchBegin, nb::arg("tokens"), nb::arg("handle"), nb::arg("overlapped"),
           nb::keep_alive<0, 1>())
      .def("dispatch_end", &Dispatcher::DispatchEnd, nb::arg("exchange"), nb::arg("handle"))
      .def("combine_begin", &Dispatcher::CombineBegin, nb::arg("expert_output"), nb::arg("weights"), nb::arg("handle"),
           nb::arg("overlapped"), nb::keep_alive<0, 1>())
      .def("combine_end", &Dispatcher::CombineEnd, nb::arg("exchange"), nb::arg("weights"), nb::arg("handle"),
           nb::arg("output"))
      .def("combine_backward_begin", &Dispatcher::CombineBackwardBegin, nb::arg("grad_output"), nb::arg("returned"),
           nb::arg("weights"), nb::arg("handle"), nb::arg("grad_weights"), nb::arg("overlapped"),
           nb::keep_alive<0, 1>())
      .def("dispatch_backward_begin", &Dispatcher::DispatchBackwardBegin, nb::arg("grad_rows"), nb::arg("handle"),
           nb::arg("overlapped"), nb::keep_alive<0, 1>())
      .def("dispatch_backward_end", &Dispatcher::DispatchBackwardEnd, nb::arg("exchange"), nb::arg("handle"),
           nb::arg("grad_tokens"));
}

}  // namespace tutti_python
