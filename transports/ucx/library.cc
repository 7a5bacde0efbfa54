#include "transports/ucx/library.h"

#include <fmt/format.h>

#include <cstdlib>

#include "base/shared_library.h"
#include "base/threads/made_once.h"

namespace tutti::ucx {
namespace {

constexpr const char* kLibrary = "libucp.so.0";
constexpr const char* kServices = "libucs.so.0";  // which kLibrary is built on
// A user who sets it wants to read what UCX prints.
constexpr const char* kLogLevel = "UCX_LOG_LEVEL";

struct Loaded {
  UcxLibrary library{};
  bool usable = false;
  std::string why;

  Loaded() {
    // A program that uses UCX itself has set it up already.
    const bool others = SharedLibrary::IsLoaded(kServices);
    SharedLibrary handle(kLibrary);
    if (!handle) {
      why = fmt::format("cannot load UCX ({}; Debian: libucx0, Fedora: ucx)", handle.why());
      return;
    }
    Bind(handle);
    if (!handle.missing().empty()) {
      why = fmt::format("UCX is too old: {} has no {} (UCX 1.11 or later is needed)", kLibrary, handle.missing());
      return;
    }
    if (!others) Quieten(handle);
    usable = true;
  }

  // Loading has installed signal handlers, and UCX would print every error.
  static void Quieten(SharedLibrary& handle) {
    void (*disable_signals)() = nullptr;
    ucs_status_t (*set_option)(const char* name, const char* value) = nullptr;
    handle.Find(disable_signals, "ucs_debug_disable_signals");
    handle.Find(set_option, "ucs_global_opts_set_value");
    if (disable_signals != nullptr) disable_signals();
    if (set_option != nullptr && std::getenv(kLogLevel) == nullptr) set_option("LOG_LEVEL", "fatal");
  }

  void Bind(SharedLibrary& handle) {
    const auto bind = [&](auto*& function, const char* name) { handle.Find(function, name); };
    bind(library.get_version_string, "ucp_get_version_string");
    bind(library.config_read, "ucp_config_read");
    bind(library.config_modify, "ucp_config_modify");
    bind(library.config_release, "ucp_config_release");
    bind(library.init_version, "ucp_init_version");
    bind(library.cleanup, "ucp_cleanup");
    bind(library.worker_create, "ucp_worker_create");
    bind(library.worker_destroy, "ucp_worker_destroy");
    bind(library.worker_get_address, "ucp_worker_get_address");
    bind(library.worker_release_address, "ucp_worker_release_address");
    bind(library.worker_get_efd, "ucp_worker_get_efd");
    bind(library.worker_arm, "ucp_worker_arm");
    bind(library.worker_progress, "ucp_worker_progress");
    bind(library.worker_set_am_recv_handler, "ucp_worker_set_am_recv_handler");
    bind(library.ep_create, "ucp_ep_create");
    bind(library.ep_close_nbx, "ucp_ep_close_nbx");
    bind(library.ep_flush_nbx, "ucp_ep_flush_nbx");
    bind(library.am_send_nbx, "ucp_am_send_nbx");
    bind(library.am_recv_data_nbx, "ucp_am_recv_data_nbx");
    bind(library.request_check_status, "ucp_request_check_status");
    bind(library.request_free, "ucp_request_free");
    bind(library.status_string, "ucs_status_string");
  }
};

const Loaded& TheLibrary() {
  static constinit MadeOnce<const Loaded> loaded;
  return loaded.Get([] { return std::make_unique<const Loaded>(); });
}

}  // namespace

const UcxLibrary* LoadedUcx(std::string* why) {
  const Loaded& loaded = TheLibrary();
  if (why != nullptr) *why = loaded.why;
  return loaded.usable ? &loaded.library : nullptr;
}

}  // namespace tutti::ucx
