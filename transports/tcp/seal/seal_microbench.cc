// Google Benchmark figures of what protecting a body of data costs one thread: AES-256-GCM by each library (gcm.h), and
// libsodium's primitives for the same work.
//
//   openssl/<protection>/bytes:<of the body>, ipsec_mb/...
//   libsodium/<protection>/bytes:<of the body>       Poly1305, and ChaCha20 where the body is hidden
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <sodium.h>

#include <vector>

#include "transports/tcp/seal/gcm.h"
#include "transports/tcp/seal/seal.h"

namespace tutti::tcp {
namespace {

template <std::unique_ptr<Gcm> (*kMake)(const auth::SecretKey& key)>
void BenchGcm(benchmark::State& state, DataProtection protection, std::size_t bytes) {
  const auto gcm = kMake(auth::SecretKey::Random());
  if (gcm == nullptr) return state.SkipWithError("this system has no such library");
  const std::vector<std::byte> body(bytes);
  std::vector<std::byte> hidden(bytes);
  const bool hides = protection == DataProtection::encrypt;
  const Gcm::Text text = hides ? Gcm::Text{{}, {}, body, hidden.data()} : Gcm::Text{{}, body, {}};
  Gcm::Nonce nonce{};
  Gcm::Tag tag;
  for (auto _ : state) {
    ++nonce[0];
    benchmark::DoNotOptimize(gcm->Close(nonce, text, tag));
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * bytes));
}

void BenchSodium(benchmark::State& state, DataProtection protection, std::size_t bytes) {
  const auto key = auth::SecretKey::Random();
  const std::vector<unsigned char> body(bytes);
  std::vector<unsigned char> hidden(bytes);
  std::array<unsigned char, crypto_stream_chacha20_ietf_NONCEBYTES> nonce{};
  std::array<unsigned char, crypto_onetimeauth_KEYBYTES> once;
  std::array<unsigned char, crypto_onetimeauth_BYTES> tag;
  const bool hides = protection == DataProtection::encrypt;
  for (auto _ : state) {
    ++nonce[0];
    // A key for each proof, as RFC 8439 makes it.
    crypto_stream_chacha20_ietf(once.data(), once.size(), nonce.data(), key.data());
    if (hides) crypto_stream_chacha20_ietf_xor_ic(hidden.data(), body.data(), bytes, nonce.data(), 1, key.data());
    crypto_onetimeauth(tag.data(), hides ? hidden.data() : body.data(), bytes, once.data());
    benchmark::DoNotOptimize(tag);
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * bytes));
}

const bool registered = [] {
  const auto add = [](const char* library, const char* name, auto bench, DataProtection protection, std::size_t bytes) {
    benchmark::RegisterBenchmark(fmt::format("{}/{}/bytes:{}", library, name, bytes).c_str(),
                                 [=](benchmark::State& state) { bench(state, protection, bytes); });
  };
  for (const std::size_t bytes : {64, 4096, 262'144}) {
    for (const auto& [name, protection] :
         {std::pair{"authenticate", DataProtection::authenticate}, std::pair{"encrypt", DataProtection::encrypt}}) {
      add("openssl", name, BenchGcm<OpensslGcm>, protection, bytes);
      add("ipsec_mb", name, BenchGcm<IpsecMbGcm>, protection, bytes);
      add("libsodium", name, BenchSodium, protection, bytes);
    }
  }
  return true;
}();

}  // namespace
}  // namespace tutti::tcp
