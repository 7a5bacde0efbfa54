#include "communicator.h"

#include <array>
#include <cstring>

namespace nb = nanobind;

namespace tutti_python {
namespace {

tuttiConfig_t ToC(const Config& config) {
  tuttiConfig_t c = TUTTI_CONFIG_INITIALIZER;
  c.blocking = 1;
  if (config.name) c.name = config.name->c_str();
  if (config.algorithm) c.algorithm = config.algorithm->c_str();
  if (config.channels) c.channels = *config.channels;
  if (config.threads) c.threads = *config.threads;
  if (config.deterministic) c.deterministic = *config.deterministic ? 1 : 0;
  if (config.device) c.device = *config.device;
  if (config.init_timeout_ms) c.initTimeoutMs = *config.init_timeout_ms;
  if (config.timeout_ms) c.operationTimeoutMs = *config.timeout_ms;
  return c;
}

tuttiUniqueId ToC(const nb::bytes& id) {
  tuttiUniqueId unique;
  if (id.size() != sizeof(unique.internal)) {
    Fail(tuttiInvalidArgument, "id has " + std::to_string(id.size()) + " bytes, but an id of tutti.unique_id() has " +
                                   std::to_string(sizeof(unique.internal)));
  }
  std::memcpy(unique.internal, id.c_str(), sizeof(unique.internal));
  return unique;
}

// By tuttiTransport_t.
constexpr std::array<const char*, tuttiNumTransports> kTransports = {"self", "shm",   "direct", "cma",   "p2p",
                                                                     "tcp",  "verbs", "ucx",    "plugin"};

// Those that are not 0, by the algorithm's name.
nb::dict ByAlgorithm(const std::uint64_t (&counts)[TUTTI_COUNTED_ALGORITHMS]) {
  nb::dict named;
  for (int algorithm = 0; algorithm < tuttiNumAlgorithms; ++algorithm) {
    if (counts[algorithm] == 0) continue;
    named[tuttiAlgorithmName(static_cast<tuttiAlgorithm_t>(algorithm))] = counts[algorithm];
  }
  return named;
}

nb::dict ByTransport(const std::uint64_t (&bytes)[TUTTI_COUNTED_TRANSPORTS][TUTTI_COUNTED_ALGORITHMS]) {
  nb::dict named;
  for (std::size_t transport = 0; transport < kTransports.size(); ++transport) {
    auto counts = ByAlgorithm(bytes[transport]);
    if (counts.size() != 0) named[kTransports[transport]] = std::move(counts);
  }
  return named;
}

// What waits for other ranks to make a communicator cannot be collected.
void RequireNoGroup() {
  if (Group::Open() != nullptr) {
    Fail(tuttiInvalidUsage, "communicators are made outside groups: a group collects collectives, sends and receives");
  }
}

}  // namespace

Communicator::~Communicator() {
  // The last owner destroys the communicator, which may wait for this rank's calls in other threads.
  const nb::gil_scoped_release released;
  handle_.reset();
}

void Communicator::JoinEnvironment(const Config& config) {
  RequireNoGroup();
  auto c = ToC(config);
  handle_->Run([&] { return tuttiCommInitEnv(handle_->place(), &c); });
  handle_->Opened();
}

void Communicator::Join(int size, nb::bytes id, int rank, const Config& config) {
  RequireNoGroup();
  const auto unique = ToC(id);
  auto c = ToC(config);
  handle_->Run([&] { return tuttiCommInitRankConfig(handle_->place(), size, unique, rank, &c); });
  handle_->Opened();
}

bool Communicator::SplitFrom(Communicator& parent, int color, int key, const Config& config) {
  RequireNoGroup();
  parent.handle().RequireOpen();
  auto c = ToC(config);
  c.blocking = TUTTI_CONFIG_UNDEF_INT;
  handle_->RunFor(parent.handle(),
                  [&] { return tuttiCommSplit(parent.handle().get(), color, key, handle_->place(), &c); });
  if (handle_->get() == nullptr) return false;
  handle_->Opened();
  return true;
}

void Communicator::ShrinkFrom(Communicator& parent, const std::vector<int>& exclude, bool abort, const Config& config) {
  RequireNoGroup();
  parent.handle().RequireOpen();
  auto c = ToC(config);
  c.blocking = TUTTI_CONFIG_UNDEF_INT;
  handle_->RunFor(parent.handle(), [&] {
    return tuttiCommShrink(parent.handle().get(), exclude.data(), static_cast<int>(exclude.size()), handle_->place(),
                           &c, abort ? TUTTI_SHRINK_ABORT : TUTTI_SHRINK_DEFAULT);
  });
  handle_->Opened();
}

void Communicator::GrowFrom(Communicator& parent, int size, const std::optional<nb::bytes>& id, const Config& config) {
  RequireNoGroup();
  parent.handle().RequireOpen();
  tuttiUniqueId unique{};
  if (id) unique = ToC(*id);
  auto c = ToC(config);
  c.blocking = TUTTI_CONFIG_UNDEF_INT;
  handle_->RunFor(parent.handle(), [&, given = id.has_value()] {
    return tuttiCommGrow(parent.handle().get(), size, given ? &unique : nullptr, parent.handle().rank(),
                         handle_->place(), &c);
  });
  handle_->Opened();
}

std::vector<int> Communicator::Hosts() const {
  handle_->RequireOpen();
  std::vector<int> hosts(static_cast<std::size_t>(handle_->size()));
  handle_->Run([&] { return tuttiCommHosts(handle_->get(), hosts.data()); });
  return hosts;
}

int Communicator::Device() const {
  handle_->RequireOpen();
  int device = TUTTI_DEVICE_NONE;
  handle_->Run([&] { return tuttiCommCuDevice(handle_->get(), &device); });
  return device;
}

std::string Communicator::DescribeLastOperation() const {
  handle_->RequireOpen();
  constexpr std::size_t kLongestLine = 1024;
  std::string line(kLongestLine, '\0');
  handle_->Run([&] { return tuttiCommDescribeLastOperation(handle_->get(), line.data(), line.size()); });
  line.resize(std::strlen(line.c_str()));
  return line;
}

nb::dict Communicator::Counters() const {
  handle_->RequireOpen();
  tuttiCounters_t counters{};
  counters.size = sizeof counters;
  handle_->Run([&] { return tuttiCommGetCounters(handle_->get(), &counters); });
  nb::dict waits;
  waits["spins"] = counters.waitSpins;
  waits["yields"] = counters.waitYields;
  waits["sleeps"] = counters.waitSleeps;
  waits["late"] = counters.waitLate;
  waits["lost_slices"] = counters.waitLostSlices;
  nb::dict all;
  all["operations"] = counters.operations;
  all["operations_by_algorithm"] = ByAlgorithm(counters.operationsByAlgorithm);
  all["bytes_sent"] = ByTransport(counters.bytesSent);
  all["bytes_received"] = ByTransport(counters.bytesReceived);
  all["waits"] = std::move(waits);
  return all;
}

void Communicator::Dump(const std::string& path) const {
  handle_->RequireOpen();
  handle_->Run([&] { return tuttiCommDump(handle_->get(), path.c_str()); });
}

Destination DestinationOf(nb::handle stream) {
  if (stream.is_none()) return {};
  Stream* own = nullptr;
  if (nb::try_cast(stream, own) && own != nullptr) return {own, nullptr};
  for (const char* const attribute : {"cuda_stream", "ptr"}) {  // PyTorch's, CuPy's
    const nb::object number = nb::getattr(stream, attribute, nb::none());
    if (PyLong_Check(number.ptr())) return {nullptr, PyLong_AsVoidPtr(number.ptr())};
  }
  if (PyLong_Check(stream.ptr()) && !PyBool_Check(stream.ptr())) {
    void* const cuda = PyLong_AsVoidPtr(stream.ptr());
    if (cuda == nullptr && PyErr_Occurred() != nullptr) throw nb::python_error();
    return {nullptr, cuda};
  }
  FailType("stream", stream,
           ": pass a tutti.Stream, or for arrays on a GPU a CUDA stream (an int, or an object of PyTorch or CuPy)");
}

void RequireSide(const Arrays& arrays, const Destination& destination) {
  if (!arrays.send.held() && !arrays.receive.held()) return;  // a barrier is on either side
  const bool on_device = arrays.send.on_device() || arrays.receive.on_device();
  if (on_device && destination.stream != nullptr) {
    Fail(tuttiInvalidArgument, "the arrays lie on a GPU, whose calls take a CUDA stream, not a tutti.Stream");
  }
  if (!on_device && destination.cuda != nullptr) {
    Fail(tuttiInvalidArgument, "the arrays lie in host memory, whose calls take a tutti.Stream, not a CUDA stream");
  }
}

}  // namespace tutti_python
