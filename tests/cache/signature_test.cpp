// Bundles that are signed, and those that are not: what is taken, and what of an attack is refused.
// SPDX-License-Identifier: Apache-2.0
#include "cache/signature.h"

#include <sys/stat.h>

#include "cache/bundle.h"
#include "cache/checksum.h"
#include "tests/cache/fixture.h"

namespace quern::cache::testing {
namespace {

class SignatureTest : public CacheTest {
 protected:
  std::string bundle() const { return root_ + "/bundle"; }
  void make_bundle() {
    Store store(options());
    for (std::uint64_t number = 1; number <= 3; ++number) ASSERT_TRUE(put(store, number));
    ASSERT_EQ(store.export_bundle(bundle(), nullptr, nullptr).what, AdminError::What::none);
  }
  StoreOptions trusting(std::vector<PublicKey> keys) {
    StoreOptions options = this->options();
    options.bundles = {bundle()};
    options.trusted_keys = std::move(keys);
    options.signed_only = true;
    return options;
  }
  // An entry as a bundle gives it: without times and log.
  static bool serves(const StoreOptions& options, std::uint64_t number) {
    Store store(options);
    Entry got;
    const bool found = store.get(make_key(number), make_entry(number).text, "", &got);
    store.deliver();
    EXPECT_TRUE(!found || got.image == make_entry(number).image);
    return found;
  }
};

// RFC 8032, section 7.1, tests 1 and 2.
TEST_F(SignatureTest, IsThatOfTheRfc) {
  const struct {
    const char *secret, *open, *message, *signature;
  } kTests[] = {{"9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
                 "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", "",
                 "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf"
                 "5f0595bbe246"
                 "55141438e7a100b"},
                {"4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
                 "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c", "\x72",
                 "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2"
                 "eaeb4302aee"
                 "b00d291612bb0c00"}};
  for (const auto& test : kTests) {
    const SecretKey secret = *read_key(test.secret);
    EXPECT_EQ(key_text(public_key_of(secret)), test.open);
    const Signature signature = sign(secret, test.message);
    std::string hex;
    for (std::size_t half = 0; half < 2; ++half) {
      std::array<unsigned char, 32> part{};
      std::copy_n(signature.begin() + static_cast<std::ptrdiff_t>(32 * half), 32, part.begin());
      hex += key_text(part);
    }
    EXPECT_EQ(hex, test.signature);
    EXPECT_TRUE(is_signed(*read_key(test.open), signature, test.message));
    EXPECT_FALSE(is_signed(*read_key(test.open), signature, "other"));
  }
}

TEST_F(SignatureTest, KeysAreSixtyFourDigits) {
  const KeyPair pair = make_key_pair();
  EXPECT_EQ(*read_key(key_text(pair.open)), pair.open);
  EXPECT_NE(make_key_pair().secret, pair.secret);
  const std::string text = key_text(pair.open);
  for (const std::string& bad : {std::string(), text + "0", text.substr(1), "g" + text.substr(1)})
    EXPECT_FALSE(read_key(bad).has_value()) << bad;
}

TEST_F(SignatureTest, OnlyWhatATrustedKeyHasSignedIsServed) {
  make_bundle();
  const KeyPair ours = make_key_pair(), theirs = make_key_pair();
  EXPECT_FALSE(serves(trusting({ours.open}), 1)) << "nothing is signed, neither the bundle nor the cache file";
  EXPECT_TRUE(told("is not signed")) << notices().back();
  sign_bundle(bundle(), theirs.secret);
  EXPECT_FALSE(serves(trusting({ours.open}), 1));
  EXPECT_TRUE(told("not signed by a key that is trusted here"));
  sign_bundle(bundle(), ours.secret);
  EXPECT_TRUE(serves(trusting({ours.open}), 1));
  EXPECT_TRUE(serves(trusting({theirs.open}), 2)) << "both signatures stand: keys can be rotated";
  EXPECT_TRUE(serves(trusting({make_key_pair().open, ours.open}), 3));
  const std::string once = read_file(bundle());
  sign_bundle(bundle(), ours.secret);
  EXPECT_EQ(read_file(bundle()), once) << "a key signs once";
  // Who trusts nobody in particular reads it as well.
  StoreOptions plain = options();
  plain.no_file = true;
  plain.bundles = {bundle()};
  EXPECT_TRUE(serves(plain, 1));
}

// The attack: an image is exchanged and every checksum made to fit.
TEST_F(SignatureTest, WhatWasChangedBehindASignatureIsRefused) {
  make_bundle();
  const KeyPair ours = make_key_pair();
  sign_bundle(bundle(), ours.secret);
  const std::string good = read_file(bundle());
  {
    // The whole bundle made anew with another image, and the old signature put behind it.
    StoreOptions evil = options();
    evil.folder = root_ + "/evil";
    Store store(evil);
    Entry entry = make_entry(1);
    entry.image = make_bytes(99, 5000);
    ASSERT_EQ(store.put(make_key(1), entry), Put::stored);
    for (std::uint64_t number = 2; number <= 3; ++number) ASSERT_TRUE(put(store, number));
    ASSERT_EQ(store.export_bundle(root_ + "/evil.bundle", nullptr, nullptr).what, AdminError::What::none);
  }
  write_file(bundle(), read_file(root_ + "/evil.bundle") + good.substr(good.size() - 112));
  EXPECT_FALSE(serves(trusting({ours.open}), 1));
  EXPECT_FALSE(serves(trusting({ours.open}), 2));
  {
    // One record exchanged in place, its own sum fitting: the index, which is signed, still has the old SHA-256.
    std::string bad = good;
    Entry entry = make_entry(1);
    entry.created = 0;
    entry.compile_ms = 0;
    entry.log.clear();
    const std::size_t at = bad.find(entry.image);
    ASSERT_NE(at, std::string::npos);
    entry.image = make_bytes(99, 5000);
    bad.replace(at, entry.image.size(), entry.image);
    const auto sum = checksum_entry(make_key(1), entry);
    const Bundle opened(bundle(), {});
    write_file(bundle(), good);
    const std::size_t record = Bundle(bundle(), {}).slot(make_key(1))->offset;
    bad.replace(record, sum.size(), reinterpret_cast<const char*>(sum.data()), sum.size());
    write_file(bundle(), bad);
  }
  EXPECT_FALSE(serves(trusting({ours.open}), 1));
  EXPECT_TRUE(serves(trusting({ours.open}), 2)) << "the other records are what was signed";
  for (std::size_t at = 0; at < 64 + 3 * 64; at += 7) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 4);
    write_file(bundle(), bad);
    EXPECT_FALSE(serves(trusting({ours.open}), 2)) << at;
  }
  for (std::size_t at = good.size() - 112; at < good.size(); ++at) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 4);
    write_file(bundle(), bad);
    EXPECT_FALSE(serves(trusting({ours.open}), 1)) << at;
  }
  write_file(bundle(), good.substr(0, good.size() - 1));
  EXPECT_FALSE(serves(trusting({ours.open}), 1));
}

TEST_F(SignatureTest, TheCacheFileIsNotConsulted) {
  make_bundle();
  const KeyPair ours = make_key_pair();
  StoreOptions only = trusting({ours.open});
  only.bundles.clear();
  Store store(only);
  EXPECT_TRUE(miss(store, 1)) << "it is in the file, which nobody has signed";
  EXPECT_FALSE(put(store, 9));
}

TEST_F(SignatureTest, ImportingNeedsTheSameTrust) {
  make_bundle();
  const KeyPair ours = make_key_pair();
  StoreOptions careful = options();
  careful.folder = root_ + "/other";
  careful.trusted_keys = {ours.open};
  Store store(careful);
  EXPECT_EQ(store.import_bundle(bundle(), nullptr).what, AdminError::What::refused);
  sign_bundle(bundle(), ours.secret);
  EXPECT_EQ(store.import_bundle(bundle(), nullptr).what, AdminError::What::none);
  EXPECT_EQ(store.stats().entries, 3u);
}

TEST_F(SignatureTest, AnUnsignedBundleIsHeldToOwnerAndMode) {
  make_bundle();
  StoreOptions plain = options();
  plain.no_file = true;
  plain.bundles = {bundle()};
  for (const mode_t mode : {0666u, 0660u, 0622u}) {
    ASSERT_EQ(chmod(bundle().c_str(), mode), 0);
    EXPECT_FALSE(serves(plain, 1)) << mode;
    EXPECT_TRUE(told("can be written by others"));
    Store store(options());
    EXPECT_EQ(store.import_bundle(bundle(), nullptr).what, AdminError::What::refused);
  }
  StoreOptions shared = plain;
  shared.shared_folder = true;
  EXPECT_TRUE(serves(shared, 1)) << "who says so takes it";
  for (const mode_t mode : {0644u, 0600u, 0444u}) {
    ASSERT_EQ(chmod(bundle().c_str(), mode), 0);
    EXPECT_TRUE(serves(plain, 1)) << mode;
  }
  if (geteuid() != 0) GTEST_SKIP() << "only root can give a file away";
  ASSERT_EQ(chown(bundle().c_str(), 12345, 12345), 0);
  EXPECT_FALSE(serves(plain, 1));
  EXPECT_TRUE(told("belongs to user 12345"));
  // A signature makes the owner nobody's business.
  const KeyPair ours = make_key_pair();
  ASSERT_EQ(chown(bundle().c_str(), 0, 0), 0);
  sign_bundle(bundle(), ours.secret);
  ASSERT_EQ(chmod(bundle().c_str(), 0666), 0);
  ASSERT_EQ(chown(bundle().c_str(), 12345, 12345), 0);
  EXPECT_TRUE(serves(trusting({ours.open}), 1));
}

TEST_F(SignatureTest, ADamagedBundleIsNotSigned) {
  make_bundle();
  const std::string good = read_file(bundle());
  std::string bad = good;
  bad[bad.size() - 10] = static_cast<char>(bad[bad.size() - 10] ^ 1);
  write_file(bundle(), bad);
  EXPECT_THROW(sign_bundle(bundle(), make_key_pair().secret), BundleError);
  EXPECT_EQ(read_file(bundle()), bad);
  EXPECT_THROW(sign_bundle(root_ + "/absent", make_key_pair().secret), BundleError);
}

}  // namespace
}  // namespace quern::cache::testing
