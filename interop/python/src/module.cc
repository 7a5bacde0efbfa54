// The module tutti._core: communicators, streams and groups. The package tutti adds what Python says better.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "arguments.h"
#include "bindings.h"

namespace nb = nanobind;

namespace tutti_python {
namespace {

nb::bytes UniqueId() {
  tuttiUniqueId id;
  auto result = tuttiSuccess;
  {
    const nb::gil_scoped_release released;
    result = tuttiGetUniqueId(&id);
  }
  Check(result);
  return nb::bytes(id.internal, sizeof(id.internal));
}

nb::tuple Version() {
  int code = 0;
  Check(tuttiGetVersion(&code));
  constexpr int kMajor = 10000, kMinor = 100;
  return nb::make_tuple(code / kMajor, code % kMajor / kMinor, code % kMinor);
}

nb::dict Settings() {
  nb::dict settings;
  const char *name = nullptr, *value = nullptr;
  for (int index = 0; tuttiGetSetting(index, &name, &value) == tuttiSuccess; ++index) settings[name] = value;
  return settings;
}

}  // namespace

void BindLifecycle(nb::module_& module, CommunicatorClass& communicator) {
  nb::class_<Config>(module, "Config")
      .def(
          "__init__",
          [](Config* self, std::optional<std::string> name, std::optional<std::string> algorithm,
             std::optional<int> channels, std::optional<int> threads, std::optional<int> device,
             std::optional<int> init_timeout_ms, std::optional<int> timeout_ms, std::optional<bool> deterministic) {
            new (self) Config{std::move(name), std::move(algorithm), channels,   threads,
                              device,          init_timeout_ms,      timeout_ms, deterministic};
          },
          nb::kw_only(), nb::arg("name") = nb::none(), nb::arg("algorithm") = nb::none(),
          nb::arg("channels") = nb::none(), nb::arg("threads") = nb::none(), nb::arg("device") = nb::none(),
          nb::arg("init_timeout_ms") = nb::none(), nb::arg("timeout_ms") = nb::none(),
          nb::arg("deterministic") = nb::none());

  communicator.def(nb::init<>())
      .def("_join_environment", &Communicator::JoinEnvironment)
      .def("_join", &Communicator::Join)
      .def("_split_from", &Communicator::SplitFrom)
      .def("_shrink_from", &Communicator::ShrinkFrom)
      .def("_grow_from", &Communicator::GrowFrom)
      .def("_interrupt", [](Communicator& self) { self.handle().Interrupt(); })
      .def_prop_ro(
          "rank", [](Communicator& self) { return self.handle().rank(); }, "This rank's number, from 0.")
      .def_prop_ro(
          "size", [](Communicator& self) { return self.handle().size(); }, "The number of ranks.")
      .def_prop_ro(  // for tutti._parallel, a module of its own
          "_address", [](Communicator& self) { return reinterpret_cast<std::uintptr_t>(self.handle().get()); })
      .def_prop_ro(
          "closed", [](Communicator& self) { return !self.handle().open(); }, "Whether it takes no more calls.")
      .def_prop_ro("hosts", &Communicator::Hosts,
                   "For each rank the number of its host; hosts are numbered in the order of their first ranks.")
      .def_prop_ro("device", &Communicator::Device, "This rank's CUDA device; -1: host memory only.")
      .def(
          "close", [](Communicator& self) { self.handle().Close(); },
          "Waits for this rank's calls, also those on streams, then frees the communicator. Twice does no harm.")
      .def(
          "abort", [](Communicator& self) { self.handle().Abort(); },
          "Stops everything on the communicator, here and for ranks that wait for this one, and frees it.")
      .def(
          "revoke", [](Communicator& self) { self.handle().Revoke(); },
          "Stops everything on the communicator, here and for ranks that wait for this one; shrink may follow.")
      .def("describe_last_operation", &Communicator::DescribeLastOperation,
           "How the last call was carried out, as one line for a person.")
      .def("counters", &Communicator::Counters,
           "What this rank has done on the communicator, as a dict.\n\n"
           "operations; operations_by_algorithm: {algorithm: count}; bytes_sent and bytes_received, payload: "
           "{transport: "
           "{algorithm: bytes}}; waits: how often a wait polled again (spins), gave its core away (yields), slept "
           "(sleeps), slept although there was work (late, which should be 0), and lost its core to another thread for "
           "0.5 ms (lost_slices).")
      .def("dump", &Communicator::Dump, nb::arg("path"),
           "Writes this rank's last calls into a file for `tutti diagnose`; %r is the rank, %p the process.");
}

}  // namespace tutti_python

NB_MODULE(_core, module) {
  using namespace tutti_python;
  // A process that ends leaves to the system what calls on streams use then, which nanobind would report.
  nb::set_leak_warnings(false);
  module.def(
      "unique_id", &UniqueId,
      "Makes an id with which ranks join: 128 bytes, which hold the address of this process and the job's secret.");
  module.def("library_version", &Version, "The version of libtutti.so: (major, minor, patch).");
  module.def(
      "settings", &Settings,
      "The TUTTI_* settings of this process: {name: value}, as text. Of TUTTI_SECRET it tells only whether it is set.");
  BindStreams(module);
  CommunicatorClass communicator(module, "Communicator", nb::is_weak_referenceable());
  BindLifecycle(module, communicator);
  BindCollectives(communicator);
  BindRooted(communicator);
  BindVForms(communicator);
  for (const char* const type : {"Communicator", "Stream", "Work"})
    RefuseAsPythonDoes(module.attr(type), communicator.attr("barrier"));
}
