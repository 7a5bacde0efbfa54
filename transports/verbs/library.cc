#include "transports/verbs/library.h"

#include <fmt/format.h>

#include <cstring>
#include <mutex>

#include "base/error.h"
#include "base/fork_safe_mutex.h"
#include "base/log.h"
#include "base/shared_library.h"
#include "base/threads/made_once.h"

namespace tutti::verbs {
namespace {

constexpr const char* kLibrary = "libibverbs.so.1";
// The library keeps functions of old interfaces under the same names, told apart by these.
constexpr const char* kBase = "IBVERBS_1.1";
constexpr const char* kGidTable = "IBVERBS_1.11";  // rdma-core 31
constexpr const char* kDmaBuf = "IBVERBS_1.12";    // rdma-core 34

struct Loaded {
  VerbsLibrary library{};
  bool usable = false;
  std::string why;

  Loaded() {
    SharedLibrary handle(kLibrary);
    if (!handle) {
      why = fmt::format("cannot load the RDMA library ({}; it comes with the package libibverbs1 or rdma-core)",
                        handle.why());
      return;
    }
    Bind(handle);
    if (!handle.missing().empty()) {
      why = fmt::format("the RDMA library is too old: {} has no {} (rdma-core 31 or later is needed)", kLibrary,
                        handle.missing());
      return;
    }
    SharedLibrary newer(kLibrary);
    newer.Find(library.reg_dmabuf_mr, "ibv_reg_dmabuf_mr", kDmaBuf);
    // Where the kernel does not separate a child's memory from what devices write to, the library does.
    if (const int error = InitFork(); error != 0) {
      Log(Subject::transport, "verbs: data that arrives while the program forks may be lost (ibv_fork_init: {})",
          ErrnoText(error));
    }
    usable = true;
  }

  // libibverbs accepts a second call, but not from two threads at once, which may each be making one of these.
  int InitFork() const {
    static constinit MadeOnce<ForkSafeMutex> mutex;
    const std::lock_guard lock(mutex.Get());
    return library.fork_init();
  }

  void Bind(SharedLibrary& handle) {
    const auto bind = [&](auto*& function, const char* name, const char* version = kBase) {
      handle.Find(function, name, version);
    };
    bind(library.get_device_list, "ibv_get_device_list");
    bind(library.free_device_list, "ibv_free_device_list");
    bind(library.get_device_name, "ibv_get_device_name");
    bind(library.open_device, "ibv_open_device");
    bind(library.close_device, "ibv_close_device");
    bind(library.query_device, "ibv_query_device");
    bind(library.query_port_short, "ibv_query_port");
    bind(library.query_gid_table, "_ibv_query_gid_table", kGidTable);
    bind(library.get_async_event, "ibv_get_async_event");
    bind(library.ack_async_event, "ibv_ack_async_event");
    bind(library.alloc_pd, "ibv_alloc_pd");
    bind(library.dealloc_pd, "ibv_dealloc_pd");
    bind(library.reg_mr, "ibv_reg_mr");
    bind(library.dereg_mr, "ibv_dereg_mr");
    bind(library.create_comp_channel, "ibv_create_comp_channel", "IBVERBS_1.0");
    bind(library.destroy_comp_channel, "ibv_destroy_comp_channel", "IBVERBS_1.0");
    bind(library.create_cq, "ibv_create_cq");
    bind(library.resize_cq, "ibv_resize_cq");
    bind(library.destroy_cq, "ibv_destroy_cq");
    bind(library.get_cq_event, "ibv_get_cq_event");
    bind(library.ack_cq_events, "ibv_ack_cq_events");
    bind(library.create_qp, "ibv_create_qp");
    bind(library.modify_qp, "ibv_modify_qp");
    bind(library.destroy_qp, "ibv_destroy_qp");
    bind(library.fork_init, "ibv_fork_init");
    bind(library.port_state_str, "ibv_port_state_str");
    bind(library.wc_status_str, "ibv_wc_status_str");
    bind(library.event_type_str, "ibv_event_type_str");
  }
};

const Loaded& TheLibrary() {
  static constinit MadeOnce<const Loaded> loaded;
  return loaded.Get([] { return std::make_unique<const Loaded>(); });
}

}  // namespace

int VerbsLibrary::QueryPort(ibv_context* context, std::uint8_t port, ibv_port_attr* attributes) const {
  *attributes = {};
  if (auto* const extended = verbs_get_ctx_op(context, query_port)) {
    return extended->query_port(context, port, attributes, sizeof *attributes);
  }
  return query_port_short(context, port, reinterpret_cast<_compat_ibv_port_attr*>(attributes));
}

const VerbsLibrary* LoadedVerbs(std::string* why) {
  const Loaded& loaded = TheLibrary();
  if (why != nullptr) *why = loaded.why;
  return loaded.usable ? &loaded.library : nullptr;
}

}  // namespace tutti::verbs
