// Python's classes Stream, Work and Group.
#include <nanobind/stl/optional.h>

#include "bindings.h"

namespace nb = nanobind;

namespace tutti_python {

void BindStreams(nb::module_& module) {
  nb::class_<Work>(module, "Work", nb::is_weak_referenceable(), nb::is_generic(),
                   "A call on a stream. `await work` gives its result, as work.wait() does.")
      .def("done", &Work::done, "Whether the call has ended, well or badly.")
      .def("wait", &Work::Wait, nb::arg("timeout") = nb::none(),
           "Waits until the call has ended, and returns what it would have returned without a stream.\n\n"
           "Raises what the call failed with, or TimeoutError after `timeout` seconds; the call then goes on.")
      .def(
          "add_done_callback",
          [](nb::handle self, nb::object callback) {
            nb::cast<const Work&>(self).AddCallback(std::move(callback), nb::borrow<nb::object>(self));
          },
          nb::arg("callback"), "Calls callback(work) once the call has ended: now, or in the stream's thread.")
      .def("__await__", [](nb::handle self) { return nb::module_::import_("tutti._awaiting").attr("steps")(self); });

  nb::class_<Stream>(module, "Stream", nb::is_weak_referenceable(),
                     "A thread that runs calls one after the other, in the order given.")
      .def(nb::init<>())
      .def("synchronize", &Stream::Synchronize, "Waits for the calls that were given before; raises nothing of theirs.")
      .def("close", &Stream::Close, "Waits for all calls, then ends the thread.")
      .def_prop_ro("closed", &Stream::closed, "Whether it takes no more calls.")
      .def("_tail", &Stream::tail);

  nb::class_<Stream::Tail>(module, "Tail")
      .def_prop_ro("ended", &Stream::Tail::ended)
      .def("detach", &Stream::Tail::Detach);

  nb::class_<Group>(module, "Group")
      .def(nb::init<>())
      .def("begin", &Group::Begin)
      .def("end", &Group::End, nb::arg("stream").none())
      .def("drop", &Group::Drop);
}

}  // namespace tutti_python
