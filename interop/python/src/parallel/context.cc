// Context parallelism: the Ulysses exchange, and attention over a sequence that ranks hold parts of.
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>
#include <tutti/parallel/context_parallel.h>
#include <tutti/parallel/elementwise_attention.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "../failure.h"
#include "parallel.h"

namespace nb = nanobind;

namespace tutti_python {
namespace {

using tutti::parallel::AttentionCompute;
using tutti::parallel::AttentionInputs;
using tutti::parallel::Compute;
using tutti::parallel::ContextParallelAttention;
using tutti::parallel::ElementwiseAttention;
using tutti::parallel::HeadRows;
using tutti::parallel::HostCompute;
using tutti::parallel::ProcessGroup;
using tutti::parallel::SequencePlacement;
using tutti::parallel::SoftmaxState;
using tutti::parallel::Tensor;

// Calls the methods of `functions`, an object of tutti.parallel's class TorchAttention. HeadRows become tensors
// [positions, lanes / group, group, width].
class TorchAttention final : public AttentionCompute {
 public:
  TorchAttention(nb::object functions, PythonCompute& compute) : functions_(std::move(functions)), on_(compute) {}
  ~TorchAttention() override {
    const nb::gil_scoped_acquire python;
    functions_.reset();
  }

  Compute& compute() override { return on_.compute(); }
  void attend(const AttentionInputs& inputs, const SoftmaxState& state) override {
    Call("attend", inputs, state.out, state.maxima, state.sums);
  }
  void finish(const SoftmaxState& state, const HeadRows& out) override {
    Call("finish", state.out, state.maxima, state.sums, out);
  }
  void attend_delta(const HeadRows& out, const HeadRows& grad_out, const HeadRows& delta) override {
    Call("attend_delta", out, grad_out, delta);
  }
  void attend_backward(const AttentionInputs& inputs, const HeadRows& grad_out, const HeadRows& lse,
                       const HeadRows& delta, const HeadRows& grad_q, const HeadRows& grad_k,
                       const HeadRows& grad_v) override {
    Call("attend_backward", inputs, grad_out, lse, delta, grad_q, grad_k, grad_v);
  }

 private:
  nb::object Argument(const HeadRows& rows) const {
    const std::size_t groups = rows.lanes / rows.group;
    const auto stride = static_cast<std::int64_t>(rows.stride), width = static_cast<std::int64_t>(rows.width);
    const std::int64_t strides[] = {static_cast<std::int64_t>(groups) * stride, stride, width, 1};
    return ArrayOver({rows.data, {rows.positions, groups, rows.group, rows.width}, rows.dtype}, on_.place(), {},
                     strides);
  }
  nb::object Argument(const AttentionInputs& inputs) const {
    return nb::make_tuple(Argument(inputs.q), Argument(inputs.k), Argument(inputs.v), inputs.mask.causal,
                          inputs.mask.window, inputs.lead);
  }
  template <typename... Arguments>
  void Call(const char* function, const Arguments&... arguments) {
    const nb::gil_scoped_acquire python;
    functions_.attr(function)(Argument(arguments)...);
  }

  nb::object functions_;
  PythonCompute& on_;
};

using Exchange = void (*)(ProcessGroup&, Compute&, const Tensor&, const Tensor&);
template <Exchange exchange>
void Exchanged(ProcessGroup& group, PythonCompute& compute, nb::handle input, nb::handle output) {
  const Lent from(input, "the input"), to(output, "the output", Access::kWrite);
  Freely(group, [&] { exchange(group, compute.compute(), from, to); });
}

SequencePlacement PlacementOf(const std::string& name) {
  if (name == "zigzag") return SequencePlacement::zigzag;
  if (name == "contiguous") return SequencePlacement::contiguous;
  Fail(tuttiInvalidArgument, "placement is " + name + ": it must be zigzag or contiguous");
}

// Attention of tensors that are like the one for which it was made, with what the last forward has left for backward.
class Attention {
 public:
  Attention(ProcessGroup& ulysses, ProcessGroup& ring, AttentionCompute& attention, nb::handle qkv,
            std::size_t sequence, const std::vector<std::size_t>& cu_seqlens, bool causal, std::size_t window,
            const std::string& placement)
      : ulysses_(ulysses), ring_(ring) {
    const Lent like(qkv, "qkv");
    const auto& shape = (*like).shape;
    constexpr std::size_t kDimensions = 5, kKeyAndValue = 2;
    if (shape.size() != kDimensions || shape[3] <= kKeyAndValue) {
      Fail(tuttiInvalidArgument, "qkv has shape " + tutti::parallel::describe(shape) +
                                     ", but [rows, batch, kv_heads, heads / kv_heads + 2, width] is expected");
    }
    const tutti::parallel::ContextParallelConfig config{.sequence = sequence,
                                                        .batch = shape[1],
                                                        .heads = shape[2] * (shape[3] - kKeyAndValue),
                                                        .width = shape[4],
                                                        .causal = causal,
                                                        .placement = PlacementOf(placement),
                                                        .kv_heads = shape[2],
                                                        .window = window,
                                                        .dtype = (*like).dtype,
                                                        .cu_seqlens = cu_seqlens};
    InBoth([&] { attention_ = std::make_unique<ContextParallelAttention>(ulysses, ring, attention, config); });
  }

  void Forward(nb::handle qkv, nb::handle out) {
    const Lent from(qkv, "qkv"), to(out, "out", Access::kWrite);
    InBoth([&] { saved_ = attention_->forward(from, to); });
  }
  void Backward(nb::handle qkv, nb::handle out, nb::handle grad_out, nb::handle grad_qkv) {
    const Lent from(qkv, "qkv"), to(out, "out"), grad(grad_out, "grad_out"),
        grads(grad_qkv, "grad_qkv", Access::kWrite);
    InBoth([&] { attention_->backward(from, to, saved_, grad, grads); });
  }

 private:
  template <typename Call>
  void InBoth(const Call& call) {
    const Inside exchanging([this] { ulysses_.revoke(); });
    Freely(ring_, call);
  }

  ProcessGroup &ulysses_, &ring_;
  std::unique_ptr<ContextParallelAttention> attention_;
  ContextParallelAttention::Saved saved_;
};

}  // namespace

void BindContext(nb::module_& module) {
  module.def("scatter_heads_gather_sequence", &Exchanged<tutti::parallel::scatter_heads_gather_sequence>);
  module.def("scatter_sequence_gather_heads", &Exchanged<tutti::parallel::scatter_sequence_gather_heads>);
  module.def(
      "context_positions",
      [](const std::string& placement, const std::vector<std::size_t>& cu_seqlens, std::size_t ulysses_rank,
         std::size_t ulysses_size, std::size_t ring_rank, std::size_t ring_size) {
        return tutti::parallel::context_positions(PlacementOf(placement), cu_seqlens, ulysses_rank, ulysses_size,
                                                  ring_rank, ring_size);
      },
      nb::arg("placement"), nb::arg("cu_seqlens"), nb::arg("ulysses_rank"), nb::arg("ulysses_size"),
      nb::arg("ring_rank"), nb::arg("ring_size"));
  nb::class_<AttentionCompute>(module, "AttentionCompute");
  module.def(
      "torch_attention",
      [](nb::object functions, PythonCompute& compute) -> std::unique_ptr<AttentionCompute> {
        return std::make_unique<TorchAttention>(std::move(functions), compute);
      },
      nb::keep_alive<0, 2>());
  module.def(
      "numpy_attention",
      [](PythonCompute& compute) -> std::unique_ptr<AttentionCompute> {
        return std::make_unique<ElementwiseAttention<HostCompute>>(dynamic_cast<HostCompute&>(compute.compute()));
      },
      nb::keep_alive<0, 1>());
  nb::class_<Attention>(module, "ContextAttention")
      .def(nb::init<ProcessGroup&, ProcessGroup&, AttentionCompute&, nb::handle, std::size_t,
                    const std::vector<std::size_t>&, bool, std::size_t, const std::string&>(),
           nb::arg("ulysses"), nb::arg("ring"), nb::arg("attention"), nb::arg("like"), nb::arg("sequence"),
           nb::arg("cu_seqlens"), nb::arg("causal"), nb::arg("window"), nb::arg("placement"), nb::keep_alive<1, 2>(),
           nb::keep_alive<1, 3>(), nb::keep_alive<1, 4>())
      .def("forward", &Attention::Forward, nb::arg("qkv"), nb::arg("out"))
      .def("backward", &Attention::Backward, nb::arg("qkv"), nb::arg("out"), nb::arg("grad_out"), nb::arg("grad_qkv"));
}

}  // namespace tutti_python
