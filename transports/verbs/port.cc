#include "transports/verbs/port.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <net/if.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "transports/shm/segment.h"

namespace tutti::verbs {
namespace {

constexpr std::size_t kMostGids = 1024;
// As much as a pair of ranks registers when it moves long messages: if that works, the system's limits have been set up
// for RDMA.
constexpr std::size_t kProbeBytes = std::size_t{8} << 20;
constexpr unsigned kFirstCompletions = 1024;  // enough for some peers
constexpr unsigned kAcknowledgeEvery = 64;

const VerbsLibrary& Verbs() { return *LoadedVerbs(); }

// Throws tuttiSystemError.
[[noreturn]] void Refuse(const std::string& who, const std::string& what, int error) {
  std::string remedy;
  rlimit limit{};
  // Some drivers say "out of memory" where they mean this limit, some say something else.
  if (getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    remedy = fmt::format(
        "; memory that a device accesses is locked, and this process may lock only {} KiB (RLIMIT_MEMLOCK): raise that "
        "with "
        "`ulimit -l unlimited`, by \"* - memlock unlimited\" in /etc/security/limits.conf, by LimitMEMLOCK=infinity in "
        "the systemd unit that starts it, or by the container's --ulimit memlock=-1",
        limit.rlim_cur / 1024);
  }
  Throw(tuttiSystemError, "{}: {} failed: {}{}", who, what, ErrnoText(error), remedy);
}

void DoNotBlock(int fd) { fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK); }

// Gbit/s: lanes times a lane's, by the codes of the InfiniBand specification.
double SpeedOf(const ibv_port_attr& attributes) {
  struct Code {
    int code;
    double value;
  };
  constexpr std::array<Code, 5> kWidths = {{{1, 1}, {2, 4}, {4, 8}, {8, 12}, {16, 2}}};
  constexpr std::array<Code, 8> kSpeeds = {
      {{1, 2.5}, {2, 5}, {4, 10}, {8, 10}, {16, 14}, {32, 25}, {64, 50}, {128, 100}}};
  const auto look_up = [](const auto& table, int code) {
    const auto found = std::ranges::find(table, code, &Code::code);
    return found == table.end() ? 1 : found->value;
  };
  return look_up(kWidths, attributes.active_width) * look_up(kSpeeds, attributes.active_speed);
}

std::vector<GidFacts> GidsOf(ibv_context* device, int port) {
  std::vector<ibv_gid_entry> entries(kMostGids);
  const auto count = Verbs().query_gid_table(device, entries.data(), entries.size(), 0, sizeof entries[0]);
  std::vector<GidFacts> gids;
  for (ssize_t i = 0; i < count; ++i) {
    const auto& entry = entries[static_cast<std::size_t>(i)];
    if (entry.port_num != static_cast<std::uint32_t>(port)) continue;
    auto& facts = gids.emplace_back();
    facts.index = static_cast<int>(entry.gid_index);
    facts.kind = entry.gid_type == IBV_GID_TYPE_IB        ? GidKind::infiniband
                 : entry.gid_type == IBV_GID_TYPE_ROCE_V1 ? GidKind::roce_v1
                                                          : GidKind::roce_v2;
    std::memcpy(facts.gid.data(), entry.gid.raw, facts.gid.size());
    std::array<char, IF_NAMESIZE> name;
    facts.reachable = entry.ndev_ifindex == 0 || if_indextoname(entry.ndev_ifindex, name.data()) != nullptr;
  }
  return gids;
}

// A port that could be used.
struct Candidate {
  std::shared_ptr<ibv_context> device;
  ibv_port_attr attributes;
};

struct Survey {
  std::vector<PortFacts> facts;
  std::vector<Candidate> candidates;
  std::string closed;  // a device that cannot be opened, and why
};

void SurveyDevice(ibv_device* device, Survey& survey) {
  // InfiniBand's transport, also on Ethernet: others have no reliable queue pairs whose writes carry immediate data.
  if (device->node_type != IBV_NODE_CA || device->transport_type != IBV_TRANSPORT_IB) return;
  const std::string name = Verbs().get_device_name(device);
  const std::shared_ptr<ibv_context> opened = VerbsContext(Verbs().open_device(device));
  if (opened == nullptr) {
    survey.closed = fmt::format("{} cannot be opened: {}", name, ErrnoText(errno));
    return;
  }
  ibv_device_attr limits{};
  Verbs().query_device(opened.get(), &limits);
  for (int port = 1; port <= limits.phys_port_cnt; ++port) {
    ibv_port_attr attributes{};
    if (Verbs().QueryPort(opened.get(), static_cast<std::uint8_t>(port), &attributes) != 0) continue;
    survey.facts.push_back({.device = name,
                            .port = port,
                            .ethernet = attributes.link_layer == IBV_LINK_LAYER_ETHERNET,
                            .active = attributes.state == IBV_PORT_ACTIVE,
                            .state = Verbs().port_state_str(attributes.state),
                            .speed = SpeedOf(attributes),
                            .gids = GidsOf(opened.get(), port)});
    survey.candidates.push_back({opened, attributes});
  }
}

bool HasEntries(const char* folder) {
  std::error_code error;
  return std::filesystem::directory_iterator(folder, error) != std::filesystem::directory_iterator() && !error;
}

// Throws tuttiSystemError if there is no device.
Survey SurveyDevices() {
  Survey survey;
  int count = 0;
  const auto release = [](ibv_device** list) { Verbs().free_device_list(list); };
  const std::unique_ptr<ibv_device*, decltype(release)> list(Verbs().get_device_list(&count), release);
  for (int i = 0; list != nullptr && i < count; ++i) SurveyDevice(list.get()[i], survey);
  if (!survey.facts.empty()) return survey;
  if (!survey.closed.empty()) {
    Throw(tuttiSystemError,
          "{}; can this process access the files in /dev/infiniband (containers: --device=/dev/infiniband)?",
          survey.closed);
  }
  if (HasEntries("/sys/class/infiniband")) {
    Throw(tuttiSystemError,
          "the kernel has RDMA devices (/sys/class/infiniband), but none that this process can use: is the module "
          "ib_uverbs loaded, is /dev/infiniband accessible to this process, and is the device's library installed "
          "(ibverbs-providers)?");
  }
  Throw(tuttiSystemError,
        "there is no RDMA device: is its module loaded (mlx5_ib, irdma, bnxt_re, ...)? `rdma link` lists the devices");
}

}  // namespace

VerbsPort::VerbsPort(std::shared_ptr<ibv_context> device, PortFacts port, std::size_t gid,
                     const ibv_port_attr& attributes)
    : device_(std::move(device)), port_(std::move(port)), gid_(gid), lid_(attributes.lid), mtu_(attributes.active_mtu) {
  Verbs().query_device(device_.get(), &limits_);
  domain_.reset(Verbs().alloc_pd(device_.get()));
  if (domain_ == nullptr) Refuse(name(), "making a protection domain", errno);
  channel_.reset(Verbs().create_comp_channel(device_.get()));
  if (channel_ == nullptr) Refuse(name(), "making a completion channel", errno);
  queue_.reset(Verbs().create_cq(device_.get(), kFirstCompletions, nullptr, channel_.get(), 0));
  if (queue_ == nullptr) Refuse(name(), "making a completion queue", errno);
  DoNotBlock(channel_->fd);
  DoNotBlock(device_->async_fd);
}

VerbsPort::~VerbsPort() {
  if (heard_ > 0) Verbs().ack_cq_events(queue_.get(), heard_);  // or the queue's end would wait for it
}

MemoryRegion VerbsPort::Register(const MemoryRange& range, bool remote) const {
  const int access = remote ? IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE : 0;
  const auto& [begin, bytes, file, offset] = range;
  if (file < 0) {
    MemoryRegion region(Verbs().reg_mr(domain_.get(), const_cast<std::byte*>(begin), bytes, access));
    if (region == nullptr) Refuse(name(), fmt::format("registering {} bytes of memory", bytes), errno);
    return region;
  }
  if (Verbs().reg_dmabuf_mr == nullptr) {
    Throw(tuttiSystemError, "the RDMA library cannot register a GPU's memory (rdma-core 34 or later can)");
  }
  // Peers address it as the GPU does.
  MemoryRegion region(
      Verbs().reg_dmabuf_mr(domain_.get(), offset, bytes, reinterpret_cast<std::uint64_t>(begin), file, access));
  if (region == nullptr) {
    Throw(tuttiSystemError,
          "{}: registering {} bytes of a GPU's memory by a dma-buf failed: {} (the NIC's driver and Linux must know "
          "dma-buf, as mlx5 does from Linux 5.12 on)",
          name(), bytes, ErrnoText(errno));
  }
  return region;
}

void VerbsPort::AddCompletions(unsigned count) {
  promised_ += count;
  const auto has = static_cast<unsigned>(queue_->cqe);
  if (promised_ <= has) return;
  const unsigned wants = std::min(std::max(promised_, 2 * has), static_cast<unsigned>(limits_.max_cqe));
  const int error = wants < promised_ ? EINVAL : Verbs().resize_cq(queue_.get(), static_cast<int>(wants));
  if (error != 0) Refuse(name(), fmt::format("making a completion queue of {} entries", promised_), error);
}

std::span<ibv_wc> VerbsPort::Poll(std::span<ibv_wc> out) {
  const int count = ibv_poll_cq(queue_.get(), static_cast<int>(out.size()), out.data());
  if (count < 0) polls_ = false;
  return out.first(static_cast<std::size_t>(std::max(count, 0)));
}

void VerbsPort::Arm() {
  ibv_cq* queue = nullptr;
  void* user = nullptr;
  while (Verbs().get_cq_event(channel_.get(), &queue, &user) == 0) {
    armed_ = false;
    if (++heard_ < kAcknowledgeEvery) continue;
    Verbs().ack_cq_events(queue_.get(), heard_);
    heard_ = 0;
  }
  if (armed_) return;
  armed_ = ibv_req_notify_cq(queue_.get(), 0) == 0;
}

std::optional<VerbsEvent> VerbsPort::NextEvent() {
  ibv_async_event event{};
  if (Verbs().get_async_event(device_.get(), &event) != 0) return std::nullopt;
  VerbsEvent told;
  told.text = fmt::format("{}: {}", name(), Verbs().event_type_str(event.event_type));
  switch (event.event_type) {
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
      told.pair = event.element.qp;
      told.fatal = true;
      break;
    case IBV_EVENT_CQ_ERR:
    case IBV_EVENT_DEVICE_FATAL: told.fatal = true; break;
    // A port that is down may come back before the retries are used up; all other events are good news.
    default: break;
  }
  Verbs().ack_async_event(&event);
  return told;
}

std::vector<std::unique_ptr<VerbsPort>> OpenRails(const Settings& settings, const std::vector<std::string>& nics) {
  std::string why;
  if (LoadedVerbs(&why) == nullptr) Throw(tuttiSystemError, "{}", why);
  auto survey = SurveyDevices();
  std::vector<std::unique_ptr<VerbsPort>> rails;
  for (const std::size_t i : ChoosePorts(survey.facts, settings.ib_hca, nics)) {
    const auto& facts = survey.facts[i];
    const std::size_t gid = ChooseGid(facts, settings.ib_gid_index);
    auto& candidate = survey.candidates[i];
    rails.push_back(std::make_unique<VerbsPort>(candidate.device, facts, gid, candidate.attributes));
  }
  const auto probe = shm::Segment::Reserve(kProbeBytes);
  rails.front()->Register({probe.data(), probe.bytes()}, true);
  return rails;
}

}  // namespace tutti::verbs
