// Data parallelism: gradients averaged, and sharded state.
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <tutti/parallel/data_parallel.h>
#include <tutti/parallel/fully_sharded_data_parallel.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "parallel.h"

namespace nb = nanobind;

namespace tutti_python {
namespace {

using tutti::parallel::DistributedDataParallel;
using tutti::parallel::FullyShardedDataParallel;
using tutti::parallel::MemoryKind;
using tutti::parallel::Parameter;
using tutti::parallel::ProcessGroup;
using tutti::parallel::Tensor;
using tutti::parallel::ZeroStage;

// A parameter's name, and an array with its values.
using Named = std::pair<std::string, nb::object>;

// Parameters whose arrays are lent as long as this lives.
struct LentParameters {
  explicit LentParameters(const std::vector<Named>& named) {
    for (const auto& [name, array] : named) {
      arrays.emplace_back(array, name.c_str(), Access::kWrite);
      parameters.push_back({name, arrays.back()});
    }
  }
  std::deque<Lent> arrays;
  std::vector<Parameter> parameters;
};

class DataParallel {
 public:
  // Sends rank 0's parameters to every rank.
  DataParallel(ProcessGroup& group, PythonCompute& compute, const std::vector<Named>& parameters,
               std::size_t bucket_bytes, int gradient_divisor, bool find_unused_parameters)
      : group_(group), compute_(compute) {
    const LentParameters lent(parameters);
    const tutti::parallel::DistributedDataParallelConfig defaults;
    Freely(group_, [&] {
      ddp_.emplace(group_, compute_.compute(), lent.parameters,
                   tutti::parallel::DistributedDataParallelConfig{
                       .bucket_bytes = bucket_bytes,
                       .first_bucket_bytes = std::min(bucket_bytes, defaults.first_bucket_bytes),
                       .gradient_divisor = gradient_divisor,
                       .find_unused_parameters = find_unused_parameters});
      ddp_->broadcast_parameters();
    });
  }
  ~DataParallel() {
    const nb::gil_scoped_release released;  // it waits for what is under way
    accumulating_.reset();
    ddp_.reset();
  }
  DataParallel(const DataParallel&) = delete;
  DataParallel& operator=(const DataParallel&) = delete;

  nb::object grad(std::size_t parameter) const { return compute_.ArrayIn(ddp_->grad(parameter)); }
  void zero_grad() { ddp_->zero_grad(); }
  void keep_gradients() { ddp_->keep_gradients(); }
  void accumulate(bool on) {
    accumulating_.reset();
    if (on) accumulating_.emplace(*ddp_);
  }
  void mark_ready(std::size_t parameter) {
    Freely(group_, [&] { ddp_->mark_ready(parameter); });
  }
  void finish_gradients() {
    Freely(group_, [&] { ddp_->finish_gradients(); });
  }
  std::size_t buckets_sent() const { return ddp_->buckets_sent(); }
  bool unused(std::size_t parameter) const { return ddp_->unused(parameter); }

 private:
  ProcessGroup& group_;
  PythonCompute& compute_;
  std::optional<DistributedDataParallel> ddp_;
  std::optional<DistributedDataParallel::NoSync> accumulating_;
};

class Sharded {
 public:
  using Core = FullyShardedDataParallel;

  // Every rank keeps its shard of rank 0's parameters. Units are names and parameters.
  Sharded(ProcessGroup& group, PythonCompute& compute,
          const std::vector<std::pair<std::string, std::vector<Named>>>& units, int stage, int shard_group_size)
      : group_(group), compute_(compute) {
    std::deque<LentParameters> lent;
    std::vector<tutti::parallel::ShardedUnit> specs;
    for (const auto& [name, parameters] : units) {
      specs.push_back({.name = name, .parameters = lent.emplace_back(parameters).parameters});
    }
    Freely(group_, [&] {
      core_.emplace(group_, compute_.compute(), std::move(specs),
                    tutti::parallel::FullyShardedDataParallelConfig{.stage = static_cast<ZeroStage>(stage),
                                                                    .shard_group_size = shard_group_size});
      for (std::size_t unit = 0; unit < lent.size(); ++unit) {
        core_->initialize(unit, [&](std::size_t parameter, const Tensor& values) {
          compute_.compute().copy(lent[unit].parameters[parameter].data, values, false);
        });
      }
    });
  }
  ~Sharded() {
    const nb::gil_scoped_release released;  // it waits for what is under way
    core_.reset();
  }
  Sharded(const Sharded&) = delete;
  Sharded& operator=(const Sharded&) = delete;

  template <void (Core::*call)(std::size_t)>
  void Use(std::size_t unit) {
    Freely(group_, [&] { ((*core_).*call)(unit); });
  }
  void set_next_pass(std::size_t first_unit) { core_->set_next_pass(first_unit); }
  nb::object data(std::size_t unit, std::size_t parameter) const {
    return compute_.ArrayIn(core_->data(unit, parameter));
  }
  nb::object grad(std::size_t unit, std::size_t parameter) const {
    return compute_.ArrayIn(core_->grad(unit, parameter));
  }
  // (data, grad)
  std::pair<nb::object, nb::object> shard(std::size_t unit) const {
    const auto [data, grad] = core_->shard(unit);
    return {compute_.ArrayIn(data), compute_.ArrayIn(grad)};
  }
  void zero_grad() { core_->zero_grad(); }
  void set_requires_gradient_sync(bool on) { core_->set_requires_gradient_sync(on); }
  void finish_gradients() {
    Freely(group_, [&] { core_->finish_gradients(); });
  }
  void parameters_updated() { core_->parameters_updated(); }
  void gather(std::size_t unit, nb::handle mine, nb::handle whole) {
    const Lent from(mine, "this rank's part"), to(whole, "the whole unit", Access::kWrite);
    Freely(group_, [&] { core_->gather(unit, from, to); });
  }
  // Sets `mine` to this rank's part of `whole`.
  void scatter(std::size_t unit, nb::handle whole, nb::handle mine) {
    const Lent from(whole, "the whole unit"), to(mine, "this rank's part", Access::kWrite);
    compute_.compute().copy(core_->shard_of(unit, from), to, false);
  }
  bool sharded(std::size_t unit) const { return core_->state(unit) == Core::UnitState::sharded; }
  std::map<std::string, std::uint64_t> bytes_sent() const { return core_->bytes_sent(); }
  // Bytes by kind: (now, most).
  std::map<std::string, std::pair<std::size_t, std::size_t>> memory() const {
    const auto& memory = core_->memory();
    const auto of = [&](MemoryKind kind) { return std::pair(memory.now(kind), memory.peak(kind)); };
    return {{"parameters", of(MemoryKind::parameters)},
            {"gradients", of(MemoryKind::gradients)},
            {"master_copies", of(MemoryKind::optimizer_state)}};
  }

 private:
  ProcessGroup& group_;
  PythonCompute& compute_;
  std::optional<Core> core_;
};

}  // namespace

void BindData(nb::module_& module) {
  nb::class_<DataParallel>(module, "DataParallel")
      .def(nb::init<ProcessGroup&, PythonCompute&, const std::vector<Named>&, std::size_t, int, bool>(),
           nb::keep_alive<1, 2>(), nb::keep_alive<1, 3>())
      .def("grad", &DataParallel::grad)
      .def("zero_grad", &DataParallel::zero_grad)
      .def("keep_gradients", &DataParallel::keep_gradients)
      .def("accumulate", &DataParallel::accumulate)
      .def("mark_ready", &DataParallel::mark_ready)
      .def("finish_gradients", &DataParallel::finish_gradients)
      .def("buckets_sent", &DataParallel::buckets_sent)
      .def("unused", &DataParallel::unused);
  nb::class_<Sharded>(module, "Sharded")
      .def(nb::init<ProcessGroup&, PythonCompute&, const std::vector<std::pair<std::string, std::vector<Named>>>&, int,
                    int>(),
           nb::keep_alive<1, 2>(), nb::keep_alive<1, 3>())
      .def("pre_forward", &Sharded::Use<&FullyShardedDataParallel::pre_forward>)
      .def("post_forward", &Sharded::Use<&FullyShardedDataParallel::post_forward>)
      .def("pre_backward", &Sharded::Use<&FullyShardedDataParallel::pre_backward>)
      .def("post_backward", &Sharded::Use<&FullyShardedDataParallel::post_backward>)
      .def("set_next_pass", &Sharded::set_next_pass)
      .def("data", &Sharded::data)
      .def("grad", &Sharded::grad)
      .def("shard", &Sharded::shard)
      .def("zero_grad", &Sharded::zero_grad)
      .def("set_requires_gradient_sync", &Sharded::set_requires_gradient_sync)
      .def("finish_gradients", &Sharded::finish_gradients)
      .def("parameters_updated", &Sharded::parameters_updated)
      .def("gather", &Sharded::gather)
      .def("scatter", &Sharded::scatter)
      .def("sharded", &Sharded::sharded)
      .def("bytes_sent", &Sharded::bytes_sent)
      .def("memory", &Sharded::memory);
}

}  // namespace tutti_python
