// A cache whose writers share a key: what others have written, or changed, is never handed out.
// SPDX-License-Identifier: Apache-2.0
#include "cache/checksum.h"
#include "tests/cache/fixture.h"

namespace quern::cache::testing {
namespace {

class MacTest : public CacheTest {
 protected:
  StoreOptions keyed(unsigned char first) {
    StoreOptions options = this->options();
    options.mac_key.emplace();
    options.mac_key->fill(7);
    options.mac_key->front() = first;
    return options;
  }
};

// Of RFC 7693's BLAKE2b with a key, as Python's hashlib computes it: what is stored by one library is read by another.
TEST_F(MacTest, IsBlake2bOfTheEntry) {
  MacKey key{};
  for (std::size_t i = 0; i < key.size(); ++i) key[i] = static_cast<unsigned char>(i);
  const Checksum sum = seal_entry(key, make_key(1), make_entry(1, 10));
  EXPECT_NE(sum, checksum_entry(make_key(1), make_entry(1, 10)));
  EXPECT_EQ(to_hex(key_from_bytes(sum.data())), "d507ad90ac2d2c0d92e4ef14be337c7d");
  EXPECT_EQ(seal_entry({}, make_key(1), make_entry(1, 10)), checksum_entry(make_key(1), make_entry(1, 10)));
}

TEST_F(MacTest, EveryFieldAndEveryBitOfTheKeyCounts) {
  MacKey key{};
  const Entry entry = make_entry(3, 10);
  const Checksum sum = seal_entry(key, make_key(3), entry);
  for (std::size_t bit = 0; bit < 8 * key.size(); ++bit) {
    MacKey other = key;
    other[bit / 8] ^= static_cast<unsigned char>(1 << bit % 8);
    EXPECT_NE(seal_entry(other, make_key(3), entry), sum);
  }
  const auto differs = [&](const std::function<void(Entry&)>& change) {
    Entry changed = entry;
    change(changed);
    EXPECT_NE(seal_entry(key, make_key(3), changed), sum);
  };
  for (std::string Entry::* field : {&Entry::text, &Entry::op, &Entry::target, &Entry::entry_name, &Entry::image,
                                     &Entry::compiler_kind, &Entry::compiler_build, &Entry::log})
    differs([&](Entry& e) { (e.*field).back() ^= 1; });
  differs([](Entry& e) { e.kind = Kind::tuning; });
  differs([](Entry& e) { e.compile_ms += 1; });
  differs([](Entry& e) { e.registers += 1; });
  differs([](Entry& e) { e.shared_bytes += 1; });
  differs([](Entry& e) { e.local_bytes += 1; });
  differs([](Entry& e) { e.created += 1; });
  // No byte can move from one field to the next.
  differs([](Entry& e) { e.op += e.target.front(), e.target.erase(0, 1); });
  EXPECT_NE(seal_entry(key, make_key(4), entry), sum);
}

TEST_F(MacTest, WhoHasAnotherKeyIsRefused) {
  {
    Store ours(keyed(1));
    EXPECT_TRUE(put(ours, 1));
    EXPECT_TRUE(hit(ours, 1));
  }
  Store ours(keyed(1)), theirs(keyed(2)), nobodys(options());
  EXPECT_TRUE(hit(ours, 1));
  EXPECT_TRUE(miss(theirs, 1));
  EXPECT_TRUE(miss(nobodys, 1));
  EXPECT_TRUE(told("does not verify")) << "it is told";
  // Written by others, with their sums right: not for us, and made again.
  EXPECT_TRUE(put(nobodys, 2));
  EXPECT_TRUE(hit(nobodys, 2));
  EXPECT_TRUE(miss(ours, 2));
  EXPECT_TRUE(put(ours, 2));
  EXPECT_TRUE(hit(ours, 2));
}

// The attack: whoever may write the folder puts another image under a key, with the sum that belongs to it.
TEST_F(MacTest, AnImageThatWasSwappedIsNotLoaded) {
  {
    Store ours(keyed(1));
    ASSERT_TRUE(put(ours, 1));
  }
  {
    Store attacker(options());
    Entry forged = make_entry(1);
    forged.image = make_bytes(666, 5000);
    ASSERT_EQ(attacker.put(make_key(1), forged), Put::stored);
  }
  Store ours(keyed(1));
  EXPECT_TRUE(miss(ours, 1));
  Store unprotected(options());
  Entry got;
  EXPECT_TRUE(unprotected.get(make_key(1), make_entry(1).text, "", &got)) << "without a key it is a hit";
}

TEST_F(MacTest, VerifyingAndRebuildingHoldToTheKey) {
  {
    Store theirs(keyed(2));
    for (std::uint64_t number = 1; number <= 3; ++number) ASSERT_TRUE(put(theirs, number));
    Store ours(keyed(1));
    for (std::uint64_t number = 4; number <= 5; ++number) ASSERT_TRUE(put(ours, number));
  }
  Store ours(keyed(1));
  AdminError error;
  std::size_t bad = 0;
  for (const Finding& finding : ours.verify(&error)) bad += finding.ok ? 0 : 1;
  EXPECT_EQ(error.what, AdminError::What::damaged);
  EXPECT_EQ(bad, 3u);
  TrimOptions rebuild;
  rebuild.rebuild = true;
  ASSERT_EQ(ours.trim(rebuild, nullptr).what, AdminError::What::none);
  ours.verify(&error);
  EXPECT_EQ(error.what, AdminError::What::none) << error.text;
  for (std::uint64_t number = 1; number <= 5; ++number) EXPECT_EQ(hit(ours, number), number >= 4) << number;
}

}  // namespace
}  // namespace quern::cache::testing
