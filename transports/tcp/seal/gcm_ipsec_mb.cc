#include <fmt/format.h>

#include "base/shared_library.h"
#include "base/threads/made_once.h"
#include "transports/tcp/seal/gcm.h"

#if defined(__x86_64__) && __has_include(<intel-ipsec-mb.h>)
#include <intel-ipsec-mb.h>

namespace tutti::tcp {
namespace {

constexpr const char* kLibrary = "libIPSec_MB.so.1";

// The library's functions for this processor. They keep no state, so all threads share them.
class Functions {
 public:
  Functions() {
    SharedLibrary library(kLibrary);
    if (!library) return;
    unsigned (*version)() = nullptr;
    IMB_MGR* (*allocate)(std::uint64_t flags) = nullptr;
    void (*choose)(IMB_MGR * manager, IMB_ARCH * architecture) = nullptr;
    library.Find(version, "imb_get_version");
    library.Find(allocate, "alloc_mb_mgr");
    library.Find(choose, "init_mb_mgr_auto");
    // Newer releases of this name append functions to the manager, so an older one lacks some.
    if (!library.missing().empty() || version() < IMB_VERSION_NUM) return;
    IMB_MGR* const manager = allocate(0);
    if (manager == nullptr) return;
    choose(manager, nullptr);
    // Without these instructions it would only imitate them.
    constexpr auto kNeeded = IMB_FEATURE_AESNI | IMB_FEATURE_PCLMULQDQ;
    if (manager->imb_errno != 0 || (manager->features & kNeeded) != kNeeded) return;
    manager_ = manager;
    const unsigned number = version();
    name_ = fmt::format("libIPSec_MB {}.{}.{}", number >> 16, number >> 8 & 0xff, number & 0xff);
  }

  // Null: the library is not there, or cannot be used.
  const IMB_MGR* manager() const { return manager_; }
  const std::string& name() const { return name_; }

 private:
  const IMB_MGR* manager_ = nullptr;  // until the process is gone
  std::string name_;
};

const Functions& TheFunctions() {
  static constinit MadeOnce<const Functions> functions;
  return functions.Get([] { return std::make_unique<const Functions>(); });
}

class IpsecMb final : public Gcm {
 public:
  IpsecMb(const IMB_MGR& manager, const auth::SecretKey& key) : manager_(manager) {
    IMB_AES256_GCM_PRE(&manager_, key.data(), &key_);
  }
  ~IpsecMb() override { sodium_memzero(&key_, sizeof key_); }
  IpsecMb(const IpsecMb&) = delete;
  IpsecMb& operator=(const IpsecMb&) = delete;

  bool Close(const Nonce& nonce, const Text& text, Tag& tag) override {
    Turn(manager_.gcm256_enc, nonce, text, tag);
    return true;
  }

  bool Open(const Nonce& nonce, const Text& text, std::span<const std::byte, kTagBytes> tag) override {
    Tag expected;
    Turn(manager_.gcm256_dec, nonce, text, expected);
    return sodium_memcmp(expected.data(), tag.data(), kTagBytes) == 0;
  }

 private:
  void Turn(aes_gcm_enc_dec_t turn, const Nonce& nonce, const Text& text, Tag& tag) {
    gcm_context_data context;
    auto* const to = reinterpret_cast<unsigned char*>(tag.data());
    if (!text.turned.empty()) {
      turn(&key_, &context, reinterpret_cast<unsigned char*>(text.to), Raw(text.turned), text.turned.size(),
           nonce.data(), Raw(text.header), text.header.size(), to, kTagBytes);
      return;
    }
    IMB_AES256_GMAC_INIT(&manager_, &key_, &context, nonce.data(), nonce.size());
    for (const auto part : {text.header, text.plain}) {
      if (!part.empty()) IMB_AES256_GMAC_UPDATE(&manager_, &key_, &context, Raw(part), part.size());
    }
    IMB_AES256_GMAC_FINALIZE(&manager_, &key_, &context, to, kTagBytes);
  }

  const IMB_MGR& manager_;
  alignas(64) gcm_key_data key_;  // the library's header says so on some systems only
};

}  // namespace

std::unique_ptr<Gcm> IpsecMbGcm(const auth::SecretKey& key) {
  const auto* const manager = TheFunctions().manager();
  return manager == nullptr ? nullptr : std::make_unique<IpsecMb>(*manager, key);
}

std::string NameOfFastestGcm() { return TheFunctions().manager() == nullptr ? "OpenSSL" : TheFunctions().name(); }

}  // namespace tutti::tcp

#else  // the library is not made for this processor, or its header was missing when this was built

namespace tutti::tcp {

std::unique_ptr<Gcm> IpsecMbGcm(const auth::SecretKey& /*key*/) { return nullptr; }
std::string NameOfFastestGcm() { return "OpenSSL"; }

}  // namespace tutti::tcp

#endif
