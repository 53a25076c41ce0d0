// Signed bundles through the C ABI: whose kernels a context takes.
// SPDX-License-Identifier: Apache-2.0
#include <fstream>
#include <iterator>

#include "tests/abi/support.h"

namespace quern::test {
namespace {

class Keys : public testing::Test {
 protected:
  void SetUp() override {
    const Context maker = make_context(folder, 0);
    const std::string manifest = scale_line("host");
    auto options = sized<quern_warm_options>();
    options.manifest = manifest.c_str();
    options.manifest_length = manifest.size();
    auto error = sized<quern_error>();
    ASSERT_EQ(quern_warm(maker.get(), &options, nullptr, &error), QUERN_OK) << error.text;
    ASSERT_EQ(quern_cache_export(maker.get(), bundle.c_str(), nullptr, nullptr, &error), QUERN_OK) << error.text;
    ASSERT_EQ(quern_keys_make(secret, open, &error), QUERN_OK) << error.text;
    ASSERT_EQ(quern_keys_make(other_secret, other_open, &error), QUERN_OK) << error.text;
  }

  // What a context that trusts `key` alone says when it is asked for the kernel and must not compile.
  std::int32_t ask(const char* key, std::uint32_t flags = QUERN_CONTEXT_SIGNED_ONLY) const {
    const char* const bundles[] = {bundle.c_str()};
    const char* const keys[] = {key};
    const Context context = make_context(folder, kDLCPU, [&](quern_context_options& options) {
      options.flags |= flags;
      options.miss_policy = QUERN_MISS_CACHED_ONLY;
      options.bundles = bundles;
      options.bundle_count = 1;
      options.trusted_keys = keys;
      options.trusted_key_count = 1;
    });
    const ScaleDesc scale;
    quern_kernel* kernel = nullptr;
    return quern_kernel_prepare(context.get(), &scale.desc, &kernel, nullptr);
  }

  const Folder folder;
  const std::string bundle = folder.path("kernels.quern");
  char secret[65] = "", open[65] = "", other_secret[65] = "", other_open[65] = "";
};

TEST_F(Keys, NothingUnsignedIsConsulted) {
  EXPECT_EQ(ask(open), QUERN_MISS) << "it is in the cache file and in a bundle, and nobody has signed either";
  ASSERT_EQ(quern_bundle_sign(bundle.c_str(), other_secret, nullptr), QUERN_OK);
  EXPECT_EQ(ask(open), QUERN_MISS);
  EXPECT_EQ(ask(other_open), QUERN_OK);
  ASSERT_EQ(quern_bundle_sign(bundle.c_str(), secret, nullptr), QUERN_OK);
  EXPECT_EQ(ask(open), QUERN_OK);
  EXPECT_EQ(ask(other_open), QUERN_OK) << "both signatures stand, so that trust can move";
  char again[65] = "";
  ASSERT_EQ(quern_keys_public(secret, again, nullptr), QUERN_OK);
  EXPECT_STREQ(again, open);
}

// The attack: another image of the same length, with whatever sums fit.
TEST_F(Keys, AChangedBundleIsNotTaken) {
  ASSERT_EQ(quern_bundle_sign(bundle.c_str(), secret, nullptr), QUERN_OK);
  std::ifstream file(bundle, std::ios::binary);
  std::string bytes{std::istreambuf_iterator<char>(file), {}};
  for (const std::size_t at : {std::size_t{20}, std::size_t{100}, bytes.size() / 2, bytes.size() - 3}) {
    std::string bad = bytes;
    bad[at] = static_cast<char>(bad[at] ^ 1);
    std::ofstream(bundle, std::ios::binary) << bad;
    EXPECT_EQ(ask(open), QUERN_MISS) << at;
  }
  std::ofstream(bundle, std::ios::binary) << bytes;
  EXPECT_EQ(ask(open), QUERN_OK);
}

TEST_F(Keys, WrongOnesAreRefusedByName) {
  const auto create = [&](const std::function<void(quern_context_options&)>& change, quern_error* error) {
    auto options = sized<quern_context_options>();
    change(options);
    quern_context* context = nullptr;
    return quern_context_create(&options, &context, error);
  };
  expect_refused(QUERN_INVALID, {"QUERN_CONTEXT_SIGNED_ONLY", "trusted_keys"}, [&](quern_error* error) {
    return create([](quern_context_options& options) { options.flags = QUERN_CONTEXT_SIGNED_ONLY; }, error);
  });
  static const char* const bad[] = {"0123"};
  expect_refused(QUERN_INVALID, {"trusted_keys[0]", "0123", "64 hexadecimal digits"}, [&](quern_error* error) {
    return create([](quern_context_options& options) { options.trusted_keys = bad, options.trusted_key_count = 1; },
                  error);
  });
  expect_refused(QUERN_INVALID, {"trusted_keys is NULL"}, [&](quern_error* error) {
    return create([](quern_context_options& options) { options.trusted_key_count = 1; }, error);
  });
  expect_refused(QUERN_INVALID, {"secret_key"},
                 [&](quern_error* error) { return quern_bundle_sign(bundle.c_str(), "secret", error); });
  expect_refused(QUERN_NOT_FOUND, {"/nowhere.quern"},
                 [&](quern_error* error) { return quern_bundle_sign("/nowhere.quern", secret, error); });
  std::ofstream(folder.path("text")) << std::string(200, 'x');
  expect_refused(QUERN_DAMAGED, {"not a bundle"},
                 [&](quern_error* error) { return quern_bundle_sign(folder.path("text").c_str(), secret, error); });
}

}  // namespace
}  // namespace quern::test
