// Tensor and sequence parallelism: linear layers, the mappings around them, and the two ends of a vocabulary.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <tutti/parallel/tensor_parallel.h>
#include <tutti/parallel/vocab_parallel.h>

#include <string>

#include "../failure.h"
#include "parallel.h"

namespace nb = nanobind;

namespace tutti_python {
namespace {

using tutti::parallel::ColumnParallelLinear;
using tutti::parallel::LinearParameters;
using tutti::parallel::ProcessGroup;
using tutti::parallel::RowParallelLinear;
using tutti::parallel::Tensor;
using tutti::parallel::TensorParallel;
using tutti::parallel::VocabParallelCrossEntropy;
using tutti::parallel::VocabParallelEmbedding;

using Mapping = void (*)(const TensorParallel&, const Tensor&, const Tensor&);

// The functions of mappings.h, by name: (group, compute, input, output).
template <Mapping mapping>
void Map(ProcessGroup& group, PythonCompute& compute, nb::handle input, nb::handle output) {
  const Lent from(input, "the input"), to(output, "the output", Access::kWrite);
  Freely(group, [&] { mapping({group, compute.compute()}, from, to); });
}

// A linear layer's tensors, for one call. The C++ layer's object lives no longer, since autograd keeps the state.
struct LinearArguments {
  LinearArguments(nb::handle weight, nb::handle bias)
      : weight(weight, "the weight"), bias(bias, "the bias"), grad_weight(nb::none(), ""), grad_bias(nb::none(), "") {
    parameters = {*this->weight, *this->bias, *this->weight, *this->bias};
  }
  LinearArguments(nb::handle weight, nb::handle bias, nb::handle grad_weight, nb::handle grad_bias)
      : weight(weight, "the weight"),
        bias(bias, "the bias"),
        grad_weight(grad_weight, "the weight's gradient", Access::kWrite),
        grad_bias(grad_bias, "the bias's gradient", Access::kWrite) {
    parameters = {*this->weight, *this->bias, *this->grad_weight, *this->grad_bias};
  }

  Lent weight, bias, grad_weight, grad_bias;
  LinearParameters parameters;
};

template <typename Linear, typename Options>
void Forward(ProcessGroup& group, PythonCompute& compute, std::size_t input_size, std::size_t output_size,
             const Options& options, nb::handle weight, nb::handle bias, nb::handle input, nb::handle output) {
  const LinearArguments arguments(weight, bias);
  const Lent x(input, "the input"), y(output, "the output", Access::kWrite);
  Freely(group, [&] {
    Linear({group, compute.compute()}, input_size, output_size, arguments.parameters, options).forward(x, y);
  });
}

template <typename Linear, typename Options>
void Backward(ProcessGroup& group, PythonCompute& compute, std::size_t input_size, std::size_t output_size,
              const Options& options, nb::handle weight, nb::handle bias, nb::handle grad_weight, nb::handle grad_bias,
              nb::handle input, nb::handle grad_output, nb::handle grad_input) {
  const LinearArguments arguments(weight, bias, grad_weight, grad_bias);
  const Lent x(input, "the input"), grad_y(grad_output, "the output's gradient"),
      grad_x(grad_input, "the input's gradient", Access::kWrite);
  Freely(group, [&] {
    Linear({group, compute.compute()}, input_size, output_size, arguments.parameters, options)
        .backward(x, grad_y, grad_x);
  });
}

void BindLinear(nb::module_& module) {
  using tutti::parallel::ColumnParallelOptions;
  using tutti::parallel::RowParallelOptions;
  nb::class_<ColumnParallelOptions>(module, "ColumnOptions")
      .def(
          "__init__",
          [](ColumnParallelOptions* self, bool gather_output, bool sequence_parallel) {
            new (self) ColumnParallelOptions{gather_output, sequence_parallel};
          },
          nb::arg("gather_output"), nb::arg("sequence_parallel"));
  nb::class_<RowParallelOptions>(module, "RowOptions")
      .def(
          "__init__",
          [](RowParallelOptions* self, bool input_is_parallel, bool sequence_parallel) {
            new (self) RowParallelOptions{input_is_parallel, sequence_parallel};
          },
          nb::arg("input_is_parallel"), nb::arg("sequence_parallel"));
  const auto forward = [&module](const char* name, auto function) {
    module.def(name, function, nb::arg("group"), nb::arg("compute"), nb::arg("input_size"), nb::arg("output_size"),
               nb::arg("options"), nb::arg("weight"), nb::arg("bias").none(), nb::arg("input"), nb::arg("output"));
  };
  const auto backward = [&module](const char* name, auto function) {
    module.def(name, function, nb::arg("group"), nb::arg("compute"), nb::arg("input_size"), nb::arg("output_size"),
               nb::arg("options"), nb::arg("weight"), nb::arg("bias").none(), nb::arg("grad_weight"),
               nb::arg("grad_bias").none(), nb::arg("input"), nb::arg("grad_output"), nb::arg("grad_input"));
  };
  forward("column_linear", &Forward<ColumnParallelLinear, ColumnParallelOptions>);
  forward("row_linear", &Forward<RowParallelLinear, RowParallelOptions>);
  backward("column_linear_backward", &Backward<ColumnParallelLinear, ColumnParallelOptions>);
  backward("row_linear_backward", &Backward<RowParallelLinear, RowParallelOptions>);
}

class CrossEntropy {
 public:
  CrossEntropy(ProcessGroup& group, PythonCompute& compute, std::size_t vocabulary_size)
      : group_(group), loss_({group, compute.compute()}, vocabulary_size) {}

  void Forward(nb::handle logits, nb::handle targets, nb::handle losses) {
    const Lent from(logits, "the logits"), target(targets, "targets"), to(losses, "the losses", Access::kWrite);
    Freely(group_, [&] { loss_.forward(from, target, to); });
  }
  void Backward(nb::handle logits, nb::handle targets, nb::handle grad_losses, nb::handle grad_logits) {
    const Lent from(logits, "the logits"), target(targets, "targets"), grad(grad_losses, "the losses' gradient"),
        to(grad_logits, "the logits' gradient", Access::kWrite);
    Freely(group_, [&] { loss_.backward(from, target, grad, to); });
  }

 private:
  ProcessGroup& group_;
  VocabParallelCrossEntropy loss_;
};

void BindVocabulary(nb::module_& module) {
  module.def("embedding",
             [](ProcessGroup& group, PythonCompute& compute, std::size_t vocabulary_size, std::size_t embedding_size,
                bool sequence_parallel, nb::handle weight, nb::handle ids, nb::handle output) {
               const Lent table(weight, "the embedding"), id(ids, "ids"), y(output, "the output", Access::kWrite);
               Freely(group, [&] {
                 VocabParallelEmbedding({group, compute.compute()}, vocabulary_size, embedding_size, table, table,
                                        sequence_parallel)
                     .forward(id, y);
               });
             });
  module.def("embedding_backward",
             [](ProcessGroup& group, PythonCompute& compute, std::size_t vocabulary_size, std::size_t embedding_size,
                bool sequence_parallel, nb::handle grad_weight, nb::handle ids, nb::handle grad_output) {
               const Lent grad_table(grad_weight, "the embedding's gradient", Access::kWrite), id(ids, "ids"),
                   grad(grad_output, "the output's gradient");
               Freely(group, [&] {
                 VocabParallelEmbedding({group, compute.compute()}, vocabulary_size, embedding_size, grad_table,
                                        grad_table, sequence_parallel)
                     .backward(id, grad);
               });
             });
  nb::class_<CrossEntropy>(module, "CrossEntropy")
      .def(nb::init<ProcessGroup&, PythonCompute&, std::size_t>(), nb::keep_alive<1, 2>(), nb::keep_alive<1, 3>())
      .def("forward", &CrossEntropy::Forward)
      .def("backward", &CrossEntropy::Backward);
}

}  // namespace

void BindLayers(nb::module_& module) {
  module.def("gather_last_dimension", &Map<tutti::parallel::gather_last_dimension>);
  module.def("split_last_dimension", &Map<tutti::parallel::split_last_dimension>);
  module.def("gather_first_dimension", &Map<tutti::parallel::gather_first_dimension>);
  module.def("split_first_dimension", &Map<tutti::parallel::split_first_dimension>);
  module.def("reduce_scatter_first_dimension", &Map<tutti::parallel::reduce_scatter_first_dimension>);
  BindLinear(module);
  BindVocabulary(module);
}

}  // namespace tutti_python
