// Pipeline parallelism: schedules, and their runs.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>
#include <tutti/parallel/error.h>
#include <tutti/parallel/pipeline.h>
#include <tutti/parallel/pipeline_draw.h>
#include <tutti/parallel/pipeline_simulate.h>

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "parallel.h"

namespace nb = nanobind;

namespace tutti_python {
namespace {

using tutti::parallel::Buffer;
using tutti::parallel::Compute;
using tutti::parallel::PipelineDurations;
using tutti::parallel::PipelineParallel;
using tutti::parallel::PipelineSchedule;
using tutti::parallel::ProcessGroup;
using tutti::parallel::SplitBackwardStep;
using tutti::parallel::Tensor;
using tutti::parallel::TensorSpec;

auto Timeline(const PipelineSchedule& schedule, double forward, double backward) {
  return pipeline_simulate(schedule, PipelineDurations::uniform(schedule.stages, forward, backward));
}

void BindSchedule(nb::module_& module) {
  nb::class_<PipelineSchedule>(
      module, "PipelineSchedule",
      "The forwards and backwards of a batch's micro-batches, in the order in which each stage "
      "does them. Made by pipeline_schedule().")
      .def_ro("name", &PipelineSchedule::name)
      .def_ro("stages", &PipelineSchedule::stages)
      .def_ro("microbatches", &PipelineSchedule::microbatches)
      .def_ro("chunks", &PipelineSchedule::chunks, "Chunks of the model that each stage has.")
      .def(
          "chunks_of",
          [](const PipelineSchedule& self, int stage) {
            std::vector<int> numbers;
            for (int chunk = 0; chunk < self.chunks; ++chunk) numbers.push_back(chunk_number(self, stage, chunk));
            return numbers;
          },
          nb::arg("stage"),
          "Which of the model's stages * chunks chunks the stage has, in the order in which Pipeline takes them.")
      .def(
          "bubble_fraction",
          [](const PipelineSchedule& self, double forward, double backward) {
            return Timeline(self, forward, backward).bubble_fraction();
          },
          nb::arg("forward") = 1.0, nb::arg("backward") = 2.0,
          "The share of the stages' time in which they do nothing, if a forward and a backward take these times. The "
          "two "
          "parts of a backward take equally long.")
      .def(
          "draw",
          [](const PipelineSchedule& self, const std::optional<std::string>& path, double forward, double backward) {
            const auto timeline = Timeline(self, forward, backward);
            if (path) {
              const auto file = nb::module_::import_("builtins").attr("open")(*path, "w");
              file.attr("write")(draw(self, timeline));
              file.attr("close")();
            }
            return draw_text(self, timeline);
          },
          nb::arg("path") = nb::none(), nb::arg("forward") = 1.0, nb::arg("backward") = 2.0,
          "The chart as text: a line a stage, time to the right, F a forward, B a backward, or the part of it for the "
          "input where W is the weights' part; small letters for a stage's later chunks. path: writes an SVG picture "
          "there, too.");
  module.def(
      "pipeline_schedule", &tutti::parallel::get_schedule, nb::arg("name"), nb::arg("stages"), nb::arg("microbatches"),
      nb::arg("chunks") = nb::none(),
      "A schedule by its name: GPipe, 1F1B, Interleaved1F1B (2 chunks of the model a stage, or `chunks`), ZB-H1 or "
      "ZB-V (2 chunks, placed as a V). Raises InvalidArgumentError for another name or number of chunks.");
  module.def("forward_only", &tutti::parallel::forward_only, nb::arg("schedule"));
}

// Runs a call of Python. What it raises becomes an Error of a line, since the other stages are told it.
template <typename Call>
auto Told(const Call& call) {
  const nb::gil_scoped_acquire python;
  try {
    return call();
  } catch (const nb::python_error& error) {
    const nb::object text = nb::str("{}: {}").attr("format")(error.type().attr("__name__"), error.value());
    throw tutti::parallel::Error(tuttiInvalidArgument, nb::cast<std::string>(text));
  }
}

// A chunk whose passes Python does: an object of tutti.parallel's class Chunk.
class Step final : public SplitBackwardStep {
 public:
  Step(nb::object chunk, PythonCompute& compute) : chunk_(std::move(chunk)), compute_(compute) {}

  void forward(int microbatch, const Tensor* input, const Tensor* output) override {
    Call("forward", microbatch, input, output);
  }
  void backward(int microbatch, const Tensor* input, const Tensor* grad_output, const Tensor* grad_input) override {
    Call("backward", microbatch, input, grad_output, grad_input);
  }
  void backward_input(int microbatch, const Tensor* input, const Tensor* grad_output,
                      const Tensor* grad_input) override {
    Call("backward_input", microbatch, input, grad_output, grad_input);
  }
  void backward_weight(int microbatch, const Tensor* input, const Tensor* grad_output) override {
    Call("backward_weight", microbatch, input, grad_output);
  }

  // What it makes of memory like `takes`; a text says why it makes nothing of it.
  // REQUIRES: this thread has the GIL.
  std::optional<TensorSpec> Gives(const std::optional<TensorSpec>& takes) {
    const tutti::SuspendedCallSite library;
    const auto input =
        takes ? ArrayOf(Buffer(compute_.compute(), takes->shape, takes->dtype), compute_.place(), nb::none())
              : nb::object(nb::none());
    const nb::object result = chunk_.attr("gives")(input);
    if (result.is_none()) return std::nullopt;
    if (nb::isinstance<nb::str>(result)) {
      throw tutti::parallel::Error(tuttiInvalidArgument, nb::cast<std::string>(result));
    }
    const Lent output(result, "a chunk's output");
    return TensorSpec{(*output).shape, (*output).dtype};
  }

 private:
  // A module may keep what it takes, also when the pipeline frees memory for other shapes.
  nb::object Argument(const Tensor* tensor) const {
    return tensor == nullptr ? nb::object(nb::none()) : compute_.ArrayIn(*tensor);
  }
  template <typename... Tensors>
  void Call(const char* pass, int microbatch, const Tensors*... tensors) {
    const tutti::SuspendedCallSite library;
    const nb::gil_scoped_acquire python;
    chunk_.attr(pass)(microbatch, Argument(tensors)...);
  }

  nb::object chunk_;
  PythonCompute& compute_;
};

class Pipeline {
 public:
  Pipeline(ProcessGroup& group, PythonCompute& compute, const std::vector<nb::object>& chunks)
      : group_(group), compute_(compute), pipeline_(group, Gives(), Allocate()) {
    for (const auto& chunk : chunks) pointers_.push_back(&steps_.emplace_back(chunk, compute));
  }
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  void AskAgain() { pipeline_.ask_again(); }
  void Run(const PipelineSchedule& schedule) {
    Freely(group_, [&] { pipeline_.run(schedule, pointers_, compute_.compute().stream()); });
  }

 private:
  tutti::parallel::PipelineGives Gives() {
    return [this](int chunk, const std::optional<TensorSpec>& takes) {
      return Told([&] { return steps_[static_cast<std::size_t>(chunk)].Gives(takes); });
    };
  }
  tutti::parallel::Allocate Allocate() {
    return [&compute = compute_.compute()](std::size_t bytes) {
      return std::shared_ptr<void>(Told([&] { return compute.allocate(bytes); }),
                                   [&compute](void* memory) { compute.release(memory); });
    };
  }

  ProcessGroup& group_;
  PythonCompute& compute_;
  std::deque<Step> steps_;
  std::vector<tutti::parallel::PipelineStep*> pointers_;
  PipelineParallel pipeline_;
};

}  // namespace

void BindPipeline(nb::module_& module) {
  BindSchedule(module);
  nb::class_<Pipeline>(module, "Pipeline")
      .def(nb::init<ProcessGroup&, PythonCompute&, const std::vector<nb::object>&>(), nb::keep_alive<1, 2>(),
           nb::keep_alive<1, 3>(), nb::arg("group"), nb::arg("compute"), nb::arg("chunks"))
      .def("ask_again", &Pipeline::AskAgain)
      .def("run", &Pipeline::Run, nb::arg("schedule"));
}

}  // namespace tutti_python
