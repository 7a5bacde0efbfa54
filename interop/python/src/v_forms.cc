// Collectives in which each rank has a count of its own.
#include <algorithm>
#include <numeric>

#include "bindings.h"
#include "sides.h"

namespace nb = nanobind;

namespace tutti_python {
namespace {

using Counts = std::vector<std::size_t>;

// A sequence with a number for each rank, in elements.
Counts CountsOf(nb::handle sequence, const char* what, int ranks) {
  const nb::object items = nb::steal<nb::object>(PySequence_Fast(sequence.ptr(), ""));
  if (!items.is_valid()) {
    PyErr_Clear();
    FailType(what, sequence, ": pass a number for each rank, in a list");
  }
  const auto given = PySequence_Size(items.ptr());
  if (given != ranks) {
    Fail(tuttiInvalidArgument, std::string(what) + " has " + std::to_string(given) + " numbers, but there are " +
                                   std::to_string(ranks) + " ranks");
  }
  Counts counts;
  for (Py_ssize_t i = 0; i < given; ++i) {
    const nb::object item = nb::steal<nb::object>(PySequence_GetItem(items.ptr(), i));
    const auto count = PyNumber_AsSsize_t(item.ptr(), PyExc_OverflowError);
    if (count == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
    if (count < 0)
      Fail(tuttiInvalidArgument,
           std::string(what) + "[" + std::to_string(i) + "] is " + std::to_string(count) + ", below zero");
    counts.push_back(static_cast<std::size_t>(count));
  }
  return counts;
}

// Where each rank's block begins: as given, or one after the other.
Counts PlacesOf(nb::handle given, const char* what, const Counts& counts) {
  if (!given.is_none()) return CountsOf(given, what, static_cast<int>(counts.size()));
  Counts places(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), places.begin(), std::size_t{0});
  return places;
}

// The least number of elements that holds all blocks.
std::size_t EndOf(const Counts& counts, const Counts& places) {
  std::size_t end = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] > 0) end = std::max(end, places[i] + counts[i]);
  }
  return end;
}

void RequireRoom(const char* what, const Side& side, std::size_t end) {
  if (side.count >= end) return;
  Fail(tuttiInvalidArgument, std::string(what) + " has " + std::to_string(side.count) +
                                 " elements, but its blocks end at element " + std::to_string(end));
}

Counts Times(Counts counts, std::size_t factor) {
  for (auto& count : counts) count *= factor;
  return counts;
}

auto LineOf(std::size_t count) {
  return [count](const Array&) { return Shape{static_cast<Py_ssize_t>(count)}; };
}

nb::object AllGatherV(Communicator& self, nb::handle send, nb::handle counts_given, nb::handle recv,
                      nb::handle places_given, nb::handle stream) {
  auto& handle = self.handle();
  handle.RequireOpen();
  const auto counts = CountsOf(counts_given, "counts", handle.size());
  const auto places = PlacesOf(places_given, "displacements", counts);
  return Perform(self, stream, [&](Arrays& arrays) {
    const auto end = EndOf(counts, places);
    auto sides = TakeBoth(arrays, send, recv, LineOf(end));
    const auto own = static_cast<std::size_t>(handle.rank());
    if (send.is(recv)) sides.in = {static_cast<char*>(sides.out.data) + places[own] * sides.element.bytes, counts[own]};
    RequireCount("send", sides.in, counts[own], "this rank's count");
    RequireRoom("recv", sides.out, end);
    const auto carrier = MovedAs(sides.element);
    return Prepared{std::move(sides.result),
                    [in = sides.in.data, out = sides.out.data, count = sides.in.count * carrier.per_element,
                     counts = Times(counts, carrier.per_element), places = Times(places, carrier.per_element),
                     type = carrier.type, comm = handle.get()](tuttiStream_t cuda) {
                      return tuttiAllGatherV(in, count, out, counts.data(), places.data(), type, comm, cuda);
                    }};
  });
}

nb::object ReduceScatterV(Communicator& self, nb::handle send, nb::handle counts_given, nb::handle recv, nb::handle op,
                          nb::handle stream) {
  auto& handle = self.handle();
  handle.RequireOpen();
  const auto counts = CountsOf(counts_given, "counts", handle.size());
  const auto reduction = OpOf(op);
  return Perform(self, stream, [&](Arrays& arrays) {
    const auto own = counts[static_cast<std::size_t>(handle.rank())];
    auto sides = TakeBoth(arrays, send, recv, LineOf(own));
    RequireCount("send", sides.in, std::accumulate(counts.begin(), counts.end(), std::size_t{0}), "the sum of counts");
    RequireCount("recv", sides.out, own, "this rank's count");
    const auto reducer = ReducedAs(sides.element, reduction);
    return Prepared{std::move(sides.result),
                    [in = sides.in.data, out = sides.out.data, counts = Times(counts, reducer.per_element),
                     type = reducer.type, op = reducer.op, comm = handle.get()](tuttiStream_t cuda) {
                      return tuttiReduceScatterV(in, out, counts.data(), type, op, comm, cuda);
                    }};
  });
}

nb::object AllToAllV(Communicator& self, nb::handle send, nb::handle send_counts_given, nb::handle recv_counts_given,
                     nb::handle recv, nb::handle send_places_given, nb::handle recv_places_given, nb::handle stream) {
  auto& handle = self.handle();
  handle.RequireOpen();
  const auto send_counts = CountsOf(send_counts_given, "send_counts", handle.size());
  const auto recv_counts = CountsOf(recv_counts_given, "recv_counts", handle.size());
  const auto send_places = PlacesOf(send_places_given, "send_displacements", send_counts);
  const auto recv_places = PlacesOf(recv_places_given, "recv_displacements", recv_counts);
  return Perform(self, stream, [&](Arrays& arrays) {
    const auto end = EndOf(recv_counts, recv_places);
    auto sides = TakeBoth(arrays, send, recv, LineOf(end));
    RequireRoom("send", sides.in, EndOf(send_counts, send_places));
    RequireRoom("recv", sides.out, end);
    const auto carrier = MovedAs(sides.element);
    const auto factor = carrier.per_element;
    return Prepared{
        std::move(sides.result),
        [in = sides.in.data, out = sides.out.data, send_counts = Times(send_counts, factor),
         send_places = Times(send_places, factor), recv_counts = Times(recv_counts, factor),
         recv_places = Times(recv_places, factor), type = carrier.type, comm = handle.get()](tuttiStream_t cuda) {
          return tuttiAlltoAllV(in, send_counts.data(), send_places.data(), out, recv_counts.data(), recv_places.data(),
                                type, comm, cuda);
        }};
  });
}

}  // namespace

void BindVForms(CommunicatorClass& communicator) {
  communicator
      .def(
          "all_gather_v", &AllGatherV, nb::arg("send").none(), nb::arg("counts").none(), nb::arg("recv") = nb::none(),
          nb::arg("displacements") = nb::none(), nb::kw_only(), nb::arg("stream") = nb::none(),
          "Every rank gets the send of all ranks in recv: counts[r] elements of rank r at element displacements[r].\n\n"
          "counts and displacements are equal on all ranks; displacements None: one block after the other. recv None: "
          "a\n"
          "new array of one dimension; send itself: in place, this rank's block is in its place there.")
      .def("reduce_scatter_v", &ReduceScatterV, nb::arg("send").none(), nb::arg("counts").none(),
           nb::arg("recv") = nb::none(), nb::arg("op").none() = "sum", nb::kw_only(), nb::arg("stream") = nb::none(),
           "Reduces send, of sum(counts) elements, over all ranks; rank r gets its block of counts[r] elements in "
           "recv.\n\n"
           "counts is equal on all ranks. recv None: a new array of one dimension.")
      .def("all_to_all_v", &AllToAllV, nb::arg("send").none(), nb::arg("send_counts").none(),
           nb::arg("recv_counts").none(), nb::arg("recv") = nb::none(), nb::arg("send_displacements") = nb::none(),
           nb::arg("recv_displacements") = nb::none(), nb::kw_only(), nb::arg("stream") = nb::none(),
           "Sends send_counts[r] elements to rank r and gets recv_counts[r] from it. Not in place.\n\n"
           "send_counts[j] of rank i equals recv_counts[i] of rank j. Displacements count elements from the array's\n"
           "start; None: one block after the other. recv None: a new array of one dimension.");
}

}  // namespace tutti_python
